"""The file of a pipeline, read and checked without Spark: all of its mistakes together, each under its key.

`catalog` lists every key, `recipe` reads a file by it; `ddl`, `sql_words` and `sql_functions` judge schemas and SQL by their text.
`relations` checks what [relations.NAME] links. Imports core, generator, ledger, relation, statistics, policies and shard; never PySpark.
"""
