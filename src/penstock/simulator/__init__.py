"""Trace + policy -> JoinRun, on one machine: `ps.simulate` and `ps.exact`.

`sharded` plays what Spark would play, one engine per shard. Imports the rooms that compute: core, generator, engine, statistics, policies,
optimum, multiway, relation, shard.
"""
