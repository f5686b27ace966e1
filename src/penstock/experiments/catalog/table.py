"""All experiments, by name, in the order of the papers."""

from __future__ import annotations

from penstock.experiments.catalog import (
    beyond,
    das_allocation,
    das_skew,
    das_static,
    das_weather,
    das_windows,
    golab_costs,
    golab_rates,
    kwon,
    ojewole_offline,
    ojewole_online,
    towne,
)
from penstock.experiments.cells.experiment import Experiment

PAPERS = {
    "das": "Das, Gehrke, Riedewald 2005: Semantic approximation of data stream joins",
    "ojewole": "Ojewole, Zhu, Hou 2006: Window join approximation over data streams with importance semantics",
    "towne": "Towne, Zhu, Zuzarte, Hou 2007: Window query processing for joining data streams with relations",
    "golab": "Golab, Özsu 2003: Processing sliding window multi-joins in continuous queries over data streams",
    "kwon": "Kwon, Lee, Kim, Kim 2010: Load shedding for multi-way stream joins based on arrival order patterns",
    "beyond": "Beyond the papers",
}
"""By the first word of the names of their experiments."""

_MODULES = (
    das_static,
    das_windows,
    das_skew,
    das_allocation,
    das_weather,
    ojewole_offline,
    ojewole_online,
    towne,
    golab_costs,
    golab_rates,
    kwon,
    beyond,
)
_ORDER = list(PAPERS)

CATALOG: dict[str, Experiment] = {
    one.name: one
    for one in sorted((one for module in _MODULES for one in module.EXPERIMENTS), key=lambda one: (_ORDER.index(one.paper), one.name))
}
