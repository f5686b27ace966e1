"""The compiled engine: arrays, and the loop over them.

`play` is the loop: expire, join, rank, let in, shed. `memory` holds the tuples, `joining/` joins by key, by links (`linked/`) and through
relations (`facts/`), `order/` says who leaves first; `state` is the record of addresses that all of it works on. Imports core, and of
engine the contract.
"""
