"""Penstock on Spark: the transport around the engine. No algorithms live here, and PySpark is imported nowhere else."""
