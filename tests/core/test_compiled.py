"""Compiled code is kept on disk, and nobody waits for it without a word."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from penstock.core import compiled

PLAY = "import penstock as ps; ps.simulate(ps.Trace.from_streams(R='ab', S='ba'), window=2, memory=1)"


@pytest.fixture(autouse=True)
def _another_process():
    compiled.say_if_cold.cache_clear()
    yield
    compiled.say_if_cold.cache_clear()


@pytest.mark.jit_only
def test_the_first_call_on_a_machine_is_announced_once(tmp_path, monkeypatch, caplog) -> None:
    monkeypatch.setattr(compiled, "_cache_folder", lambda: str(tmp_path))
    with caplog.at_level(logging.WARNING, logger="penstock"):
        compiled.say_if_cold("play.play")
        compiled.say_if_cold("play.play")
    assert [record.getMessage()[:30] for record in caplog.records] == ["Penstock compiles for this mac"]


@pytest.mark.jit_only
def test_code_that_was_kept_is_not_announced() -> None:
    """Two processes: whichever of the tests compiled first, the second of these finds the code."""
    said = [subprocess.run([sys.executable, "-c", PLAY], check=True, capture_output=True, text=True).stderr for _ in range(2)]
    assert "compiles" not in said[1]


ROUND = """
from penstock.core import rounding

rounding.rounded(1.5)
print(rounding.__file__, sum(rounding.rounded.stats.cache_hits.values()))
"""


@pytest.mark.jit_only
def test_code_is_found_by_its_sources_wherever_the_package_lies(tmp_path) -> None:
    """As a zip file that Spark sends with a job, in another folder each time."""
    package, found = Path(compiled.__file__).parent.parent, []
    for name in ("one", "two"):
        sent = tmp_path / name / "penstock.zip"
        sent.parent.mkdir()
        with zipfile.ZipFile(sent, "w") as file:
            for path in package.rglob("*.py"):
                file.write(path, path.relative_to(package.parent))
        environment = os.environ | {"PYTHONPATH": str(sent), "XDG_CACHE_HOME": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": ""}
        done = subprocess.run([sys.executable, "-c", ROUND], env=environment, check=True, capture_output=True, text=True)
        place, hits = done.stdout.split()
        assert place.startswith(str(sent))
        found.append(hits)
    assert found == ["0", "1"]
    assert [path.name for path in (tmp_path / "cache" / "penstock").iterdir()] == [Path(str(compiled._cache_folder())).name]


def test_a_change_in_any_file_that_compiled_code_is_made_of_is_noticed() -> None:
    package, texts = Path(compiled.__file__).parent.parent, compiled._sources()
    assert set(texts) == {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    was = compiled.version_of(texts)
    changed = {name: compiled.version_of(texts | {name: text + "\n"}) != was for name, text in texts.items()}
    assert changed["engine/compiled/order/tree.py"] and changed["engine/compiled/state.py"] and changed["optimum/push.py"]
    assert all(changed[name] for name, text in texts.items() if "@kernel" in text or "@inlined" in text or "@routine" in text)
    assert not changed["cli/simulate.py"]


def test_nothing_is_announced_where_nothing_is_compiled(monkeypatch, tmp_path, caplog) -> None:
    monkeypatch.setattr(compiled, "_cache_folder", lambda: os.fspath(tmp_path))
    monkeypatch.setattr(compiled.config, "DISABLE_JIT", 1)
    compiled.say_if_cold("play.play")
    assert not caplog.records


SHARED = """
import sys
import time
from penstock.core import compiled
compiled._cache_folder = lambda: sys.argv[1]

def total(numbers: object) -> int:
    found = 0
    for number in numbers:
        found += number * number
    return found

total = compiled.routine(total)
print("ready", flush=True)
total(__import__("numpy").arange(5))
print(sum(total.stats.cache_misses.values()))
"""


@pytest.mark.jit_only
def test_of_processes_that_need_the_same_code_one_compiles(tmp_path) -> None:
    file = tmp_path / "shared.py"
    file.write_text(SHARED)
    command = [sys.executable, str(file), str(tmp_path)]
    with compiled.turn(str(tmp_path)):
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        assert [one.stdout.readline() for one in running if one.stdout is not None] == ["ready\n"] * 3
        time.sleep(0.5)  # they come to the turn, and wait
        assert all(one.poll() is None for one in running) and compiled.is_taken(str(tmp_path))
    said = [one.communicate(timeout=60)[0].split() for one in running]
    assert sorted(misses for (misses,) in said) == ["0", "0", "1"]
    assert not compiled.is_taken(str(tmp_path))
