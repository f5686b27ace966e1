"""A checked pipeline file as a running query: sources, streams, join, sink.

Imports join, session, and of the rooms below core, generator, ledger, relation, shard, and pipeline, which has read the file.
"""
