"""A checked pipeline file as a running query: sources, streams, join, sink.

Imports join, session, pipeline and generator.
"""
