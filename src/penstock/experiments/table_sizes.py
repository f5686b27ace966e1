"""What the tables of load shedding take, by formula: ours, and the paper's (Kwon 4).

The paper counts 6 bytes for each of H hash values (the bit vectors), and for each of n streams 10 for each of 2**(n-1) existence
patterns and 2 for the pointer to each of M tuples; value-based policies need 8 for each of D keys instead. Ours have the same form with
other sizes, and the tests compare them with the arrays of a running engine.

Differs from the paper: vectors and statistics are kept for keys in memory alone, so that D is the number of these and not of all keys;
ours are 64-bit numbers, and the order of the patterns (the paper's priority queue), where it is kept, is counted too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.engine.compiled.order.tree import BLOCK, shape
from penstock.engine.compiled.patterns import FEW_STREAMS
from penstock.engine.compiled.state import ARRAYS, BAND, STEP

_PLACE = 4  # of the hash table
_VECTOR = 8  # in a class: `bits`
_STATISTIC = 8  # in a class: `price`
_MARK = np.dtype(ARRAYS["marks"]).itemsize  # of a tuple: who finished it
_ENTRY = sum(np.dtype(ARRAYS[name]).itemsize for name in ("holders", "keys"))  # of a tournament: 12


def paper_bytes(policy: str, *, streams: int, memory: int, hashes: int = 0, keys: int = 0) -> int:
    """Kwon's formulas (1) and (2); `memory` is that of one window.

    >>> paper_bytes("ep", streams=5, memory=500, hashes=10**6), paper_bytes("output", streams=5, memory=500, keys=10**8)
    (6005800, 4000005000)
    """
    if policy == "ep":
        return 6 * hashes + streams * (10 * 2 ** (streams - 1) + 2 * memory)
    return streams * (8 * keys + 2 * memory)


def our_bytes(policy: str, *, streams: int, slots: int, classes: int, pools: int = 1) -> int:
    """The same for arrays with room for so many tuples of so many classes, all streams together.

    >>> our_bytes("ep", streams=4, slots=2000, classes=2000)
    73676
    """
    places = 1 << max(4, (classes * 3 // 2).bit_length())
    vectors = _PLACE * places + _VECTOR * classes
    if policy == "ep":
        bands = streams * 2 ** (streams - 1)
        return (
            vectors
            + BAND.itemsize * bands
            + (STEP.itemsize + _MARK) * slots
            + (_ENTRY if streams <= FEW_STREAMS else _tournament(bands, pools))
        )
    return vectors + _STATISTIC * classes + _tournament(classes, pools)


def measured_bytes(policy: str, arrays: dict[str, Any]) -> int:
    """What the arrays of a compiled engine hold of it."""
    own = ("table", "holders", "keys", *(("bands", "ladder", "marks") if policy == "ep" else ()))
    fields = _VECTOR + (0 if policy == "ep" else _STATISTIC)
    return sum(arrays[name].nbytes for name in own) + fields * len(arrays["groups"])


def _tournament(players: int, pools: int) -> int:
    leaves, inner = shape(players)
    return _ENTRY * (leaves + pools * (inner + BLOCK - 1))
