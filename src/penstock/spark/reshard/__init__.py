"""`penstock reshard`: the state in a checkpoint for another number of shards, rewritten offline.

Imports join, session, core, ledger, policies, and the rooms that know how what they keep is divided: engine, statistics, shard.
"""
