"""The ids of shards: numbers that Spark's shuffle sends to partitions 0, 1, 2, ... in turn, however many there are.

Spark sends a row to partition hash(id) mod the number of partitions, and hashes 0..3 over 4 partitions into 2 of them. Its hash
(Murmur3, 32 bits, seed 42) can be undone step by step, so the id of shard i is the number whose hash is i. Nothing about the session
enters: a query that is restarted with other settings finds its shards where they were.
"""

from __future__ import annotations

import numpy as np

from penstock.core.trace import Ints

_BITS = (1 << 32) - 1
_SEED, _LENGTH = 42, 8  # Spark's seed; the bytes of a bigint
_SPREAD, _SHIFT = 0xE6546B64, 5


def shard_ids(shards: int) -> Ints:
    """One id per shard; that of a shard does not depend on how many there are.

    >>> shard_ids(3).tolist()
    [958104307, 3029212710, 2330224183]
    """
    return np.array([_with_hash(number) for number in range(shards)], dtype=np.int64)


def partition_keys(partitions: int) -> list[int]:
    """The same of 32 bits: for each partition an int that Spark's shuffle sends there.

    >>> partition_keys(3)
    [-1693959553, -1910889132, -1382833682]
    """
    found = [_unscramble(_unmix(_unfinish(number, _LENGTH // 2)) ^ _SEED) for number in range(partitions)]
    return [key - (key >> 31 << 32) for key in found]


def _with_hash(wanted: int) -> int:
    """The bigint below 2**32 that Spark's hash sends to `wanted`: the hash takes its low half in, then its high half, which is 0."""
    mixed = _unfinish(wanted, _LENGTH)
    after_low = _unmix(mixed)
    return _unscramble(_unmix(after_low) ^ _SEED)


def _unfinish(value: int, length: int) -> int:
    """Undo the last step, in which every bit reaches every other."""
    value ^= value >> 16
    value = _divided(value, 0xC2B2AE35)
    value ^= (value >> 13) ^ (value >> 26)
    value = _divided(value, 0x85EBCA6B)
    return value ^ (value >> 16) ^ length


def _unmix(value: int) -> int:
    """Undo the taking in of a half, but for the exclusive or with the half."""
    return _turned_back(_divided(value - _SPREAD, _SHIFT), 13)


def _unscramble(value: int) -> int:
    """Undo what is done to a half before it is taken in."""
    return _divided(_turned_back(_divided(value, 0x1B873593), 15), 0xCC9E2D51)


def _divided(value: int, factor: int) -> int:
    return value * pow(factor, -1, 1 << 32) & _BITS


def _turned_back(value: int, by: int) -> int:
    return (value >> by | value << (32 - by)) & _BITS
