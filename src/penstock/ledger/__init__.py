"""The ledger of a join: what arrived in each shard and what left it when, in files that anybody may check. No Spark.

Pages and their manifests are written per batch and shard; `attempts` and `epochs` say which of them count, `marks` what is settled,
`choice` what a settlement reads, `verify` and `pruning` are for those who look after an archive. Imports core.
"""
