"""The loss meter of a shard: how many outputs were lost, and how sure that is.

`meter` plays ghosts of what was shed in a `shadow` engine; `past_rows` knows what late rows have missed; where there are too many ghosts,
`sample` keeps some, and `interval` says how far the truth may lie. Imports core, engine, statistics, policies, and of the
shard facts and how counts add up; never PySpark.
"""
