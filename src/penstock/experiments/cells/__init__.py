"""What experiments are made of: a cell is one number, an experiment a table of cells with the paper's claims.

`cell`, `experiment` and `results` are the nouns; `checks` has one function per kind of claim, and `joins` what cells play. Imports core,
engine, generator, optimum, policies, relation, simulator and experiments.
"""
