"""Relations that streams are joined through: where their facts are read from, what is wrong with them, and their values as numbers.

`ps.relation` is the noun of a user, `ps.lookup` the join of a stream with it. What a join through relations means is in decision 0031.
Databases are read by `embedded` and `postgres`; `record` keeps the history of what has none (docs/relations.md). Imports core and ledger.
"""
