"""The facts of relations on their way to the shards of a join, and there.

`values` numbers what links compare, `coverage` says in which shards a value has active facts, `routing` sends rows there; `known` is all
that a worker has of the relations, and `sent` how it gets there; `followed` is a relation that changes, and `shard_facts` what a shard has
seen of it; `unlinked` are rows that nothing links yet, and `recorded` what the ledger is told of such a relation; `weights` is what facts
weigh. Imports core, relation, ledger, and of the shard what packs rows and numbers keys.
"""
