"""Experiments: what is measured, and how it is drawn. The only place that imports a plotting library.

Imports core, engine, generator, multiway, optimum, pipeline, policies, relation, simulator, spark, static and statistics.
"""
