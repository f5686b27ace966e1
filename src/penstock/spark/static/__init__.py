"""`ps.truncate` on DataFrames: Spark counts the keys, a plan is made on the driver, Spark truncates.

Imports join, session, and of the rooms below core and static.
"""
