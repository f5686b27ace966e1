"""Policies: who leaves when memory is full. One small file each; `table.POLICIES` lists them.

A policy is a score in plain NumPy, and, where it can be compiled, a `Ranking`. Imports core and engine.
"""
