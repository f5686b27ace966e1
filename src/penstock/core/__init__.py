"""The nouns of a join: traces, windows, budgets, predicates, values, batches, and the problem that holds them together.

Everything else is built of them. Beside them is what all rooms share: the one error class, rounding, tables in files, compiled functions
and where their machine code is kept. Imports no other room. NumPy, PyArrow and Numba, nothing else.
"""
