"""What a shard returns of a batch: its joined rows, its rows for the ledger, and how many outputs it may make.

Imports core, engine, and of the shard its plan and what holds its rows and facts (`cells`, `payload`,
`stream_window`, `waiting_rows`, `facts`).
"""
