"""Where probabilities come from, and what is learned of how soon keys come again (docs/readings.md, policies).

One file per source; `table` lists them and opens the one that a problem asks for. Imports core and engine.
"""
