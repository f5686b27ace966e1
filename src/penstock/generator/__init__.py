"""Synthetic streams: seeded traces with chosen keys, times and importances.

`zipf` draws keys one by one, `orders` has keys that visit the streams in an order, `sessions` keys that live for a while; `sequel` puts
one kind after another. Imports core.
"""
