"""`penstock plan`: how much memory a join of the user's own streams needs, under which policy, in how many shards.

`key_sample` cuts a large trace down by its keys, `blocks` plays a join and counts by stretches of time, from which `estimate` makes a
recall with its interval; `replays` plays memories and policies, and `memory_search` finds the smallest memory; `streams` says what the
streams are like; `plan` puts it together, `answer` says it in sentences and code, `picture` draws it, in the look of the
charts of experiments. Imports core, engine, statistics, policies, simulator, optimum, shard and experiments.
"""
