"""`@kernel`: compile a function with Numba and keep the machine code on disk between processes."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile `function`, which neither makes nor returns arrays. With NUMBA_DISABLE_JIT=1 it stays plain Python, with the same results.

    Without arrays to own there are no reference counts to keep: the state of an engine is some twenty arrays, and counting
    them at every call made the loop forty times slower (docs/decisions/0003).

    >>> @kernel
    ... def twice(x):
    ...     return 2 * x
    >>> twice(21)
    42
    """
    return _compile(function, _nrt=False)


def inlined(function: F) -> F:
    """Compile a small `kernel` into its callers.

    >>> @inlined
    ... def half(x):
    ...     return x / 2
    >>> half(3)
    1.5
    """
    return _compile(function, _nrt=False, forceinline=True)


def routine(function: F) -> F:
    """Compile `function`, which may make arrays.

    >>> import numpy as np
    >>> @routine
    ... def zeros(n):
    ...     return np.zeros(n)
    >>> zeros(2).tolist()
    [0.0, 0.0]
    """
    return _compile(function)


def _compile(function: F, **options: Any) -> F:
    jit: Any = numba.njit
    compiled: F = jit(cache=True, nogil=True, error_model="numpy", **options)(function)
    return compiled
