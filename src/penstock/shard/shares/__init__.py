"""The shares of shards in the memory of their join: budgets that move to where tuples are worth most.

`worth_summary` sums up what the tuples of a shard are worth, `next_shares` says from the summaries of all shards what each may hold next,
`exchange` hands summaries over through a folder. `joint_budget` is the memory of several joins. Imports core, ledger, engine, and of the
shard what a tuple takes and how joins are named; never PySpark.
"""
