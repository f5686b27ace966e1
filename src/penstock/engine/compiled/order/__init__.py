"""Who leaves first: the ranks of tuples, their order in a class, and the tournaments of classes.

`ranking` compares two tuples, `heaps` orders those of a class, `tournament` and `kinetic` the classes, by `sort_key` as far as that goes.
Imports core and, of the engine, the codes of rankings; of `compiled` the arrays and the clocks of keys.
"""
