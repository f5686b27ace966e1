"""`@kernel`: compile a function with Numba and keep the machine code on disk between processes."""

import hashlib
import logging
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import types as untyped_types
from numba.core import config as untyped_config
from numba.core.compiler_lock import global_compiler_lock

from penstock.core.owned import own_folder
from penstock.core.turn import is_taken, turn

types: Any = untyped_types
config: Any = untyped_config

logger = logging.getLogger("penstock")

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


@cache
def say_if_cold(function: str) -> None:
    """Say, once in a process, that a compiled function (`module.name`) takes its time when it is called for the first time on a machine."""
    folder = None if config.DISABLE_JIT else _cache_folder()
    if folder is None and not config.DISABLE_JIT:
        logger.warning(
            "Penstock compiles, which takes about a minute, and will do so again in the next process: neither the folder of the package "
            "nor ~/.cache/penstock is one to which this user alone can write."
        )
    elif folder is not None and not any(Path(folder).glob(f"*/{function}-*.nbi")):
        logger.warning("Penstock compiles for this machine, which takes about a minute. The code is kept, so that this happens once.")


def is_compiling() -> bool:
    """Whether a process of this machine compiles for this version of the package just now."""
    folder = None if config.DISABLE_JIT else _cache_folder()
    return folder is not None and is_taken(folder)


def _compile(function: F, **options: Any) -> F:
    jit: Any = numba.njit
    before, folder = config.CACHE_DIR, _cache_folder()
    config.CACHE_DIR = folder or before
    try:
        compiled: F = jit(cache=folder is not None, nogil=True, error_model="numpy", **options)(function)
    finally:
        config.CACHE_DIR = before
    if not config.DISABLE_JIT:
        _widen(compiled)
        if folder is not None:
            _take_turns(compiled, folder)
    return compiled


def _take_turns(dispatcher: Any, folder: str) -> None:
    """Compile one process after the other: the workers of a Spark executor all need the same code at the same moment."""
    compile_now = dispatcher.compile

    def compile_in_turn(signature: Any) -> Any:
        with global_compiler_lock, turn(folder):  # in this order, as in what Numba compiles for others that call us
            return compile_now(signature)

    dispatcher.compile = compile_in_turn


def _widen(dispatcher: Any) -> None:
    """Compile for whole numbers of 64 bits, whatever their width at the call.

    Numba compiles a function anew for each width of each argument, and for constants once more: twice as many functions, all with
    the same results.
    """
    resolve = dispatcher.get_call_template

    def resolve_widened(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return resolve([_wide(kind) for kind in arguments], keywords)

    dispatcher.get_call_template = resolve_widened


def _wide(kind: Any) -> Any:
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) and kind.signed else kind


@cache
def _cache_folder() -> str | None:
    """Where machine code is kept: a folder per version of the sources that compiled functions are made of; None: nowhere.

    Numba's files are pickles, so they are read only from a folder that nobody else can write to.
    Numba notices a change in the file of a function, but not in the files of the functions that it calls.
    """
    package = Path(__file__).parent.parent
    texts = {path.relative_to(package).as_posix(): path.read_text() for path in package.glob("*/*.py")}
    waiting = [name for name, text in texts.items() if "from penstock.core.compiled import" in text]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in reached and name in texts:
            reached.add(name)
            waiting += [f"{module.replace('.', '/')}.py" for module in re.findall(r"(?m)^from penstock\.(\S+) import", texts[name])]
    digest = hashlib.sha256()
    for name in sorted(reached):
        digest.update(texts[name].encode())
    name = f"kernels-{digest.hexdigest()[:16]}"
    homes = (package / "__pycache__", Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock")
    found = (own_folder(home / name) for home in homes)
    return next((str(folder) for folder in found if folder is not None), None)
