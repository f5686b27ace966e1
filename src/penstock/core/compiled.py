"""`@kernel`: compile a function with Numba and keep the machine code on disk between processes."""

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import config as numba_config

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile `function`, which neither makes nor returns arrays. With NUMBA_DISABLE_JIT=1 it stays plain Python, with the same results.

    Without arrays to own there are no reference counts to keep: the state of an engine is some twenty arrays, and counting
    them at every call made the loop forty times slower (docs/decisions/0003).

    """
    return _compile(function, _nrt=False)


def inlined(function: F) -> F:
    """Compile a small `kernel` into its callers."""
    return _compile(function, _nrt=False, forceinline=True)


def routine(function: F) -> F:
    """Compile `function`, which may make arrays."""
    return _compile(function)


def _compile(function: F, **options: Any) -> F:
    jit: Any = numba.njit
    config: Any = numba_config
    before = config.CACHE_DIR
    config.CACHE_DIR = _cache_folder()
    try:
        compiled: F = jit(cache=True, nogil=True, error_model="numpy", **options)(function)
    finally:
        config.CACHE_DIR = before
    return compiled


@cache
def _cache_folder() -> str:
    """Where machine code is kept: a folder per version of the sources.

    Numba notices a change in the file of a function, but not in the files of the functions that it calls.
    """
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for source in sorted([*package.glob("core/*.py"), *package.glob("statistics/*.py")]):
        digest.update(source.read_bytes())
    home = package / "__pycache__"
    if not os.access(home if home.exists() else package, os.W_OK):
        home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "penstock"
    return str(home / f"kernels-{digest.hexdigest()[:16]}")
