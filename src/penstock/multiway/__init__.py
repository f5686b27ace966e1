"""Joins of many streams: algorithms, their cost, and in which order."""
