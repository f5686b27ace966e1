"""A wheel of this repository, and environments with what it asks for and nothing else: the repository cannot be seen from them."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

import penstock
from places import ROOT


def built(folder: Path) -> Path:
    """The wheel, built by the locked build backend without a network."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    return wheel


def described(wheel: Path) -> metadata.Distribution:
    """What a wheel says of itself."""
    (name,) = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" in name}
    return metadata.PathDistribution(zipfile.Path(wheel, f"{name}/"))  # type: ignore[arg-type]


def environment(folder: Path, wheel: Path, extras: Iterable[str] = (), *, installed: bool = True) -> Path:
    """The Python of a new environment with the dependencies of a wheel, and with the wheel itself where it shall be `installed`.

    Without a network the dependencies come from the environment of the tests: those that the wheel asks for are linked, and no others.
    """
    venv.create(folder, symlinks=True, with_pip=installed)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for distribution in asked_for(wheel, extras):
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():  # two distributions may share a folder
                (site / top).symlink_to(Path(distribution.locate_file(top)))
    python = folder / "bin" / "python"
    if installed:
        for command in (["install", "--quiet", "--no-deps", "--no-index", str(wheel)], ["check"]):
            done = subprocess.run([python, "-m", "pip", *command], env=alone(), capture_output=True, text=True, timeout=300, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
    return python


def asked_for(wheel: Path, extras: Iterable[str]) -> list[metadata.Distribution]:
    """The distributions that a wheel needs, and those that they need."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [(described(wheel), frozenset(extras))]
    seen = set()
    while waiting:
        distribution, wanted = waiting.pop()
        for requirement in map(Requirement, distribution.requires or ()):
            marker = requirement.marker
            if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                continue
            one = metadata.distribution(requirement.name)
            assert requirement.specifier.contains(one.version), f"{requirement} of {distribution.name}, got {one.version}"
            found[one.name] = one
            if (one.name, frozenset(requirement.extras)) not in seen:
                seen.add((one.name, frozenset(requirement.extras)))
                waiting.append((one, frozenset(requirement.extras)))
    return list(found.values())


def alone(**variables: str) -> dict[str, str]:
    """The variables of a process that shall not find the repository; kernels that the tests have compiled are used."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK_", "SPARK_", "VIRTUAL_ENV"))}
    return kept | {"NUMBA_CACHE_DIR": str(Path(penstock.__file__).parent / "__pycache__")} | variables
