"""`penstock relation` and `penstock lookup`: what looks after a relation, and the join of one stream with it.

Imports cli, core and relation, the last when a command runs.
"""
