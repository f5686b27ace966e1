"""What plays a problem, instant by instant: the contract of an engine, and its two forms.

`contract` says what an engine does, and what it asks of a policy and of statistics; `opening` chooses the form. `compiled/` is the fast
one, `stepwise` the plain one for whatever has a user's Python in it. `view` is what a policy sees, `run` the result. Imports core.
"""
