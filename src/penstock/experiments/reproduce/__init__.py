"""`penstock reproduce`: plays the cells of experiments, checks their claims, draws their figures.

`cell_store` keeps the cells that were played, `runner` plays what is missing, `verdicts` says which claims hold, `chart` and `report` draw
it. Imports core, catalog, cells and experiments.
"""
