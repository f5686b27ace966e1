"""What the runs of `penstock simulate` become: a table, JSON, files and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.output import NOTHING, number, print_table, share
from penstock.core.errors import PenstockError

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.cli.inputs import Input
    from penstock.core.problem import Problem
    from penstock.engine.run import JoinRun


@dataclass(frozen=True)
class Sized:
    """A run, the memory as it was given, and the problem that it had."""

    memory: str
    problem: Problem
    run: JoinRun


def outputs_table(found: Input, runs: Sequence[Sized]) -> pa.Table:
    """One row per output: policy, time, the row number of each member, and of the fact of each relation."""
    import pyarrow as pa

    parts = []
    for one in runs:
        run = one.run
        assert run.outputs is not None
        rows = run.outputs[:, 1 : 1 + len(run.streams)]
        rows = rows if found.row is None else found.row[rows]
        members = {_column(name): rows[:, place] for place, name in enumerate(run.streams)}
        for place, relation in enumerate(one.problem.through, 1 + len(run.streams)):
            members[f"fact_{relation.name}" if relation.name in (*members, "policy", "time") else relation.name] = run.outputs[:, place]
        parts.append(pa.table({"policy": pa.repeat(run.policy, len(rows)), "time": _times(found, run.outputs[:, 0]), **members}))
    return pa.concat_tables(parts)


def memory_table(found: Input, runs: Sequence[Sized]) -> pa.Table:
    """One row per policy and instant: its time and the rows retained after it; by stream, where each has a file of its own."""
    import numpy as np
    import pyarrow as pa

    parts = []
    for one in runs:
        log = one.run.memory_log
        assert log is not None
        if found.row is None:
            columns = {"rows": _lists([rows for _, rows in log])}
        else:
            stream, row = found.trace.stream, found.row
            columns = {
                _column(name): _lists([np.sort(row[rows[stream[rows] == place]]) for _, rows in log])
                for place, name in enumerate(one.run.streams)
            }
        times = np.array([time for time, _ in log], dtype=np.int64)
        parts.append(pa.table({"policy": pa.repeat(one.run.policy, len(log)), "time": _times(found, times), **columns}))
    return pa.concat_tables(parts)


def as_json(runs: Sequence[Sized], whole: JoinRun | None) -> list[dict[str, Any]]:
    """An object per run, with its recall; null where nothing was compared or there is nothing to recall."""
    return [
        one.run.summary()
        | {"memory": int(one.memory) if one.memory.isdecimal() else one.memory}
        | {
            "recall": one.run.n_output / whole.n_output if whole and whole.n_output else None,
            "value_recall": one.run.value / whole.value if whole and whole.value else None,
        }
        for one in runs
    ]


def print_runs(found: Input, runs: Sequence[Sized], whole: JoinRun | None, shards: int | None) -> None:
    """One memory: a line per policy. Several: a line per memory, a column per policy."""
    trace = found.trace
    rows = ", ".join(f"{name} {int((trace.stream == place).sum()):,}" for place, name in enumerate(trace.streams))
    title, divided = f"{len(trace):,} rows ({rows})", "" if shards is None else f", in {shards:,} shard{'s' if shards > 1 else ''}"
    if len({one.memory for one in runs}) > 1:
        _print_sizes(runs, whole, f"{title}{divided}")
        return
    lines = [_line(one, whole) for one in runs]
    shown = [name for name in lines[0] if name != "late" or any(one.run.n_late for one in runs)]
    budget = runs[0].problem.budget
    print_table(
        shown,
        [[line[name] for name in shown] for line in lines],
        title=f"{title} in a memory of {budget.most:,} {'bytes' if budget.in_bytes else 'rows'}{divided}",
        caption=f"The exact result has {whole.n_output:,} outputs." if whole else "",
    )


def check_chart(problems: Iterable[Problem], compared: bool) -> None:
    """Refuse a picture of several memories that could not be drawn, before any work is done."""
    if not compared or len({problem.budget.in_bytes for problem in problems}) > 1:
        told = "rows and bytes" if compared else "--no-exact"
        raise PenstockError(f"--plot of several memories shows recall by rows or by bytes, got {told}")


def sizes_chart(runs: Sequence[Sized], whole: JoinRun | None, shards: int | None) -> Any:
    """Recall against memory: a curve per policy, beside the optimum's."""
    from penstock.experiments.figures import recall_by_memory

    if whole is None or not whole.n_output or not whole.value:
        raise PenstockError("--plot of several memories shows recall, got a trace whose exact join has no outputs")
    counting = runs[0].problem.objective.name == "count"
    rows = [
        {
            "policy": one.run.policy,
            "memory": one.problem.budget.most,
            "recall": one.run.n_output / whole.n_output if counting else one.run.value / whole.value,
        }
        for one in runs
    ]
    unit = "bytes" if runs[0].problem.budget.in_bytes else "rows"
    told = [f"the exact join holds up to {whole.peak_memory:,} rows"] if unit == "rows" else []
    told += ["dashed: the best possible, in one memory"] if any(one.run.policy == "opt" for one in runs) else []
    told += [] if shards is None else [f"others in {shards:,} shard{'s' if shards > 1 else ''}"]
    if not counting:
        rows = [row | {"measure": "share of the exact value"} for row in rows]
    return recall_by_memory(rows, subtitle="; ".join(told), unit=unit)


