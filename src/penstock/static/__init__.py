"""Truncated joins of relations that stand still: which k tuples to keep, so that the most outputs remain (Das, section 3).

Histograms in, a plan per key out; no Spark and no engine. Imports core.
"""
