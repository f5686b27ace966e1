"""`penstock warm` compiles, says what, and writes the code down."""

from __future__ import annotations

import zipfile

import pytest

from penstock.cli import run
from penstock.core import compiled
from penstock.core.compiling.archive import archive_name
from penstock.simulator import warm


@pytest.fixture(autouse=True)
def _little_to_do(monkeypatch):
    monkeypatch.setattr(warm, "warm", lambda: iter(["join", "optimum"]))


@pytest.mark.jit_only
def test_what_is_compiled_is_named_and_written(capsys, tmp_path):
    assert run(["warm", "--archive", str(tmp_path)]) == 0
    (file,) = tmp_path.iterdir()
    assert file.name == archive_name(compiled.version_of(compiled._sources()))
    assert all(name.endswith((".nbi", ".nbc")) for name in zipfile.ZipFile(file).namelist())
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["compiling: join", "compiling: optimum"] and said[2].startswith(f"wrote {file}")


def test_nothing_is_promised_where_nothing_is_kept(capsys, monkeypatch):
    monkeypatch.setattr(compiled, "_cache_folder", lambda: None)
    assert run(["warm"]) == 2
    assert "set NUMBA_CACHE_DIR" in capsys.readouterr().err
