"""The types of calls and attributes, remembered: Numba looks through all that it knows for every operator of every function."""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import types as untyped_types

types: Any = untyped_types


class KnownTypes:
    """Numba's typing context, which answers at once what it was asked before. Compiled functions are asked each time: they may be new."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.known: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.context, name)

    def resolve_function_type(self, function: Any, arguments: Any, keywords: Any) -> Any:
        """The signature of a call."""
        if keywords or isinstance(function, types.Dispatcher):
            return self.context.resolve_function_type(function, arguments, keywords)
        call = function, tuple(arguments)
        if call not in self.known:
            self.known[call] = self.context.resolve_function_type(function, arguments, keywords)
        return self.known[call]

    def resolve_getattr(self, kind: Any, name: str) -> Any:
        """The type of an attribute."""
        if (kind, name) not in self.known:
            self.known[kind, name] = self.context.resolve_getattr(kind, name)
        return self.known[kind, name]


@cache
def known_types(context: Any) -> KnownTypes:
    """What was found out with this context."""
    return KnownTypes(context)
