"""The layers that an engine is made of, around its arrays: made, grown, rated, as columns, left and taken up.

`allocate` makes them, `portable` has what is in them as columns. Each layer is a class that knows those below:
`tuple_arrays`, `rated_arrays` by statistics, `related_arrays` by facts, `restorable_arrays` from snapshots and other engines. `worth`
weighs tuples between engines. Imports core, `facts`, `linked`, `order`, of engine the contract, and of `compiled` what links tuples and
prices them, and not the loop.
"""
