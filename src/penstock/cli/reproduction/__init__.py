"""`penstock reproduce`: the experiments of the papers by name, and three larger studies with options of their own.

Imports cli, core, experiments and spark.
"""
