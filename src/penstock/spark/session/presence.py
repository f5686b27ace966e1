"""Whether the PySpark that joins need is there, and what to install where it is not: a cluster brings its own, the simulator needs none."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from penstock.core.errors import PenstockError

LEAST = (4, 0)
GENERATOR = (4, 2)
"""The first version of Spark that passes a source in Python where a batch begins, and lets it say where the batch ends."""
_BESIDE = {"pandas": "pandas", "google.protobuf": "protobuf"}
"""What PySpark's stateful processors import and PySpark itself does not install, by module."""
_REMEDY = "pip install 'penstock-spark[spark]'"


def missing_pyspark() -> str | None:
    """One sentence on what is missing and how to get it, or None if nothing is."""
    wanted = ".".join(map(str, LEAST))
    try:
        from pyspark import __version__ as version
    except ImportError:
        return f"Spark joins need PySpark {wanted} or newer, which is not installed: {_REMEDY}"
    if version_of(version) < LEAST:
        return f"Spark joins need PySpark {wanted} or newer, got {version}: {_REMEDY}"
    lacking = [name for module, name in _BESIDE.items() if not _is_there(module)]
    if lacking:
        return f"Spark joins need {' and '.join(lacking)} beside PySpark, not installed here: {_REMEDY}, or install what is missing"
    return None


def too_old(what: str, least: tuple[int, int]) -> str | None:
    """One sentence if the PySpark that is there lacks what something needs, or None.

    >>> too_old("a join", (4, 0)), too_old("a wish", (99, 0)).partition(", got")[0]
    (None, 'a wish needs Spark 99.0 or newer')
    """
    from pyspark import __version__ as version

    return None if version_of(version) >= least else f"{what} needs Spark {least[0]}.{least[1]} or newer, got {version}"


def version_of(text: str) -> tuple[int, int]:
    """Major and minor.

    >>> version_of("4.0.2-amzn-0") < (4, 1) < version_of("4.10.0")
    True
    """
    major, minor, *_ = text.split(".")
    return int(major), int(minor)


def on_spark(module: str, name: str) -> Any:
    """`name` of a module of this package; without PySpark, a function that says what to install when it is called."""
    lacking = missing_pyspark()
    return getattr(import_module(f"penstock.spark.{module}"), name) if lacking is None else _refusal(name, lacking)


def _refusal(name: str, lacking: str) -> Callable[..., None]:
    def refuse(*_: Any, **__: Any) -> None:
        raise PenstockError(f"ps.{name}: {lacking}")

    refuse.__name__, refuse.__doc__ = name, f"Not available: {lacking}."
    return refuse


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in is not there
        return False
