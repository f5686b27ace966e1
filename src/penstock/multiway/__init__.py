"""Joins of many streams: algorithms, their cost, and in which order (Golab).

The exact join and its strategies are compiled loops of their own; the cost model and the search need only numbers. Imports core and
engine.
"""
