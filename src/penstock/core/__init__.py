"""The join core: traces, windows, budgets, predicates, values, and the engine that plays instants. NumPy, PyArrow, Numba, nothing else."""
