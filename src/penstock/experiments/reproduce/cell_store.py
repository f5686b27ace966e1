"""The cells that were played, in a folder: a Parquet file per part, appended as parts are done, so that a run goes on where it was stopped.

A row has the cell, its number, and the versions that it was played with. Rows of other versions are not used: they are played again.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from penstock.core.errors import PenstockError
from penstock.experiments.catalog.table import CATALOG
from penstock.experiments.cells.cell import Cell
from penstock.experiments.policy_table import data_folder

FOLDER = "cells"
_SCHEMA = pa.schema(
    [
        ("experiment", pa.string()),
        ("panel", pa.string()),
        ("line", pa.string()),
        ("x", pa.string()),
        ("seed", pa.int64()),
        ("quick", pa.bool_()),
        ("value", pa.float64()),
        ("seconds", pa.float64()),
        ("versions", pa.string()),
    ]
)


class CellStore:
    """The cells in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PenstockError(f"--out must be a folder that can be written to, got {str(folder)!r}: {error.strerror}") from None
        for draft in self.folder.glob("*.part"):
            draft.unlink(missing_ok=True)

    def read(self, experiment: str) -> dict[tuple[str, str, str, int, bool], float]:
        """The numbers of an experiment that are there, of this version."""
        found: dict[tuple[str, str, str, int, bool], float] = {}
        for file in sorted(self.folder.glob(f"{experiment}.*.parquet")):
            try:
                table = pq.read_table(file)
            except (pa.ArrowInvalid, OSError):  # damaged: its cells are played again
                file.unlink(missing_ok=True)
                continue
            mine = table.filter(pa.compute.equal(table["versions"], stamp(experiment)))
            for row in mine.to_pylist():
                found[row["panel"], row["line"], row["x"], row["seed"], row["quick"]] = row["value"]
        return found

    def add(self, experiment: str, played: Iterable[tuple[Cell, float, float]]) -> None:
        """Write cells with their numbers and seconds; the file is there whole, or not at all."""
        rows = [
            {
                "experiment": cell.experiment,
                "panel": cell.panel,
                "line": cell.line,
                "x": str(cell.x),
                "seed": cell.seed,
                "quick": cell.quick,
                "value": value,
                "seconds": seconds,
                "versions": stamp(experiment),
            }
            for cell, value, seconds in played
        ]
        table = pa.Table.from_pylist(rows, _SCHEMA)
        said = hashlib.sha256(repr([list(row.values())[:6] for row in rows]).encode()).hexdigest()[:12]
        draft = self.folder / f"{experiment}.{said}.part"
        pq.write_table(table, draft)
        draft.replace(self.folder / f"{experiment}.{said}.parquet")


def key(cell: Cell) -> tuple[str, str, str, int, bool]:
    """What a cell is known by among those of its experiment."""
    return cell.panel, cell.line, str(cell.x), cell.seed, cell.quick


def stamp(experiment: str) -> str:
    """What the numbers of an experiment depend on: the versions and, where it plays real data, the sizes of its files."""
    folder, names = data_folder(), CATALOG[experiment].data.split(",") if CATALOG[experiment].data else []
    files = [] if folder is None else [file for name in names for file in sorted((folder / name).glob("*.parquet"))]
    sizes = ", ".join(f"{file.parent.name}/{file.name} {file.stat().st_size}" for file in files)
    return f"{versions()}; data: {sizes}" if names else versions()


@cache
def versions() -> str:
    """Of Python, of the packages that numbers depend on, and of our own code: its very files."""
    code = hashlib.sha256()
    root = Path(penstock.__file__).parent
    for file in sorted(root.rglob("*.py")):
        code.update(str(file.relative_to(root)).encode())
        code.update(file.read_bytes())
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba", "pyarrow"))
    return f"penstock {penstock.__version__} ({code.hexdigest()[:12]}), Python {platform.python_version()}, {packages}"
