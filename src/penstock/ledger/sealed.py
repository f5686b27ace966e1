"""Facts as JSON with a checksum, so that damage to a small file of the ledger is noticed. Spark-free."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from penstock.core.errors import PenstockError

_CHECKSUM = "checksum"


def sealed(facts: dict[str, Any], *, indent: int | None = None) -> bytes:
    """Facts as the text of a file.

    >>> sealed({"batch": 12})
    b'{"batch": 12, "checksum": "09c4f02a7264bf70"}\\n'
    """
    return (json.dumps(facts | {_CHECKSUM: _checksum(facts)}, indent=indent) + "\n").encode()


def unsealed(
    text: bytes | None, name: str, *, bare: Callable[[dict[str, Any]], bool] = lambda _: False, of: str = "archive must be a whole ledger"
) -> dict[str, Any]:
    """The facts in the text of a file; what is `bare` needs no checksum, since older releases wrote none.

    >>> unsealed(sealed({"batch": 12}), "a.json")
    {'batch': 12}
    """
    if text is None:
        raise PenstockError(f"{of}: {name} is missing")
    try:
        facts = json.loads(text)
        assert isinstance(facts, dict)
        found = facts.pop(_CHECKSUM, None)
        wanted = _checksum(facts)
    except (ValueError, AssertionError, RecursionError):
        raise PenstockError(f"{of}: {name} is damaged, it is no JSON of ours") from None
    if found != wanted if found is not None else not bare(facts):
        raise PenstockError(f"{of}: {name} is damaged, its checksum is not that of its content")
    return facts


def _checksum(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
