"""A shard between two batches: as rows of Spark's state, and as it lies in memory, for the next process on this machine.

`state_rows` opens and saves it, `state_settings` says what it was made with and refuses other settings, `state_schema` has its columns,
`local_copy` spares most batches the reading. Imports core, ledger, policies, `shares`, and the shard itself.
"""
