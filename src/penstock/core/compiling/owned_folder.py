"""Folders of the user's own: what lies in them nobody else has put there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path


def own_folder(path: Path) -> Path | None:
    """The folder, made where it is not there for this user alone; None where it cannot be, or where somebody else could write to it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     mine = own_folder(Path(folder) / "mine")
    ...     (Path(folder) / "all").mkdir()
    ...     (Path(folder) / "all").chmod(0o777)
    ...     mine is not None, own_folder(Path(folder) / "all")
    (True, None)
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        return path if os.access(path, os.W_OK) and _is_own(path.resolve()) else None
    except OSError:
        return None


def own_name() -> str:
    """The name of the user's folder in a place that is everybody's."""
    return f"penstock-{os.getuid() if hasattr(os, 'getuid') else os.getlogin()}"


def _is_own(path: Path) -> bool:
    """Whether a folder and all below it are this user's, and nobody else can put another in its place."""
    if not hasattr(os, "getuid"):
        return True  # no such owners here: what is in the user's profile is the user's
    return all(map(_is_mine, _with_inner(path))) and all(
        above.stat().st_uid in (0, os.getuid()) and (not _others_write(above.stat()) or bool(above.stat().st_mode & stat.S_ISVTX))
        for above in path.parents
    )


def _with_inner(path: Path) -> Iterator[Path]:
    """A folder and all below it. Links are not followed; they count as folders that anybody may write to."""
    yield path
    for place, folders, _ in os.walk(path):
        yield from (Path(place) / name for name in folders)


def _is_mine(path: Path) -> bool:
    """Whether a folder is this user's, and nobody else may write to it; one that is gone meanwhile does no harm."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return True
    return found.st_uid == os.getuid() and not _others_write(found)


def _others_write(found: os.stat_result) -> bool:
    """Whether anybody but the owner may write; a group that has the user's own number is the user's alone."""
    group = bool(found.st_mode & stat.S_IWGRP) and not found.st_gid == found.st_uid == os.getuid()
    return group or bool(found.st_mode & stat.S_IWOTH)
