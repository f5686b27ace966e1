"""The compiled engine: arrays, and the loop over them.

`engine` hands batches to `play`, the loop: expire, join, rank, let in, shed. `layers/` is what it holds, `memory` links the tuples,
`joining/` joins by key, by links (`linked/`) and through relations (`facts/`), `order/` says who leaves first; `state` is the record of
addresses that all of it works on. Imports core, and of engine the contract.
"""
