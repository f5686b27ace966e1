"""How partners are found where keys do not tell: ordered indexes over what links compare, and what is counted there.

`ordered` is the index, `links` says what to look for in it and whether two tuples match, `partners` counts matches and prices by them, and
`past` does the same for arrivals that are gone. Imports core and `order`, and of
`compiled` the arrays and the prices, and not the loop.
"""
