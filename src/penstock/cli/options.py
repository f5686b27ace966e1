"""Options that describe a join, a memory and what to write: every command that plays a trace takes them from here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

_JOIN, _THROUGH, _SHED, _BEST, _RESULT = "The join", "Relations", "The memory and who leaves it", "The optimum", "The result"


def _option(panel: str, metavar: str, text: str, *names: str, default: str | bool = True) -> Any:
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, show_default=default)


TraceFile = Annotated[
    Path,
    typer.Argument(metavar="TRACE", help="Parquet, CSV or JSON Lines with the columns stream, time, key.", show_default=False),
]

TraceFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="TRACE",
        help="A trace: Parquet, CSV or JSON Lines with columns stream, time, key. Or several: a file or folder per stream, in any order.",
        show_default=False,
    ),
]

# The join.
Window = Annotated[
    str,
    _option(
        _JOIN,
        "LENGTH",
        "How long tuples wait for partners: 400 ticks; '10 minutes'; by stream R=400,S=800; rows:100; tumbling:400; landmark:0; "
        "none; 0:400,900:200 (from time 900 on 200).",
        default=False,
    ),
]
Objective = Annotated[
    str | None,
    _option(
        _JOIN,
        "NAME",
        "What an output is worth: count (1), or min, max, sum, product, avg of its importances.",
        default="min; count without importances",
    ),
]
Start = Annotated[str | None, _option(_JOIN, "TIME", "Count outputs from this time on: ticks, or 2026-01-31T12:00 for timestamps.")]
Model = Annotated[str, _option(_JOIN, "NAME", "buffered (join, then shed) or inplace (shed, then join).")]
Clock = Annotated[
    str | None,
    _option(
        _JOIN,
        "NAME",
        "What makes tuples expire: the global time, or that of the slowest of the streams.",
        default="global; streams with --shards",
    ),
]
Lateness = Annotated[str, _option(_JOIN, "LENGTH", "For --clock streams: how late a row may be, 5, '5 seconds' or R=5,S=0.")]
Matches = Annotated[
    str | None,
    _option(
        _JOIN,
        "N",
        "A promise: a tuple takes part in at most so many outputs, and leaves after the last: 1, or S=1 for some of the streams.",
        default="none",
    ),
]
Ahead = Annotated[
    str,
    _option(
        _JOIN,
        "LENGTH",
        "Put rows aside that are further ahead than others support, until they do: 400 ticks, '1 day', or 'none'; '1 day:drop' drops them.",
    ),
]
Predicate = Annotated[
    str,
    _option(
        _JOIN,
        "TEST",
        "Which keys match: =, !=, <, <=, >, >=, eps:0.5. Or links between columns of streams: 'R.a = S.a, S.b < T.b, |R.x - T.x| <= 0.5'.",
    ),
]
Cross = Annotated[bool, _option(_JOIN, "", "Let streams that no links connect match freely.", "--cross")]
Relations = Annotated[
    list[str] | None,
    _option(
        _THROUGH,
        "FILE",
        "Join the streams through the facts in this table, which need no key then: pairs.csv, or with a name pairs=zones.csv. May be given "
        "several times.",
        "--relation",
        default="none",
    ),
]
Links = Annotated[
    list[str] | None,
    _option(
        _THROUGH,
        "TEST",
        "A stream's column and the attribute of the relation that has its values, one for each stream: 'R.x = a', 'b = S.y'; of several "
        "relations 'pairs: R.x = a'.",
        "--link",
        default="none",
    ),
]
FactBegin = Annotated[
    str | None,
    _option(_THROUGH, "COLUMN", "From when on a fact is active; null: always before.", "--relation-begin", default="begin, if there"),
]
FactEnd = Annotated[
    str | None, _option(_THROUGH, "COLUMN", "When a fact was deleted; null: not yet.", "--relation-end", default="end, if there")
]
FactWeight = Annotated[
    str | None,
    _option(
        _THROUGH, "COLUMN", "What joins through a fact is worth so many times as much.", "--relation-weight", default="weight, if there"
    ),
]
FactId = Annotated[
    str | None,
    _option(_THROUGH, "COLUMN", "What tells facts apart that have the same values.", "--relation-id", default="the linked columns"),
]
Key = Annotated[
    str | None,
    _option(
        _JOIN,
        "COLUMNS",
        "The columns of the key, with commas between them; of streams with a file each also R=a,S=b.",
        default="key; none with links or relations",
    ),
]
TimeUnit = Annotated[
    str | None,
    _option(
        _JOIN,
        "UNIT",
        "What one tick is where times are whole numbers: s, ms, us, ns, min, h or d. Needed for durations.",
        default="unknown",
    ),
]
Streams = Annotated[
    str | None,
    _option(_JOIN, "NAMES", "The streams in their order; one may have no rows. Of a file each: their names.", default="as they appear"),
]
TimeColumn = Annotated[
    str | None, _option(_JOIN, "COLUMN", "Of streams with a file each: the column of the time, or R=ts,S=at by stream.", default="time")
]
ImportanceColumn = Annotated[str | None, _option(_JOIN, "COLUMN", "Of streams with a file each: what a row is worth.", default="1")]
SizeColumn = Annotated[str | None, _option(_JOIN, "COLUMN", "Of streams with a file each: the bytes of a row, for a memory in bytes.")]

# The memory and who leaves it.
Memory = Annotated[
    str,
    _option(
        _SHED,
        "SIZE",
        "What it may hold: 100 rows; by stream R=100,S=50; 512MB; 0:100,500:50 (from time 500 on 50, before it 100; times as in --start).",
        default=False,
    ),
]
Memories = Annotated[
    list[str],
    _option(
        _SHED,
        "SIZE",
        "What it may hold: 100 rows; 512MB; by stream R=100,S=50; 0:100,500:50 (from time 500 on 50, before it 100; times as in --start); "
        "R=0:100,500:50,S=70. Several, for a table and a curve: 100,1000,10000; may be given several times.",
        default=False,
    ),
]
Policies = Annotated[
    str, _option(_SHED, "NAMES", "Who leaves first: names from 'penstock policies', with commas between them; opt for the optimum.")
]
Allocation = Annotated[str, _option(_SHED, "HOW", "variable (one pool for all streams) or fixed (equal parts).")]
Stats = Annotated[
    str,
    _option(
        _SHED,
        "SOURCE",
        "Where probabilities come from: decayed (what has come so far, as on Spark), whole (all of the trace, its future too), window, "
        "given, sketch.",
    ),
]
Rates = Annotated[Path | None, _option(_SHED, "FILE", "For --stats given: a table with columns stream, key, rate.")]
Shards = Annotated[
    str | None,
    _option(_SHED, "N", "Play what Spark will play with so many shards, each with a share of the memory.", default="one memory for all"),
]
SharedShares = Annotated[
    bool,
    typer.Option(
        "--shared/--equal",
        rich_help_panel=_SHED,
        help="For --batch: memory moves between shards to where it is worth most, as in a join with an archive; or all have equal shares.",
    ),
]
BatchLength = Annotated[
    str | None,
    _option(
        _SHED,
        "LENGTH",
        "For --shards: the time that a micro-batch has, after which shards learn each other's clocks: ticks, or '1 minute'.",
        "--batch",
        default="all rows are one",
    ),
]
Seed = Annotated[str, _option(_SHED, "N", "For policies that draw at random.")]
Alpha = Annotated[str | None, _option(_SHED, "X", "dgl: gains are divided by it: ticks, or '10 minutes'.", default="the window")]
Beta = Annotated[str | None, _option(_SHED, "X", "dgl: the loss of an idle instant.", default="mean importance / window")]
Weights = Annotated[str, _option(_SHED, "A,B,C", "additive: weights of importance, matches and time.")]
HalfLife = Annotated[
    str | None, _option(_SHED, "LENGTH", "Of --stats decayed, sketch: ticks or '10 minutes'.", default="the longest window")
]
Switches = Annotated[
    list[str] | None,
    _option(_SHED, "NAME=VALUE", "Another reading of the papers (docs/readings.md, switches); may be given several times.", "--set"),
]

# The optimum.
Method = Annotated[str, _option(_BEST, "NAME", "How it is found: auto, class, chain or states.")]
Least = Annotated[bool, _option(_BEST, "", "The least value instead, of all schedules that keep memory full (states only).", "--least")]
Limit = Annotated[str, _option(_BEST, "SIZE", "How much memory of this machine the method may use; what needs more is refused.")]
Verify = Annotated[bool, _option(_BEST, "", "Check the answer by its dual prices, independently of how it was found.", "--verify")]
Curve = Annotated[bool, _option(_BEST, "", "The optimum for many sizes of memory, up to --memory.", "--curve")]
Sizes = Annotated[str | None, _option(_BEST, "SIZES", "For --curve: 100,200,400.", default="all sizes; ten, where each is solved alone")]
Display = Annotated[bool, _option(_BEST, "", "Show the memory after each instant, and what it earned.", "--display")]
ScheduleFile = Annotated[Path | None, _option(_BEST, "FILE", "Write the schedule: row, and the instant in which it leaves.", "--schedule")]
CurvePlot = Annotated[Path | None, _option(_BEST, "FILE", "Draw the --curve: .png, .svg or .html.", "--plot")]

# The result.
Outputs = Annotated[Path | None, _option(_RESULT, "FILE", "Write the outputs: policy, time, the row number of each member and fact.")]
MemoryLog = Annotated[Path | None, _option(_RESULT, "FILE", "Write the memory after each instant: policy, time, row numbers.")]
Plot = Annotated[
    Path | None,
    _option(_RESULT, "FILE", "Draw memory per stream over time, or recall by memory where there are several: .png, .svg or .html."),
]
Compared = Annotated[
    bool | None,
    typer.Option(
        "--exact/--no-exact",
        help="Compare with the exact result.",
        rich_help_panel=_RESULT,
        show_default="only for tables",
    ),
]
Recalled = Annotated[bool, typer.Option("--exact/--no-exact", help="Compare with the exact result: recall.", rich_help_panel=_RESULT)]
