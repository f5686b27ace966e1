"""The experiments of the five papers, one small file per group of figures, and those that go beyond them.

`table` has them all by name; `real_data` reads the real streams. Adding one is a declaration: what cells play, along which axes, and the
claims with their checks. Imports core, engine, generator, multiway, optimum, relation, simulator, static, cells and experiments.
"""
