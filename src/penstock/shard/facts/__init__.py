"""The facts of relations on their way to the shards of a join, and there.

`values` numbers what links compare, `coverage` says in which shards a value has active facts, `routing` sends rows there; `known` is all
that a worker has of the relations, and `sent` how it gets there; `followed` is a relation that changes, and `shard_facts` what a shard has
seen of it; `weights` is what facts weigh. Imports core, relation, and of the shard what packs rows and numbers keys.
"""
