"""Where probabilities come from: `whole`, `window`, `decayed`, `given`, `sketch` (design 3)."""
