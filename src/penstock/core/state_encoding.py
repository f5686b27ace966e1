"""State as data: numbers, texts, arrays and what holds them as bytes, and back. Reading it runs no code, whoever wrote it.

    magic | length of the head | head: JSON with a tree of values and where the arrays are | arrays, each at a multiple of 64

A pickle is a program, so nothing that is kept in a file is one (docs/trust.md).
"""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from penstock.core.errors import PenstockError

_MAGIC = b"penstock data 1\n"
LINE = 64
"""Bytes, at a multiple of which arrays begin."""
_PLAIN = (type(None), bool, int, float, str)
_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_HOLDS = "None, numbers, texts, bytes, lists, tuples, sets and dicts of these, arrays of NumPy and generators of random numbers"


def pack(value: Any, what: str = "value") -> bytes:
    """A value as bytes; `what` is its name in the error where something in it is no data.

    >>> unpack(pack({"a": [1, 2.5, None], ("b", 1): np.array([1, 2])}))
    {'a': [1, 2.5, None], ('b', 1): array([1, 2])}
    """
    file = io.BytesIO()
    write(file, value, what)
    return file.getvalue()


def write(file: BinaryIO, value: Any, what: str = "value") -> None:
    """Write what `pack` gives."""
    arrays: list[Any] = []
    tree = _tree(value, what, arrays)
    at, parts = 0, []
    for array in arrays:
        parts.append([np.lib.format.dtype_to_descr(array.dtype), list(array.shape), at])
        at += -(-array.nbytes // LINE) * LINE
    head = json.dumps({"tree": tree, "arrays": parts}).encode()
    start = len(_MAGIC) + 8 + len(head)
    file.write(_MAGIC + struct.pack("<q", len(head)) + head + bytes(-start % LINE))
    for array in arrays:
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.nbytes else b"")
        file.write(bytes(-array.nbytes % LINE))


def is_data(raw: Any) -> bool:
    """Whether bytes begin as those of `pack` do."""
    return bytes(raw[: len(_MAGIC)]) == _MAGIC


def unpack(raw: Any, what: str = "value", *, copies: bool = True) -> Any:
    """The value in bytes of `pack`; an error where they are none. Without `copies` its arrays are where the bytes are."""
    try:
        if not is_data(raw):
            raise ValueError
        (length,) = struct.unpack_from("<q", raw, len(_MAGIC))
        begin = len(_MAGIC) + 8
        if not 0 <= length <= len(raw) - begin:
            raise ValueError
        head = json.loads(bytes(raw[begin : begin + length]))
        first = -(-(begin + length) // LINE) * LINE
        return _value(head["tree"], [_array(raw, first, *part, copies=copies) for part in head["arrays"]])
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, struct.error, RecursionError, OverflowError, MemoryError):
        raise PenstockError(f"{what} must be data that Penstock wrote, got {len(raw)} bytes that are none") from None


def policy_state(policy: Any) -> dict[str, Any]:
    """What a policy wants to be kept (`Policy.snapshot`), all of it data."""
    state = policy.snapshot()
    if not isinstance(state, dict):
        raise PenstockError(f"policy {policy.name!r} must return a dict from snapshot(), got a {type(state).__name__}")
    for name, value in state.items():
        try:
            pack(value, f"attribute {name!r} of policy {policy.name!r}")
        except PenstockError as error:
            raise PenstockError(f"{error}; or give the policy methods snapshot(), for what of it is data, and restore(state)") from None
    return state


def _array(raw: Any, first: int, descr: Any, shape: list[int], at: int, *, copies: bool) -> Any:
    dtype = np.lib.format.descr_to_dtype(_tuples(descr))
    if dtype.hasobject or at < 0:
        raise ValueError
    if 0 in shape:
        return np.empty(tuple(shape), dtype)
    found = np.ndarray(tuple(shape), dtype, raw, first + at)
    return found.copy() if copies else found


def _tuples(descr: Any) -> Any:
    """The description of a type as NumPy wants it: JSON has no tuples."""
    if not isinstance(descr, list):
        return descr
    return [(field[0], _tuples(field[1]), *(tuple(shape) for shape in field[2:])) for field in descr]


def _tree(value: Any, what: str, arrays: list[Any]) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list:
        return [_tree(one, f"{what}[{number}]", arrays) for number, one in enumerate(value)]
    if kind is dict:
        return {"dict": [[_tree(k, f"a key of {what}", arrays), _tree(v, f"{what}[{k!r}]", arrays)] for k, v in value.items()]}
    if kind in (tuple, set, frozenset):
        return {kind.__name__: [_tree(one, f"{what}[{number}]", arrays) for number, one in enumerate(value)]}
    if kind is bytes:
        return {"bytes": _kept(np.frombuffer(value, np.uint8), arrays)}
    if isinstance(value, np.generic | np.ndarray) and type(value) is not np.ma.MaskedArray and not value.dtype.hasobject:
        name = "array" if isinstance(value, np.ndarray) else "scalar"
        return {name: _kept(np.asarray(value), arrays)}
    if kind is np.random.Generator and type(value.bit_generator).__name__ in _GENERATORS:
        return {"generator": _tree(value.bit_generator.state, what, arrays)}
    if kind is random.Random:
        return {"random": _tree(value.getstate(), what, arrays)}
    raise PenstockError(f"{what} must be data, to be kept in a state ({_HOLDS}), got a {kind.__module__}.{kind.__qualname__}")


def _kept(array: Any, arrays: list[Any]) -> int:
    arrays.append(array)
    return len(arrays) - 1


def _generator(state: Any) -> Any:
    if state["bit_generator"] not in _GENERATORS:
        raise ValueError
    bits = getattr(np.random, state["bit_generator"])(0)
    bits.state = state
    return np.random.Generator(bits)


def _random(state: Any) -> random.Random:
    drawn = random.Random(0)
    drawn.setstate(state)
    return drawn


_KINDS: dict[str, Callable[[Any, list[Any]], Any]] = {
    "dict": lambda content, arrays: {_value(k, arrays): _value(v, arrays) for k, v in content},
    "tuple": lambda content, arrays: tuple(_value(one, arrays) for one in content),
    "set": lambda content, arrays: {_value(one, arrays) for one in content},
    "frozenset": lambda content, arrays: frozenset(_value(one, arrays) for one in content),
    "bytes": lambda content, arrays: arrays[content].tobytes(),
    "array": lambda content, arrays: arrays[content],
    "scalar": lambda content, arrays: arrays[content][()],
    "generator": lambda content, arrays: _generator(_value(content, arrays)),
    "random": lambda content, arrays: _random(_value(content, arrays)),
}


def _value(tree: Any, arrays: list[Any]) -> Any:
    if isinstance(tree, list):
        return [_value(one, arrays) for one in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    return _KINDS[kind](content, arrays)
