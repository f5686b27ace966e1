"""The wheel: what it says of itself, and that it works where there is nothing but what it asks for."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from first_hour import check, generated, script
from places import ROOT
from sparks import ON_SPARK
from wheels import alone, built, described, environment

pytestmark = [pytest.mark.slow, pytest.mark.jit_only]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(tmp_path_factory.mktemp("wheel"))


def said(python: Path, code: str, folder: Path) -> list[str]:
    """What a program prints in an environment, far from the repository."""
    done = subprocess.run([python, "-c", code], cwd=folder, env=alone(), capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_it_describes_itself(wheel):
    found = described(wheel)
    assert (found.metadata["Name"], found.metadata["License-Expression"]) == ("penstock-spark", "Apache-2.0")
    assert found.metadata["Description-Content-Type"] == "text/markdown" and "Typing :: Typed" in found.metadata.get_all("Classifier")
    assert {"spark", "duckdb", "postgres", "docs", "test", "dev"} == set(found.metadata.get_all("Provides-Extra"))
    needed = [text for text in found.requires or () if "extra ==" not in text]
    assert not [text for text in needed if text.startswith(("pyspark", "pandas", "protobuf"))]
    names = {str(path) for path in found.files or ()}
    assert {"LICENSE", "METADATA", "entry_points.txt"} <= {Path(name).name for name in names}
    assert {
        "penstock/py.typed",
        "penstock/spark/session/log4j2.properties",
        "penstock/experiments/demo.toml",
        "penstock/experiments/reproduce/report.css",
    } <= names
    assert not [name for name in names if "__pycache__" in name]


def test_without_spark_it_runs_the_example_of_the_readme(wheel, tmp_path):
    python = environment(tmp_path / "env", wheel)
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    example = next(block for block in blocks if block.startswith("import penstock as ps\n") and "ps.simulate(" in block)
    share, peak = said(python, example, tmp_path)[-1].split()
    assert 0.5 < float(share) < 1 and peak == "200"
    place, spark = said(python, WHERE, tmp_path)
    assert place.startswith(str(tmp_path / "env")) and spark == "None"
    command = [tmp_path / "env" / "bin" / "penstock", "--version"]
    assert subprocess.run(command, cwd=tmp_path, env=alone(), capture_output=True, check=True).stdout.startswith(b"penstock ")


WHERE = """
from importlib.util import find_spec
import penstock

print(penstock.__file__)
print(find_spec("pyspark"))
"""


@pytest.mark.skipif(ON_SPARK[0].args[0], reason=ON_SPARK[0].kwargs["reason"])
def test_with_its_extra_it_goes_through_the_first_hour(wheel, tmp_path):
    """Nobody said which Python the workers shall run: they run the one of the environment, which is not activated."""
    python = environment(tmp_path / "env", wheel, ("spark",))
    generated(tmp_path / "data")
    *printed, place = said(python, f"{script()}\nprint(ps.__file__)", tmp_path / "data")
    check("\n".join(printed))
    assert place.startswith(str(tmp_path / "env"))
