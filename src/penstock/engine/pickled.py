"""Snapshots of release 0.1.0 that were pickles: reading one runs whatever code is in it, so nothing does without the user's word.

This is the only place in the package that unpickles what was in a file.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from penstock.core.errors import PenstockError
from penstock.engine.contract import PolicyContract

_MOVED = {"penstock.core.engine": "penstock.engine.contract", "penstock.core.view": "penstock.engine.view"}
"""Where classes are today that release 0.1.0 had elsewhere."""
Parts = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


class _Reader(pickle.Unpickler):
    """Finds classes where they are today."""

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(_MOVED.get(module, module), name)


def is_pickle(state: bytes) -> bool:
    """Whether bytes begin as a pickle does.

    >>> is_pickle(b"\\x80\\x05N."), is_pickle(b"penstock data 1")
    (True, False)
    """
    return state[:1] == b"\x80"


def unpickled(state: bytes, trust: bool) -> Parts:
    """The engine, statistics and policy of a snapshot."""
    if not trust:
        raise PenstockError(
            "the state is a pickle of release 0.1.0, which runs the code that is in it when it is read: if you trust all who could write "
            "to the checkpoint, pass trust=True to ps.join for one run (docs/trust.md); what that run writes is data"
        )
    try:
        mine, statistics, policy = _Reader(io.BytesIO(state)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, ImportError, IndexError, KeyError):
        raise PenstockError(f"state must be a snapshot of this engine, got {len(state)} bytes that are none") from None
    return mine, statistics, policy


def unpickled_function(raw: bytes) -> Any:
    """A function in an archive of release 0.1.0, whose user has said that it is trusted."""
    try:
        return _Reader(io.BytesIO(raw)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, ImportError, IndexError, KeyError) as error:
        raise PenstockError(f"objective of the archive must be a function that this Python can read, got none: {error}") from None


def take_over(policy: PolicyContract, attributes: dict[str, Any]) -> None:
    """Give a policy the attributes of one in a pickle; for an object of the user's own these were methods, bound to the object."""
    owner = getattr(attributes.get("score"), "__self__", None)
    if owner is None:
        vars(policy).update(attributes)
    else:
        policy.restore(vars(owner))
