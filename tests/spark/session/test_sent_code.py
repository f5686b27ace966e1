"""A worker takes the driver's compiled code, and nothing else."""

from __future__ import annotations

import hashlib

import pytest

pytest.importorskip("pyspark")

from penstock.core import compiled
from penstock.spark.session import sent_code
from penstock.spark.session.sent_code import SentCode


@pytest.fixture
def taken(monkeypatch, tmp_path) -> list[bytes]:
    """What a worker that takes archives called "fits" has kept; the files of the job are in `tmp_path`."""
    found: list[bytes] = []
    monkeypatch.setattr(sent_code.SparkFiles, "get", lambda name: str(tmp_path / name))
    monkeypatch.setattr(compiled, "takes", lambda name: name == "fits")
    monkeypatch.setattr(compiled, "take", lambda name, code: found.append(code))
    return found


def _sent(tmp_path, name: str, code: bytes, there: bytes) -> SentCode:
    made = SentCode(name, hashlib.sha256(code).hexdigest())
    (tmp_path / made.file).write_bytes(there)
    return made


def test_what_the_driver_sent_is_taken(taken, tmp_path):
    _sent(tmp_path, "fits", b"code", b"code").take()
    assert taken == [b"code"]


def test_what_somebody_has_changed_is_not_taken(taken, tmp_path):
    _sent(tmp_path, "fits", b"code", b"evil").take()
    assert taken == []


def test_what_does_not_fit_or_has_not_come_is_not_taken(taken, tmp_path):
    _sent(tmp_path, "of another Numba", b"code", b"code").take()
    SentCode("fits", "0" * 64).take()
    assert taken == []


def test_two_contents_have_two_files():
    assert SentCode("fits", "a" * 64).file != SentCode("fits", "b" * 64).file


@pytest.mark.jit_only
def test_code_for_others_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "_cache_folder", lambda: str(tmp_path / "kernels-0123"))
    (tmp_path / "kernels-0123").mkdir()
    name = compiled._archive_of(str(tmp_path / "kernels-0123"))
    assert (
        compiled.takes(name) and not compiled.takes(name.replace("0123", "4567")) and not compiled.takes(name.replace("numba-", "numba-9"))
    )
    compiled.take(name, compiled.pack(tmp_path / "kernels-0123"))
    assert not compiled.takes(name)
