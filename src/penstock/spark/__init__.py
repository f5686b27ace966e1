"""Penstock on Spark: the transport around a shard. No algorithms live here, and PySpark is imported nowhere else.

`session` and `observe` are at the bottom, `join` stands on them, `settle`, `reshard` and `static` stand beside each other above it;
`pipeline`, `watch` and `bench` are on top. There is no file beside them. Imports nothing.
"""
