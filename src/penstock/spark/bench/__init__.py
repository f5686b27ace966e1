"""`penstock bench spark`: contenders for one job, one after the other on one session.

Imports core, relation, session and join.
"""
