"""`ps.stream` and `ps.join`: arguments checked, a plan made, and the plan as stages of a Spark query.

`join` assembles: rows are packed (`stream`), sent by their `routes`, played in the `processor`, and pass the `gate`. `planning` makes all
choices before anything runs, and `explain` shows them. Imports session and observe, and of the rooms below core, engine, ledger,
multiway, pipeline, policies, relation, shard and statistics.
"""
