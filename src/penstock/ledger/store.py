"""A folder that PyArrow and Spark both know: on disk, in HDFS, or in an object store. A file in it appears whole or not at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyarrow import fs

from penstock.core.errors import PenstockError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(.*)", re.DOTALL)  # two letters at least: C:\ is a disk
_KNOWN = ("file", "s3", "s3a", "s3n", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
"""Schemes of stores that PyArrow knows."""
_ALIASES = {"s3a": "s3", "s3n": "s3"}
"""Spark's names of stores that PyArrow calls otherwise."""
_WHOLE = ("s3", "gcs", "abfs", "py::fsspec")
"""Stores in which a put is atomic, and a move is not."""


def folder_of(archive: Any, argument: str = "archive") -> str | None:
    """A place that Spark can read again: what it takes for a pattern would not be found."""
    if archive is None:
        return None
    if not isinstance(archive, str | os.PathLike) or not os.fspath(archive) or re.search(r"[{}\[\]*?\\]", os.fspath(archive)):
        raise PenstockError(f"{argument} must be a folder or URL without any of {{}}[]*?\\ in it, got {archive!r}")
    scheme = _SCHEME.fullmatch(os.fspath(archive))
    if scheme is not None and scheme[1].lower() not in (*_KNOWN, *_other_schemes()):
        raise PenstockError(
            f"{argument} must be a folder, or a URL of one of {', '.join(_KNOWN)} (or of what fsspec knows, where that is installed), "
            f"got {_without_secrets(os.fspath(archive))!r}"
        )
    return os.fspath(archive)


def _other_schemes() -> list[str]:
    try:
        import fsspec
    except ImportError:
        return []
    return list(fsspec.available_protocols())


def local_path(place: str) -> str | None:
    """Where on this machine's disks that is; None: elsewhere. Not decoded, as Hadoop does not: file:///a%20b is the folder a%20b.

    >>> local_path("/a/../b"), local_path("file:///b"), local_path("file:/b"), local_path("s3a://b")
    ('/b', '/b', '/b', None)
    """
    match = _SCHEME.fullmatch(place)
    if match is None:
        return os.path.abspath(place)
    return os.path.abspath(re.sub("^//[^/]*(?=/)", "", match[2])) if match[1].lower() == "file" else None


class Store:
    """Files by their names in a folder; every trouble is a PenstockError that names the folder.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     store.put("a/b", b"one")
    ...     store.put("a/b", b"two")
    ...     store.read("a/b"), store.read("a/c"), store.names("a"), store.names("x")
    (b'two', None, ['b'], [])
    """

    def __init__(self, folder: str | os.PathLike[str], argument: str = "archive") -> None:
        self.argument = argument
        self.given = _without_secrets(os.fspath(folder))
        with self._naming("read"):
            self.files, root, self.url = _open(os.fspath(folder), argument)
        self.root = root.rstrip("/")
        self._by_move = not self.files.type_name.startswith(_WHOLE)

    def put(self, name: str, data: Any) -> None:
        """Write a file, in place of one that may be there."""
        path = f"{self.root}/{name}"
        folder, _, leaf = path.rpartition("/")
        with self._naming("written"):
            if not self._by_move:
                self._write(path, data)
                return
            self.files.create_dir(folder, recursive=True)
            hidden = f"{folder}/.{leaf}.{uuid4().hex}"
            try:
                self._write(hidden, data)
                self._move(hidden, path)
            except BaseException:
                self._delete(hidden)
                raise

    def read(self, name: str) -> bytes | None:
        """A whole file; None where there is none."""
        with self._naming("read"):
            if self.files.get_file_info(f"{self.root}/{name}").type != fs.FileType.File:
                return None
            with self.files.open_input_stream(f"{self.root}/{name}", compression=None) as file:
                return bytes(file.read())

    def open(self, name: str) -> pa.NativeFile:
        """A file to read parts of."""
        with self._naming("read"):
            return self.files.open_input_file(f"{self.root}/{name}")

    def names(self, folder: str = "") -> list[str]:
        """What is in a folder, in order, without hidden files."""
        return [info.base_name for info in self._infos(folder)]

    def folders(self) -> list[str]:
        """The folders in this one, in order, without hidden ones."""
        return [info.base_name for info in self._infos("") if info.type == fs.FileType.Directory]

    def _infos(self, folder: str) -> list[fs.FileInfo]:
        with self._naming("read"):
            found = self.files.get_file_info(fs.FileSelector(f"{self.root}/{folder}".rstrip("/"), allow_not_found=True))
        return sorted((info for info in found if not info.base_name.startswith((".", "_"))), key=lambda info: info.base_name)

    def exists(self) -> bool:
        """Whether there is such a folder."""
        with self._naming("read"):
            return bool(self.files.get_file_info(self.root).type == fs.FileType.Directory)

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._naming("written"):
            self._delete(f"{self.root}/{name}")

    def _write(self, path: str, data: Any) -> None:
        with self.files.open_output_stream(path, compression=None) as out:
            out.write(data)

    def _move(self, source: str, target: str) -> None:
        try:
            self.files.move(source, target)
        except OSError:  # HDFS does not move onto a file
            if self.files.get_file_info(target).type != fs.FileType.File:
                raise
            self.files.delete_file(target)
            self.files.move(source, target)

    def _delete(self, path: str) -> None:
        if self.files.get_file_info(path).type == fs.FileType.File:
            self.files.delete_file(path)

    @contextmanager
    def _naming(self, what: str) -> Iterator[None]:
        try:
            yield
        except PenstockError:
            raise
        except (OSError, pa.ArrowException) as error:
            raise PenstockError(f"{self.argument} must be a folder that can be {what}, got {self.given!r}: {error}") from error


def _open(folder: str, argument: str) -> tuple[fs.FileSystem, str, str]:
    """The file system, the path in it, and what Spark calls the folder."""
    if not folder:
        raise PenstockError(f"{argument} must be a folder, got {folder!r}")
    local = local_path(folder)
    if local is not None:
        return fs.LocalFileSystem(), local, f"file://{local}"
    scheme, _, rest = folder.partition(":")
    scheme = scheme.lower()
    url = folder.split("?")[0].rstrip("/")
    try:
        files, path = fs.FileSystem.from_uri(f"{_ALIASES.get(scheme, scheme)}:{rest}")
        return files, path, url
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        try:
            import fsspec
        except ImportError:
            raise PenstockError(f"{argument} must be a folder that PyArrow knows (or fsspec, if installed), got {url!r}: {error}") from None
    try:
        other, path = fsspec.core.url_to_fs(folder)
    except (ValueError, ImportError) as error:
        raise PenstockError(f"{argument} must be a folder that PyArrow or fsspec knows, got {url!r}: {error}") from None
    return fs.PyFileSystem(fs.FSSpecHandler(other)), path, url


def _without_secrets(folder: str) -> str:
    """A folder as it may be shown: no options, no password.

    >>> _without_secrets("s3://me:secret@bucket/a?region=x")
    's3://bucket/a'
    """
    return re.sub(r"://[^/@]*:[^/@]*@", "://", folder.split("?")[0]) if "://" in folder else folder
