"""The codes by which a policy says how the compiled engine may rank for it; `contract.Ranking` puts them together."""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """Kinds of ranking. ARRIVAL and DRAW need no classes; PRICE, LIFE and STAY order a class by age, the others by a heap."""

    ARRIVAL = 0
    DRAW = 1
    PRICE = 2
    LIFE = 3
    STAY = 4
    SCORE = 5
    SCORE_TIMES_PRICE = 6
    SCORE_PLUS_PRICE = 7
    GAIN_LOSS = 8


class Prices(IntEnum):
    """What a class is worth.

    Nothing; by the statistics, the product of the partners' rates or the sum of all rates; mn; the tuples with the key in all streams; the
    outputs of the key so far. PATTERNS are prices of bands: the outputs per tuple of an existence pattern. CHANCES are what is
    expected of a key by what was learned.
    """

    NONE = 0
    RATES = 1
    TOTALS = 2
    MATCHES = 3
    TUPLES = 4
    OUTPUTS = 5
    PATTERNS = 6
    CHANCES = 7


class FirstScore(IntEnum):
    """Where the first score of a tuple comes from."""

    COLUMN = 0
    IMPORTANCE = 1
    MATCHES = 2
    EXPECTED = 3
