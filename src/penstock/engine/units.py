"""Whole numbers of 187 bits and a sign, for the scores of `dgl`: three parts, the lower two of 62 bits each (docs/decisions/0001)."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.core.compiled import inlined
from penstock.engine.gain_loss import MOST_BITS, UNIT

Whole = tuple[int, int, int]

BITS = 62
"""Bits of a part."""
_PART = (1 << BITS) - 1
_TOP = 1 << (MOST_BITS - 2 * BITS)  # the highest part of the largest score
_IMPLIED = 1 << 52
_EXPONENT = UNIT - 1075
_MOST_SHIFT = MOST_BITS - 53 - BITS
_HIGH, _MID = 2.0 ** (2 * BITS - UNIT), 2.0 ** (BITS - UNIT)


def added(a: Any, b: Any) -> Any:
    """The sum, of three numbers each or of three arrays.

    >>> added((0, 1, (1 << 62) - 1), (2, 3, 1))
    (2, 5, 0)
    """
    low = a[2] + b[2]
    mid = a[1] + b[1] + (low >> BITS)
    return a[0] + b[0] + (mid >> BITS), mid & _PART, low & _PART


def taken(a: Any, b: Any) -> Any:
    """The difference.

    >>> taken((2, 5, 0), (2, 3, 1)) == (0, 1, (1 << 62) - 1)
    True
    """
    low = a[2] - b[2]
    mid = a[1] - b[1] + (low >> BITS)
    return a[0] - b[0] + (mid >> BITS), mid & _PART, low & _PART


def parts_of(number: int) -> Whole:
    """A whole number in three parts.

    >>> added(parts_of(1 << 62), parts_of(1))
    (0, 1, 1)
    """
    return number >> 2 * BITS, number >> BITS & _PART, number & _PART


def as_number(a: Any) -> Any:
    """Nearly the number, without its lowest part; never less than that of a smaller one."""
    return a[0] * _HIGH + a[1] * _MID


add, take, number_of = inlined(added), inlined(taken), inlined(as_number)
"""The same, compiled into loops."""


@inlined
def below(a: Whole, b: Whole) -> bool:
    """Whether a is less than b."""
    if a[0] != b[0]:
        return a[0] < b[0]
    return a[1] < b[1] if a[1] != b[1] else a[2] < b[2]


@inlined
def within(total: Whole, lost: Whole) -> Whole:
    """A score and what all have lost, the score cut down to the most that it may be."""
    if total[0] - lost[0] < _TOP:
        return total
    most = add(lost, (_TOP, 0, 0))
    return most if below(most, total) else total


@inlined
def whole(number: float) -> Whole:
    """What `in_units` of gain_loss.py says."""
    bits = int(np.float64(number).view(np.int64))
    mantissa = (bits & (_IMPLIED - 1)) | _IMPLIED
    shift = (bits >> 52) + _EXPONENT  # of the mantissa, in units
    if 0 <= shift < BITS:
        return 0, mantissa >> (BITS - shift), (mantissa << shift) & _PART
    if shift < 0:
        return 0, 0, mantissa >> min(-shift, BITS)
    shift -= BITS
    if shift < BITS:
        return mantissa >> (BITS - shift), (mantissa << shift) & _PART, 0
    return (_TOP, 0, 0) if shift > _MOST_SHIFT else (mantissa << (shift - BITS), 0, 0)
