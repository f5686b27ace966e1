"""`penstock relation` and `penstock lookup`: what looks after a relation, and the join of one stream with it.

Imports relation and core, when a command runs.
"""
