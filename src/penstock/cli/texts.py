"""How the texts of options are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.core.trace import Trace


def words(text: str, option: str) -> list[str]:
    """The parts of a comma list.

    >>> words("prob, life", "--policy")
    ['prob', 'life']
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise PenstockError(f"{option} must be one or more values with commas between them, got {text!r}")
    return parts


def key_columns(text: str | None, predicate: str, through: Sequence[Any] = ()) -> list[str]:
    """The columns of `--key`; where it is not given, `key`, or none for links and relations, which name their own columns.

    >>> key_columns(None, "="), key_columns(None, "R.a = S.a")
    (['key'], [])
    """
    from penstock.core.graph import is_graph

    if text is None:
        return [] if through or is_graph(predicate) else ["key"]
    return words(text, "--key")


def memories(texts: Sequence[str]) -> list[str]:
    """The memories of `--memory`, which may be repeated and may hold several; one by stream or over time has commas of its own.

    >>> memories(["1000,10000", "R=100,S=50", "0:12,60:4"])
    ['1000', '10000', 'R=100,S=50', '0:12,60:4']
    """
    found = [part for text in texts for part in ([text] if "=" in text or ":" in text else words(text, "--memory"))]
    twice = [part for part in found if found.count(part) > 1]
    if twice:
        raise PenstockError(f"--memory must give each memory once, got {twice[0]!r} more than once")
    return found


def check_size(text: str, option: str) -> None:
    """Refuse a text with a number in it that is too large to count ticks or rows with.

    >>> check_size("0:400,99999999999999999999:200", "--window")
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: --window must have numbers up to 2**60, got '0:400,99999999999999999999:200'
    """
    if any(len(digits) > 19 or int(digits) > 1 << 60 for digits in re.findall(r"\d+", text)):
        raise PenstockError(f"{option} must have numbers up to 2**60, got {text!r}")


def integer(text: str, option: str, *, least: int = -(1 << 60)) -> int:
    """A whole number between `least` and 2**60.

    >>> integer("many", "--rows", least=1)
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: --rows must be a whole number >= 1, got 'many'
    """
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= 1 << 60:
        bounds = " up to 2**60" if number > 1 << 60 else f" >= {least}" if least > -(1 << 60) else ""
        raise PenstockError(f"{option} must be a whole number{bounds}, got {text!r}")
    return number


def moment(text: str, option: str, trace: Trace) -> int:
    """A time of a trace: a number of ticks; where the trace has timestamps, a date too (in UTC, where it names no zone)."""
    from penstock.core.ticks import moment as dated

    found = dated(trace, text, option)
    return integer(found, option) if isinstance(found, str) else int(found)


def real(text: str, option: str) -> float:
    """A number.

    >>> real("0.5", "--alpha")
    0.5
    """
    try:
        return float(text)
    except ValueError:
        raise PenstockError(f"{option} must be a number, got {text!r}") from None


def span(text: str, option: str) -> float | str:
    """A number of ticks, or a duration as it is.

    >>> span("0.5", "--half-life"), span("10 minutes", "--half-life")
    (0.5, '10 minutes')
    """
    from penstock.core.window import in_microseconds

    return text if in_microseconds(text) is not text else real(text, option)


def settings(texts: Sequence[str]) -> dict[str, str]:
    """The switches of `--set`, which may be repeated and may hold several.

    >>> settings(["mn=memory,rates=arrival"])
    {'mn': 'memory', 'rates': 'arrival'}
    """
    chosen: dict[str, str] = {}
    for part in (part for text in texts for part in text.split(",")):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise PenstockError(f"--set must read like name=value, got {part!r}")
        if chosen.setdefault(name, value) != value:
            raise PenstockError(f"--set must choose one value for {name}, got {chosen[name]!r} and {value!r}")
    return chosen


def per_stream(text: str, option: str, streams: Sequence[str]) -> float | list[float]:
    """One number for all streams, or one for each: "1.0", "1,0" in their order, or "R=1,S=0".

    >>> per_stream("S=0,R=1", "--skew", ["R", "S"])
    [1.0, 0.0]
    >>> per_stream("0.5", "--skew", ["R", "S"])
    0.5
    """
    try:
        if "=" in text:
            named = dict(part.split("=") for part in words(text, option))
            by_name = {name.strip(): float(value) for name, value in named.items()}
            if set(by_name) != set(streams):
                raise PenstockError(f"{option} must name each of the streams {', '.join(streams)}, got {text!r}")
            return [by_name[name] for name in streams]
        numbers = [float(part) for part in words(text, option)]
    except ValueError as error:
        if isinstance(error, PenstockError):
            raise
        raise PenstockError(f"{option} must be a number, or one per stream such as R=1,S=0, got {text!r}") from None
    return numbers[0] if len(numbers) == 1 else numbers
