"""The content of a pipeline file without mistakes, for tests to change."""

from __future__ import annotations

from typing import Any

GOOD: dict[str, Any] = {
    "sources": {"shop": {"kind": "generator", "streams": ["v", "o"], "ticks": 10}},
    "streams": {
        "v": {"source": "shop", "time": "time", "window": "10 minutes", "where": "stream = 'v'"},
        "o": {"source": "shop", "time": "time", "window": "none", "lateness": "1.5 s", "key": ["key"]},
    },
    "join": {"on": "key", "memory": 100, "half_life": "5 minutes"},
    "sink": {"kind": "memory"},
}
FILES = {"sink": {"kind": "csv", "path": "out", "checkpoint": "state"}}
