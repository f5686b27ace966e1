"""Relations that streams are joined through: where their facts are read from, what is wrong with them, and their values as numbers.

`ps.relation` is the noun of a user. What a join through relations means is in docs/decisions/0031. Imports core.
"""
