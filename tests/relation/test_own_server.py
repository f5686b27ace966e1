"""The tests that need PostgreSQL are skipped on a machine without it, and fail in CI."""

from __future__ import annotations

import pytest

import postgres


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_ci_skips_no_test_of_a_server(ci, outcome, monkeypatch):
    monkeypatch.setenv("CI", ci)
    for name in ("_programs", "_installed"):
        monkeypatch.setattr(postgres, name, lambda: None)
    either = (pytest.fail.Exception, pytest.skip.Exception)
    with pytest.raises(either, match="PostgreSQL is not installed") as found, postgres.server():
        pass
    assert found.type is outcome
