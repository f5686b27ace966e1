"""`ps.truncate`: join less, keep most. Relations are Spark DataFrames, or histograms, for which Spark is not needed (Das, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.core.errors import PenstockError
from penstock.static.histogram import Truncation, named_relations, truncate_histograms
from penstock.static.keep_plan import Amounts

if TYPE_CHECKING:
    from penstock.spark.static.frames import KeyColumns
    from penstock.spark.static.windowed import WindowedTruncation


def truncate(
    relations: Any,
    *,
    on: KeyColumns = None,
    keep: Amounts = None,
    drop: Amounts = None,
    method: str = "auto",
    time: str | Mapping[str, str] | None = None,
    window: str | None = None,
    lateness: str = "0 seconds",
    say: Callable[[str], None] | None = None,
) -> Truncation | WindowedTruncation:
    """The tuples of an equi-join to keep, when not all of them can be, so that the most outputs remain.

    * `relations`: two or more, by name or in a sequence (then they are A, B, ...): DataFrames; or histograms, mappings from key to count
      or arrays of counts over the same keys.
    * `on`: the key columns of DataFrames; where their names differ, a mapping from the relation's name to its columns.
    * `keep` or `drop`: a number of tuples in all, or one for each relation, in a sequence or by name.
    * `method`: `optimal`, `adg` (a number in all), `ndg` or `ndg-independent` (a number for each); `auto` is `optimal` where it fits.
    * `time`, `window`: window by window, for DataFrames, in consecutive windows such as "10 minutes" of the column `time`; `keep` or
      `drop` then counts in each window. The frames may be streams, whose rows come up to `lateness` late.
    * `say` is called with what the exact plan will take, before it is made.

    Returns a `Truncation`: `relations` by name, as they are kept (DataFrames, or counts), `method`, `n_tuples`, `n_kept`, `n_exact`,
    `n_output`, `n_lost`, `most` (no choice keeps more outputs) and `bound` (what is proven of the method). Window by window it has
    `relations` and `windows`, a DataFrame with these figures for each window.

    >>> done = truncate({"A": {"x": 2, "y": 3}, "B": {"x": 10, "y": 3}}, keep=6)
    >>> done.n_output, done.n_lost, done.relations
    (9, 20, {'A': {'y': 3}, 'B': {'y': 3}})
    """
    named = named_relations(relations)
    frames = [hasattr(one, "sparkSession") for one in named.values()]
    if any(frames) and not all(frames):
        raise PenstockError("relations must be all DataFrames or all histograms, got some of each")
    if not any(frames):
        given = {"on": on, "time": time, "window": window}
        if any(value is not None for value in given.values()):
            which = next(name for name, value in given.items() if value is not None)
            raise PenstockError(f"{which} is for DataFrames, and the relations are histograms: leave it out")
        return truncate_histograms(relations, keep=keep, drop=drop, method=method, say=say)
    if (time is None) != (window is None):
        raise PenstockError(f"time and window belong together, got only {'time' if window is None else 'window'}")
    if window is None:
        from penstock.spark.static.frames import truncate_frames

        return truncate_frames(named, on=on, keep=keep, drop=drop, method=method, say=say)
    from penstock.spark.static.windowed import truncate_windows

    assert time is not None
    return truncate_windows(named, on=on, keep=keep, drop=drop, method=method, time=time, window=window, lateness=lateness)
