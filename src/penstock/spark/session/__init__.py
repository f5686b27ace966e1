"""A Spark session that has Java, the right PySpark, and nothing to say that a user need not read.

Imports core, of the shard what a parcel is, and the simulator where the driver compiles for its cluster.
"""
