"""`penstock static`: keep the tuples of a join that make the most outputs, when not all of them can be kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.output import (
    PICTURES,
    TABLES,
    Bar,
    Files,
    FormatOption,
    check_different,
    check_target,
    note,
    number,
    print_json,
    print_table,
    share,
    wants_json,
)
from penstock.cli.texts import integer, words
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    from penstock.static.histogram import Truncation

_METHODS = "optimal; adg (one number); ndg, ndg-independent (a number for each relation); auto: optimal where it fits."


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog="Example: penstock static orders.parquet clicks.parquet --on user --keep 5000 --out kept")(static)


def static(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES",
            help="Two or more relations (Parquet, CSV, JSON Lines), on Spark; or one file of counts: the key, then a column per relation.",
            show_default=False,
        ),
    ],
    on: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="The key: zone; a,b for two columns; by relation A=from,B=to (A=a+b,B=c+d).")
    ] = None,
    keep: Annotated[str | None, typer.Option(metavar="N", help="Tuples to keep: 5000 in all, or 3000,2000 or A=3000,B=2000.")] = None,
    drop: Annotated[str | None, typer.Option(metavar="N", help="Tuples to drop, instead of --keep.")] = None,
    method: Annotated[str, typer.Option(metavar="NAME", help=_METHODS)] = "auto",
    names: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Names of the relations, with commas.", show_default="those of the files")
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="For --window: the time, such as ts, or by relation A=sent,B=seen.")
    ] = None,
    window: Annotated[str | None, typer.Option(metavar="LENGTH", help='Truncate window by window: "10 minutes"; N counts in each.')] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the kept tuples: a folder with Parquet for each relation; for counts, a file of counts."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the outputs kept against the tuples kept, per method.")] = None,
    form: FormatOption = "table",
) -> None:
    """Join less, keep most: which tuples to keep so that the most outputs of an equi-join remain."""
    as_json = wants_json(form)
    check_target("--plot", plot, PICTURES)
    called = _names(files, names)
    if (time is None) != (window is None):
        raise PenstockError(f"--time and --window belong together, got only {'--time' if window is None else '--window'}")
    budget = {"keep": _numbers(keep, "--keep", called), "drop": _numbers(drop, "--drop", called)}
    if (keep is None) == (drop is None):
        raise PenstockError(f"static takes --keep N or --drop N, got {'neither' if keep is None else 'both'}")
    if len(files) == 1:
        if window is not None:
            raise PenstockError("--window is for relations, and one file is a table of counts; name two files")
        check_target("--out", out, TABLES)
        check_different({"FILES": files[0], "--out": out, "--plot": plot})
        _report(_counts(files[0], on, budget, method, out), plot, as_json)
        return
    if out is not None and out.exists():
        raise PenstockError(f"--out must be a folder that is not there yet, got {str(out)!r}")
    if plot is not None and window is not None:
        raise PenstockError("--plot is for whole relations, got --window too")
    if on is None:
        raise PenstockError("--on must name the key columns, got nothing")
    options = {"on": _by_relation(on, "--on", called, several=True), "method": method, **budget}
    if window is None:
        _report(_frames(called, options, out), plot, as_json)
    else:
        assert time is not None
        _windows(called, options | {"time": _by_relation(time, "--time", called), "window": window}, out, as_json)


def _names(files: list[Path], names: str | None) -> dict[str, Path]:
    """The files by the names of their relations."""
    called = [path.stem for path in files] if names is None else words(names, "--names")
    if names is not None and len(files) == 1:
        raise PenstockError(f"--names is for two or more files, got {names!r} for one file of counts, whose columns have the names")
    if len(files) > 1 and len(set(called)) < len(files):
        raise PenstockError(f"relations must have different names, got {', '.join(called)}: say --names A,B")
    if len(files) > 1 and len(called) != len(files):
        raise PenstockError(f"--names must have a name for each of the {len(files)} files, got {names!r}")
    return dict(zip(called, files, strict=False))


def _numbers(text: str | None, option: str, called: dict[str, Path]) -> Any:
    """One number, one for each relation in order, or by name."""
    if text is None:
        return None
    if "=" in text:
        return {name: integer(value, option, least=0) for name, value in _pairs(text, option)}
    parts = [integer(part, option, least=0) for part in words(text, option)]
    return parts[0] if len(parts) == 1 else parts


def _by_relation(text: str, option: str, called: dict[str, Path], *, several: bool = False) -> Any:
    """Columns for all relations, or by name."""
    if "=" not in text:
        return words(text, option) if several else text
    columns = {name: words(value.replace("+", ","), option) if several else value for name, value in _pairs(text, option)}
    if set(columns) != set(called):
        raise PenstockError(f"{option} must name each of the relations {', '.join(called)}, got {text!r}")
    return columns


def _pairs(text: str, option: str) -> list[tuple[str, str]]:
    pairs = [tuple(piece.strip() for piece in part.partition("=")[::2]) for part in words(text, option)]
    if not all(name and value for name, value in pairs) or len({name for name, _ in pairs}) < len(pairs):
        raise PenstockError(f"{option} must read like A=1,B=2, got {text!r}")
    return [(name, value) for name, value in pairs]


def _counts(path: Path, on: str | None, budget: dict[str, Any], method: str, out: Path | None) -> Truncation:
    """Truncate a table of counts."""
    import numpy as np
    import pyarrow as pa

    from penstock.core.tables import read_table, write_table
    from penstock.static.histogram import truncate_histograms

    table = read_table(path)
    keys = table.column_names[:1] if on is None else words(on, "--on")
    missing = [key for key in keys if key not in table.column_names]
    if missing:
        raise PenstockError(f"--on must name columns of {str(path)!r}, got {', '.join(missing)}; it has {', '.join(table.column_names)}")
    relations = {}
    for name in table.column_names:
        if name not in keys:
            if not pa.types.is_integer(table[name].type) or table[name].null_count:
                raise PenstockError(f"counts must be whole numbers without gaps, column {name!r} of {str(path)!r} is not")
            relations[name] = np.asarray(table[name])
    distinct = table.select(keys).group_by(keys).aggregate([])
    if len(distinct) < len(table):
        raise PenstockError(f"counts must have one row per key, {str(path)!r} has {len(table):,} rows for {len(distinct):,} keys")
    if any(table[key].null_count for key in keys):
        raise PenstockError(f"counts must be of keys that are not null, {str(path)!r} has one that is: nulls match nothing")
    done = truncate_histograms(relations, method=method, say=note, **budget)
    if out is not None:
        with Files() as files:
            kept = {name: pa.array(done.relations[name]) for name in relations}
            write_table(pa.table({key: table[key] for key in keys} | kept), files.new(out))
    return done


def _frames(called: dict[str, Path], options: dict[str, Any], out: Path | None) -> Truncation:
    """Truncate relations on Spark."""

    def work(frames: dict[str, Any]) -> Truncation:
        from penstock.spark.static.frames import truncate_frames

        done = truncate_frames(frames, say=note, **options)
        _write(done.relations, out)
        return done

    return _on_spark(called, work)


def _windows(called: dict[str, Path], options: dict[str, Any], out: Path | None, as_json: bool) -> None:
    """Truncate relations window by window, and print what came out of each."""

    def work(frames: dict[str, Any]) -> list[Any]:
        from penstock.spark.static.windowed import truncate_windows

        done = truncate_windows(frames, **options)
        rows = done.windows.drop("kept").orderBy("start").collect()
        _write(done.relations, out)
        return rows

    rows = [row.asDict() for row in _on_spark(called, work)]
    if as_json:
        print_json([row | {"start": row["start"].isoformat(), "end": row["end"].isoformat()} for row in rows])
        return
    lines = []
    for row in rows:
        tuples = [number(sum(row[name].values())) for name in ("n_tuples", "n_kept")]
        outputs = [number(row["n_output"]), share(row["n_output"], row["n_exact"]), number(row["n_lost"])]
        lines.append([f"{row['start']:%Y-%m-%d %H:%M:%S}", row["method"], *tuples, *outputs])
    total, exact = (sum(row[name] for row in rows) for name in ("n_output", "n_exact"))
    caption = f"{len(rows):,} windows keep {total:,} of {exact:,} outputs ({share(total, exact)})."
    print_table(["window", "method", "tuples", "kept", "outputs", "of exact", "lost"], lines, caption=caption, left=2)


def _on_spark(called: dict[str, Path], work: Callable[[dict[str, Any]], Any]) -> Any:
    from penstock.spark.static.table_frames import check_file, read_frame

    for path in called.values():
        check_file(path)
    from penstock.spark.session.session import quiet_session

    with Bar(2, "starting Spark") as bar:
        spark = quiet_session()
        bar.advance()
        bar.say("counting keys")
        return work({name: read_frame(spark, path) for name, path in called.items()})


def _write(relations: dict[str, Any], out: Path | None) -> None:
    if out is not None:
        from penstock.spark.static.table_frames import write_frame

        for name, frame in relations.items():
            write_frame(frame, out / name)


def _report(done: Truncation, plot: Path | None, as_json: bool) -> None:
    if plot is not None:
        from penstock.experiments import figures
        from penstock.experiments.truncation import outputs_by_budget

        with Files() as files:
            figures.save(outputs_by_budget(done), files.new(plot))
    if done.note:
        note(done.note)
    if as_json:
        print_json(done.summary())
        return
    kept = ", ".join(f"{name} {done.n_kept[name]:,} of {size:,}" for name, size in done.n_tuples.items())
    cells = [done.method, number(sum(done.n_kept.values())), number(done.n_output), share(done.n_output, done.n_exact), number(done.n_lost)]
    shown = ["method", "tuples kept", "outputs", "of exact", "lost"]
    if done.method != "optimal":
        shown, cells = [*shown, "possible at most"], [*cells, number(done.most)]
    print_table(shown, [cells], title=f"Kept: {kept}", caption=f"The exact join has {done.n_exact:,} outputs. {done.method}: {done.bound}.")
