"""How functions are compiled: which code is optimised where and for which processor, and which process compiles.

`parts` has Numba optimise a function once, with all that it calls, and `known_types` keeps it from searching twice. `turn` lets one process
of a machine compile at a time, `archive` carries code to machines that have none, `owned_folder` is a place that nobody else writes to.
`core/compiled.py` puts them together. Imports nothing else of Penstock.
"""
