"""One shard of a join, without Spark: an engine, the numbers of its keys, the payload of its tuples, and its loss meter.

`shard` puts them together; `cells` packs rows for the way to it, `keys` numbers keys, `state/` writes it into Spark's state.
`division` says what part of the memory a shard has, `late_rows` counts rows that come too late. Imports core, ledger, engine, statistics
and policies; never PySpark.
"""
