"""Compiled code comes with the package, and what does not fit is not used."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from penstock.core import compiled
from penstock.core.compiling.archive import archive_name, pack, unpack

PACKAGE = Path(compiled.__file__).parent.parent
ROUND = "from penstock.core import rounding; rounding.rounded(1.5); print(sum(rounding.rounded.stats.cache_hits.values()))"


def test_code_is_unpacked_as_it_was_packed_and_once(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "core").mkdir(parents=True)
    (one / "core" / "f.nbi").write_bytes(b"index")
    (one / "core" / "f.1.nbc").write_bytes(b"code")
    (one / "turn").touch()
    two.mkdir()
    code = pack(one)
    unpack(code, "name.zip", two)
    assert sorted(path.name for path in two.rglob("*") if path.is_file()) == ["f.1.nbc", "f.nbi", "name.zip", "turn"]
    assert (two / "core" / "f.1.nbc").read_bytes() == b"code"
    (two / "core" / "f.nbi").write_bytes(b"newer")
    unpack(code, "name.zip", two)
    assert (two / "core" / "f.nbi").read_bytes() == b"newer"


@pytest.fixture(scope="module")
def code(tmp_path_factory) -> bytes:
    """What `rounded` is compiled to."""
    folder = tmp_path_factory.mktemp("compiled")
    assert _hits(folder, PACKAGE.parent) == 0
    (kept,) = folder.glob("kernels-*")
    return pack(kept)


@pytest.mark.jit_only
def test_an_archive_in_the_package_serves_a_machine_that_has_no_code(code, tmp_path):
    """The package is a zip file, as Spark sends it."""
    name = archive_name(compiled.version_of(compiled._sources()))
    assert _hits(tmp_path / "cache", _package_with(name, code, tmp_path)) == 1


@pytest.mark.jit_only
@pytest.mark.parametrize("fits", ["kernels", "numba", "cpython"])
def test_an_archive_of_other_sources_or_for_others_is_not_used(code, tmp_path, fits):
    name = archive_name(compiled.version_of(compiled._sources()))
    assert _hits(tmp_path / "cache", _package_with(name.replace(f"{fits}-", f"{fits}-0"), code, tmp_path)) == 0


def _package_with(name: str, code: bytes, folder: Path) -> Path:
    sent = folder / "penstock.zip"
    with zipfile.ZipFile(sent, "w") as file:
        for path in PACKAGE.rglob("*.py"):
            file.write(path, path.relative_to(PACKAGE.parent))
        file.writestr(f"penstock/{name}", code)
    return sent


def _hits(cache: Path, package: Path) -> int:
    environment = os.environ | {"PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache)}
    return int(subprocess.run([sys.executable, "-c", ROUND], env=environment, check=True, capture_output=True, text=True).stdout)
