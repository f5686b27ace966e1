"""The one exception that means "this input is wrong": it names the argument, what it got and what would be right."""

import difflib
from collections.abc import Iterable


class PenstockError(ValueError):
    """Bad input. The message is one sentence that a user can act on.

    >>> raise PenstockError("memory must be a positive number of rows, got -3")
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: memory must be a positive number of rows, got -3
    """


def choose(argument: str, got: object, choices: Iterable[str]) -> str:
    """Return `got` if it is one of `choices`, else raise an error that suggests the nearest name.

    >>> choose("policy", "prob", ["prob", "life"])
    'prob'
    >>> choose("policy", "porb", ["prob", "life"])
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: policy must be one of prob, life, got 'porb' (did you mean 'prob'?)
    """
    names = list(choices)
    if isinstance(got, str) and got in names:
        return got
    near = difflib.get_close_matches(str(got).lower(), names, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise PenstockError(f"{argument} must be one of {', '.join(names)}, got {got!r}{hint}")
