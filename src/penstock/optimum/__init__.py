"""The optimum: the best that any policy could have done, all future known, and the schedule that does it (docs/optimum.md).

Imports core, engine, relation, statistics and policies: a schedule is replayed by the ordinary engine with the policy `opt`.
"""
