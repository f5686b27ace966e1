"""What a running query says of itself: its metrics, its progress, warnings, and where it reads and writes.

Imports core, ledger, policies, shard and session.
"""
