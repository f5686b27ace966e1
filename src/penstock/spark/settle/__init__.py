"""`ps.settle` and `ps.debt`: what a join owes, as a batch query over its ledger.

Imports join, session, and of the rooms below core, engine, ledger and shard.
"""
