"""`penstock bench`: how fast the join core is, and the join on Spark beside others, as commands and as tables.

Imports cli, core, experiments, policies, shard and spark.
"""
