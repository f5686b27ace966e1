"""The join step, in its forms: an arrival meets what is in memory, and is linked into it.

`by_keys` finds partners by the ring of a key, `by_links` in ordered indexes, `by_facts` through relations. Imports core, `facts`, `linked`,
`order`, of engine the arrays of facts, and of `compiled` the memory, the probe and the prices, and not the loop.
"""
