"""The engines and the oracle, asked the same."""

from __future__ import annotations

from hypothesis import strategies as st

from strategies import (
    COUNTS,
    Case,
)

PREDICATES = st.sampled_from(("=", "!=", "<", "<=", ">", ">=", ("eps", 1.0), ("eps", 0.0)))


def agree(case: Case) -> None:
    """Both engines do what the oracle does, and the compiled one counts the same when it writes nothing down."""
    expected = case.expected()
    assert case.played() == expected
    assert case.played(stepwise=True) == expected
    if not case.batches:
        assert case.counted() == {name: expected[name] for name in COUNTS}
