"""The ledger of a join: what arrived in each shard and what left it when, in files that anybody may check. No Spark.

Pages and their manifests are written per batch and shard; `attempts` and `epochs` say which of them count, `settled_marks` what is
settled, `settlement_pages` what a settlement reads, `verify` and `pruning` are for those who look after an archive. Imports core.
"""
