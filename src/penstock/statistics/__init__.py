"""Where probabilities come from: `whole`, `window`, `decayed`, `given`, `sketch` (docs/readings.md, policies).

One file per source; `table` lists them and opens the one that a problem asks for. Imports core and engine.
"""
