"""Synthetic streams: seeded traces with chosen keys, times and importances.

`generate` has independent keys, `orders` has keys that visit the streams in an order. Imports core.
"""
