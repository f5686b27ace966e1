"""Experiments: what is measured, and how it is drawn. The only place that imports a plotting library.

Imports all rooms but the command line.
"""
