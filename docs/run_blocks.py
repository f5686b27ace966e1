"""Run the blocks of Python in the pages, each page in an empty folder: python docs/run_blocks.py [PAGE ...]

Lines with `>>>` are checked as doctests. Other blocks run in their order, with streams as DataFrames under the names that the pages use. A
block with an ellipsis, an address of a cluster or a query that is started is a sketch: it must be Python, and is not run. Pages that tests
follow from the first line to the last are left to them.
"""

from __future__ import annotations

import ast
import doctest
import os
import re
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BY_TESTS = ("first-hour.md", "taxi-guide.md")
SKETCH = re.compile(r"\.\.\.(?!\s*$)|\(\.\.\.|s3a://|writeStream|\.write\.insertInto|duckdb:|history:|watch\.review", re.M)
_COLUMNS = (
    "ts timestamp, user long, user_id long, zone long, price double, x double, y double, id long, order_id long, parcel long, "
    "weight double, DOLocationID long, PULocationID long"
)


def main() -> int:
    """Run the pages that are named, or all; the number of blocks that failed."""
    pages = [Path(name).resolve() for name in sys.argv[1:]] or [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    pages = [page for page in pages if page.name not in BY_TESTS]
    failed = ran = sketches = 0
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if "SparkSession.builder" in text and len(pages) > 1:  # Spark's own folder is the one in which its Java process began
            failed += subprocess.run([sys.executable, __file__, str(page)], check=False).returncode
            continue
        names: dict[str, Any] | None = None
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for line, code in blocks(text):
                if ">>>" not in code and SKETCH.search(code):
                    ast.parse(code)
                    sketches += 1
                    continue
                names = prelude() if names is None else names
                ran += 1
                if not run(page, line, code, names):
                    failed += 1
            os.chdir(ROOT)
    print(f"{ran} blocks of code ran, {sketches} sketches are Python, {failed} failed")
    return failed


def blocks(text: str) -> list[tuple[int, str]]:
    """The blocks of Python in a page, with the numbers of their first lines.

    >>> blocks("a\\n```python\\nx = 1\\n```\\n")
    [(3, 'x = 1\\n')]
    """
    return [(text[: found.start(1)].count("\n") + 1, found[1]) for found in re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M)]


def run(page: Path, line: int, code: str, names: dict[str, Any]) -> bool:
    """Whether a block runs; what went wrong is printed."""
    where = f"{page.relative_to(ROOT)}:{line}"
    if ">>>" in code:
        test = doctest.DocTestParser().get_doctest(code, names, where, str(page), line)
        result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(test, clear_globs=False)
        names.update(test.globs)
        return not result.failed
    try:
        exec(compile(code, where, "exec"), names)
    except Exception:
        print(f"{where} does not run:")
        traceback.print_exc(limit=-2)
        return False
    return True


def prelude() -> dict[str, Any]:
    """What the pages take for granted: a session, and streams by the names of their examples."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812

    import penstock as ps

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    def frame() -> Any:
        return spark.createDataFrame([], _COLUMNS)

    def stream() -> Any:
        return ps.stream(frame(), time="ts", window="10 minutes")

    now = pa.array([], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64()), "fare_class": pa.array([], pa.string()),
                             "valid_from": now, "valid_to": now}), "zone_pairs.parquet")  # fmt: skip
    names: dict[str, Any] = {"ps": ps, "spark": spark, "F": F, "pa": pa, "pq": pq}
    names |= {name: frame() for name in ("clicks_df", "views_df", "orders_df", "payments_df", "clicks", "views", "a", "b")}
    names |= {name: stream() for name in ("orders", "bids", "asks", "taxis", "riders", "shipments", "scans", "pickups", "dropoffs")}
    return names


if __name__ == "__main__":
    sys.exit(main())
