"""The shares of shards in the memory of their join: budgets that move to where tuples are worth most.

`worth` sums up what the tuples of a shard are worth, `moves` says from the summaries of all shards what each may hold next, `exchange`
hands summaries over through a folder. Imports core, ledger and engine; never PySpark.
"""
