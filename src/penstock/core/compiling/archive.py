"""Machine code as one file, for machines that have none yet: what `penstock warm` compiled once, nobody else has to.

An archive has the name of what it fits: the sources, the kind of machine, Python and Numba. Another one is as good as none.
"""

from __future__ import annotations

import io
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding as untyped_binding

from penstock.core.compiling.turn import turn

llvm: Any = untyped_binding


def archive_name(version: str) -> str:
    """The name of an archive of code for this process, from this version of the sources."""
    return f"kernels-{version}-{llvm.get_process_triple()}-{sys.implementation.cache_tag}-numba-{numba.__version__}.zip"


def pack(folder: Path) -> bytes:
    """All code in a folder."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.glob("**/*.nb[ci]")):  # code before the index that speaks of it
            archive.write(path, path.relative_to(folder))
    return packed.getvalue()


def unpack(archive: bytes, name: str, folder: Path) -> None:
    """Put the code of an archive into a folder, once; it comes from where the package itself comes from."""
    mark = folder / name
    with turn(str(folder)):
        if mark.exists():
            return
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            for inner in packed.namelist():
                path = folder / inner
                path.parent.mkdir(parents=True, exist_ok=True)
                made = path.with_name(f"{path.name}.{os.getpid()}")
                made.write_bytes(packed.read(inner))
                made.replace(path)
        mark.touch()
