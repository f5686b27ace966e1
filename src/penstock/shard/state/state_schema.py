"""The columns of a shard's state in Spark: a head, and cells by kind and number (state_rows.py)."""

HEAD = "mark string, settings string, n_snapshot bigint, first_log bigint, next_log bigint, log_bytes bigint, n_null bigint"
CELL_KEY, CELL_VALUE = "kind string, number bigint", "cell binary"
