"""`@kernel`: compile a function with Numba and keep the machine code on disk between processes."""

import hashlib
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import types as untyped_types
from numba.core import caching as untyped_caching
from numba.core import config as untyped_config
from numba.core import runtime as untyped_runtime
from numba.core.compiler_lock import global_compiler_lock

from penstock.core.compiling.archive import archive_name, pack, unpack
from penstock.core.compiling.owned_folder import own_folder, own_name
from penstock.core.compiling.parts import AnyMachine, WholeCompiler, part_of
from penstock.core.compiling.turn import is_taken, turn

types: Any = untyped_types
config: Any = untyped_config
caching: Any = untyped_caching
runtime: Any = untyped_runtime

logger = logging.getLogger("penstock")

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile `function`, which neither makes nor returns arrays. With NUMBA_DISABLE_JIT=1 it stays plain Python, with the same results.

    Without arrays to own there are no reference counts to keep: the state of an engine is some twenty arrays, and counting
    them at every call made the loop forty times slower (docs/decisions/0003).

    """
    return _compile(function, _nrt=False, forceinline=False)


def inlined(function: F) -> F:
    """Compile a small `kernel` into its callers."""
    return _compile(function, _nrt=False, forceinline=True)


def routine(function: F) -> F:
    """Compile `function`, which may make arrays."""
    return _compile(function, forceinline=False)


@cache
def say_if_cold(function: str) -> bool:
    """Say, once in a process, that a compiled function (`module.name`) takes its time when it is first called; whether it does."""
    folder = None if config.DISABLE_JIT else _cache_folder()
    if folder is None and not config.DISABLE_JIT:
        logger.warning(
            "Penstock compiles, which takes about a minute, and will do so again in the next process: no folder was found to which this "
            "user alone can write. Set NUMBA_CACHE_DIR to one."
        )
        return False
    cold = is_cold(function)
    if cold:
        logger.warning("Penstock compiles for this machine, which takes about a minute. The code is kept, so that this happens once.")
    return cold


def is_cold(function: str) -> bool:
    """Whether a compiled function (`module.name`) would be compiled by the first who calls it, for all who come later."""
    folder = None if config.DISABLE_JIT else _cache_folder()
    return folder is not None and not any(Path(folder).glob(f"**/{function}-*.nbi"))


def takes(name: str) -> bool:
    """Whether an archive of code of this name fits, and has not been taken yet."""
    folder = None if config.DISABLE_JIT else _cache_folder()
    return folder is not None and name == _archive_of(folder) and not (Path(folder) / name).exists()


def take(name: str, code: bytes) -> None:
    """Keep the code of an archive, which comes from somebody who may run code here."""
    if takes(name):
        unpack(code, name, Path(str(_cache_folder())))


def kept_code() -> tuple[str, bytes] | None:
    """The code that this user has on this machine, as an archive with its name; None: it is kept nowhere."""
    folder = None if config.DISABLE_JIT else _cache_folder()
    return None if folder is None else (_archive_of(folder), pack(Path(folder)))


def _archive_of(folder: str) -> str:
    return archive_name(Path(folder).name.removeprefix("kernels-"))


def is_compiling() -> bool:
    """Whether a process of this machine compiles for this version of the package just now."""
    folder = None if config.DISABLE_JIT else _cache_folder()
    return folder is not None and is_taken(folder)


def _compile(function: F, **options: Any) -> F:
    jit: Any = numba.njit
    options |= {"nogil": True, "error_model": "numpy"}
    before, folder = (config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES), _cache_folder()
    config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES = folder or "", f"{__name__}.{KernelLocator.__name__}"
    try:
        compiled: F = jit(cache=folder is not None, pipeline_class=WholeCompiler, **options)(function)
    finally:
        config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES = before
    if not config.DISABLE_JIT:
        _serve_as_part(compiled, options)
        if folder is not None:
            _take_turns(compiled, folder)
    return compiled


def _serve_as_part(dispatcher: Any, options: dict[str, Any]) -> None:
    """Where compiled code calls a function, make it a part of that, for whole numbers of 64 bits, whatever their width at the call.

    Numba compiles a function anew for each width of each argument, and for constants once more: twice as many functions, all with
    the same results.
    """
    part = cache(lambda: part_of(dispatcher.py_func, **options))
    dispatcher.get_call_template = lambda arguments, keywords: part().get_call_template([*map(_wide, arguments)], keywords)
    dispatcher.get_overload = lambda signature: part().get_overload(signature)


def _take_turns(dispatcher: Any, folder: str) -> None:
    """Compile one process after the other: the workers of a Spark executor all need the same code at the same moment."""
    compile_now, cached = dispatcher.compile, dispatcher._cache
    key_of = cached._index_key
    cached._index_key = lambda signature, _: key_of(signature, AnyMachine())
    cached.load_overload = lambda signature, target: _load(cached, signature, target)

    def compile_in_turn(signature: Any) -> Any:
        with global_compiler_lock:
            if _is_kept(dispatcher, signature):
                return compile_now(signature)  # reads it, which all may do at once
            with turn(folder):  # in this order, as in what Numba compiles for others that call us
                return compile_now(signature)

    dispatcher.compile = compile_in_turn


def _load(cached: Any, signature: Any, target: Any) -> Any:
    """Machine code from disk, if it is there.

    Numba first imports all that it could compile, SciPy's linear algebra among it: a second, in every worker of Spark. Code that is
    compiled already needs none of that, only what arrays are made with.
    """
    runtime.rtsys.initialize(target)
    with cached._guard_against_spurious_io_errors():
        return cached._load_overload(signature, target)


def _is_kept(dispatcher: Any, signature: Any) -> bool:
    """Whether the machine code for these types is on disk."""
    cache = dispatcher._cache
    return cache._index_key(signature, dispatcher.targetctx.codegen()) in cache._cache_file._load_index()


class KernelLocator(caching._CacheLocator):  # type: ignore[misc]
    """Where Numba keeps the machine code of a function: by the sources alone, so that it is found wherever the package lies.

    A package that is sent with a Spark job is a zip file in another folder for each job. Numba's own locators go by the path of the file.
    """

    def __init__(self, function: Any, file: str) -> None:
        self.line, self.version = function.__code__.co_firstlineno, Path(config.CACHE_DIR).name
        self.folder = Path(config.CACHE_DIR, *function.__module__.split(".")[1:-1])

    def get_cache_path(self) -> str:
        """The folder of its package."""
        return str(self.folder)

    def get_source_stamp(self) -> str:
        """The version of the sources, which the name of the folder has."""
        return self.version

    def get_disambiguator(self) -> str:
        """Two functions may have one name."""
        return str(self.line)

    @classmethod
    def from_function(cls, function: Any, file: str) -> "KernelLocator":
        """The locator of a function."""
        found = cls(function, file)
        found.ensure_cache_path()
        return found


def _wide(kind: Any) -> Any:
    kind = types.unliteral(kind)
    return types.int64 if isinstance(kind, types.Integer) and kind.signed else kind


@cache
def _cache_folder() -> str | None:
    """Where machine code is kept: a folder per version of the sources that compiled functions are made of; None: nowhere.

    Numba's files are pickles, so they are read only from a folder that nobody else can write to. Where the package came with an archive of
    code for such a machine, that is in it.
    """
    version = version_of(_sources())
    found = (own_folder(home / f"kernels-{version}") for home in _homes())
    folder = next((folder for folder in found if folder is not None), None)
    shipped = files("penstock") / archive_name(version)
    if folder is not None and not (folder / shipped.name).exists() and shipped.is_file():
        unpack(shipped.read_bytes(), shipped.name, folder)
    return None if folder is None else str(folder)


def version_of(texts: dict[str, str]) -> str:
    """The version of these sources, as far as compiled functions are made of them.

    Numba notices a change in the file of a function, but not in the files of the functions that it calls.
    """
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
    if config.BOUNDSCHECK:
        digest.update(b"every index is checked")
    return digest.hexdigest()[:16]


def _sources() -> dict[str, str]:
    """The texts of the package's modules by their names; the package may be a zip file."""
    return dict(_texts(files("penstock"), ""))


def _texts(folder: Traversable, path: str) -> Iterator[tuple[str, str]]:
    for file in folder.iterdir():
        if file.name.endswith(".py"):
            yield f"{path}{file.name}", file.read_text(encoding="utf-8")
        elif file.is_dir() and file.name != "__pycache__":
            yield from _texts(file, f"{path}{file.name}/")


def _homes() -> Iterator[Path]:
    """Where the folder may be, the best first."""
    if config.CACHE_DIR:  # NUMBA_CACHE_DIR
        yield Path(config.CACHE_DIR)
    yield Path(__file__).parent.parent / "__pycache__"
    with suppress(RuntimeError):  # in a container the user may have no home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"
    yield Path(tempfile.gettempdir()) / own_name()
