"""How partners are found through relations: facts by value and time, tuples by value, and what is counted of both.

`compiled_facts` holds what is known, `finding_facts` looks a value's facts up, `chains` has the tuples of each value in the order of time,
`prefilter` prepares rows, `fact_counts` prices tuples, and `endings` takes back what a deleted fact counted. Imports core, `order` and
`linked`, of engine the contract, and of `compiled` the arrays and the prices, and not the loop.
"""
