"""The file of a pipeline, read and checked without Spark: all of its mistakes together, each under its key.

`catalog` lists every key, `recipe` reads a file by it; `ddl`, `sql_words` and `sql_functions` judge schemas and SQL by their text.
Imports core, generator, ledger, statistics, policies and shard; never PySpark.
"""
