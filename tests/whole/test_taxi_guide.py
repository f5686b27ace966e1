"""docs/taxi-guide.md, as a reader would follow it: blocks and commands in their order, in an empty folder."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from places import ROOT, SHARED

pytest.importorskip("pyspark")
from sparks import ON_SPARK

TAXI = SHARED / "nyc_green_taxi" / "green_tripdata_2023-01.parquet"
COMMAND = "from penstock.cli import run; assert run({}) == 0\n"


def steps() -> list[str]:
    """Blocks of Python, and commands as such."""
    text = (ROOT / "docs" / "taxi-guide.md").read_text()
    found = re.findall(r"^```python\n(.*?)^```|^    penstock ((?:[^\n]*\\\n)*[^\n]*)\n", text, re.DOTALL | re.MULTILINE)
    return [block or COMMAND.format(shlex.split(command.replace("\\\n", ""))) for block, command in found]


def test_what_needs_no_spark_goes_as_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    plain = [step for step in steps() if "spark" not in step]
    names: dict[str, object] = {}
    for step in plain:
        exec(step, names)
    said = capsys.readouterr().out
    assert len(plain) == 10
    assert re.search(r"[\d,]{5,} facts, 150 of them without an end", said)
    assert 99 < float(re.search(r"^ +80 +(\S+) %", said, re.MULTILINE)[1]) <= 100
    assert "priced.parquet: 20,000 rows, of 20,000" in said
    assert "kept: version 2; facts in all: 4 begun, 2 ended" in said


@pytest.mark.slow
@pytest.mark.skipif(ON_SPARK[0].args[0], reason=ON_SPARK[0].kwargs["reason"])
@pytest.mark.parametrize("published", (False, True))
def test_the_guide_goes_as_the_page_says(tmp_path, published):
    if published:
        if not TAXI.exists():
            pytest.skip(f"needs {TAXI.name} of the shared data")
        (tmp_path / TAXI.name).symlink_to(TAXI)
    done = subprocess.run([sys.executable, "-c", "".join(steps())], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    recall, filtered, rows = re.search(r"recall (\S+)%, ([\d,]+) of ([\d,]+) rows filtered", done.stdout).groups()
    assert 0 < float(recall) < 100 and 0 < int(filtered.replace(",", "")) < int(rows.replace(",", ""))
    joined, later, exact = (
        int(found.replace(",", ""))
        for found in re.search(r"([\d,]+) rows in time, ([\d,]+) later: every one of ([\d,]+) is there", done.stdout).groups()
    )
    assert joined + later == exact and joined > 0 and later > 0