def _print_sizes(runs: Sequence[Sized], whole: JoinRun | None, title: str) -> None:
    policies = list(dict.fromkeys(one.run.policy for one in runs))
    counting = runs[0].problem.objective.name == "count"
    all_there_is = 0.0 if whole is None else whole.n_output if counting else whole.value
    cells: dict[str, dict[str, str]] = {}
    for one in runs:
        run = one.run
        made = run.n_output if counting else run.value
        cells.setdefault(one.memory, {})[run.policy] = share(made, all_there_is) if whole else number(made)
    lines = [[_shown(memory), *(own.get(policy, NOTHING) for policy in policies)] for memory, own in cells.items()]
    caption = ""
    if whole is not None:
        what = "outputs" if counting else f"value ({runs[0].problem.objective.name})"
        caption = f"Of the exact result's {number(all_there_is)} {what}, for which it holds up to {whole.peak_memory:,} rows."
    print_table(["memory", *policies], lines, title=title, caption=caption, left=0)


def _shown(memory: str) -> str:
    return f"{int(memory):,}" if memory.isdecimal() else memory


def _line(one: Sized, whole: JoinRun | None) -> dict[str, str]:
    run, objective = one.run, one.problem.objective
    line = {"policy": run.policy, "outputs": number(run.n_output)}
    if whole:
        line["of exact"] = share(run.n_output, whole.n_output)
    if objective.name != "count":
        line[f"value ({objective.name})"] = number(run.value)
        if whole:
            line["of exact value"] = share(run.value, whole.value)
    counts = {"shed": run.n_shed, "expired": run.n_expired, "late": run.n_late, "peak memory": run.peak_memory}
    counts |= {} if run.n_filtered is None else {"filtered": run.n_filtered}
    counts |= {} if run.n_done is None else {"done": run.n_done}
    counts |= {} if run.n_ahead is None else {"ahead": run.n_ahead}
    return line | {name: number(count) for name, count in counts.items()}


def _lists(parts: Sequence[Any]) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, np.concatenate(parts))


def _column(stream: str) -> str:
    return f"row_{stream}" if stream in ("policy", "time") else stream


def _times(found: Input, ticks: Any) -> pa.Array:
    """Times as the trace has them: ticks, or timestamps."""
    import pyarrow as pa

    trace = found.trace
    return pa.array(ticks).cast(pa.timestamp("us", tz=trace.table["time"].type.tz)) if trace.timestamps else pa.array(ticks)


def write(table: pa.Table, path: Path) -> None:
    """Write a table, by the suffix of the file."""
    from penstock.core.tables import write_table

    write_table(table, path)
