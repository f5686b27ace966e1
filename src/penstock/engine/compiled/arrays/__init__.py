"""The arrays of an engine: made, filled from columns and made columns again, grown, rated, left and taken up.

`allocate` makes them, `portable` has what is in them as columns. An engine is made in layers, each a class that knows those below:
`tuple_arrays`, `rated_arrays` by statistics, `related_arrays` by facts, `restorable_arrays` from snapshots and other engines. `worth`
weighs tuples between engines. Imports core, `facts`, `linked`, `order`, of engine the contract and codes, and of `compiled` what links
tuples and prices them, and not the loop.
"""
