"""The page of `penstock reproduce policies`, docs/policy-table.md: what each policy keeps of each kind of stream."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from penstock.experiments.policy_sets import SETS
from penstock.experiments.policy_table import JUDGED, PLAIN, PolicyRow, Wanted, wanted

_HEAD = f"""\
# Every policy on every kind of stream

Made by `penstock reproduce policies`. Each data set is played in 5, 10, 25 and 50 % of its mean window (what the exact
join holds in the mean), under every policy, statistics `decayed`. Counted are outputs, or their value where tuples
have an importance, after a warm-up of ten windows (two thirds of the trace where it has less than fifteen), and
summed over {{parts}}. `ep-printed` and `output-printed` are `ep` and `output` as
their paper has them, before [we changed them](readings.md#switches). *Best* is the best single policy in hindsight,
`{JUDGED}` included; the optimum knows the future ([how](optimum.md)), and is out of reach with more than two streams.
Why it is counted so: [0024](decisions/0024-judging-policies.md).
"""
_REAL = """\
A part of a real data set is a stretch of its rows; of the fines, which take months, every fifth case; of msnbc.com,
where orders of visits are real but times are not recorded, every fifth user, with times that are made up as in
sessions.
"""


def page(rows: Sequence[PolicyRow], *, parts: int, picture: str | None = None) -> str:
    """The page as Markdown.

    >>> row = PolicyRow("orders", 0.1, {"ep-printed": 80.0, "prob": 1.0, "learned": 100.0}, 200.0)
    >>> print(page([row], parts=1).splitlines()[-1])
    | orders | 10 % | 1.000 | 0.800 | 0.010 |
    """
    head = _HEAD.format(parts="five seeds, or five parts of a real data set" if parts == 5 else f"{parts} of five seeds or parts")
    drawn = [f"![share of the optimum against memory, by policy]({picture})", ""] if picture else []
    real = [_REAL] if any(SETS[row.data].folder for row in rows) else []
    return "\n".join([head, *real, *_summary(rows), "", *drawn, *_table(rows), "", *_all(rows)]) + "\n"


def _summary(rows: Sequence[PolicyRow]) -> list[str]:
    worst = min(rows, key=lambda row: row.quotient(JUDGED))
    quotients = [row.quotient(JUDGED) for row in rows]
    return [
        f"**`{JUDGED}`** keeps {fmean(quotients):.3f} of the best in the mean of {len(rows)} rows, {min(quotients):.3f} in the worst\n"
        f"({worst.data}, {_share(worst)}, behind `{worst.best}`), and is the best in {sum(row.best == JUDGED for row in rows)}.",
        "",
        f"| wanted of `{JUDGED}` | at least | found | met |",
        "|---|---|---|---|",
        *(f"| {target.wish} | {target.least:g} | {_found(target)} | {target.verdict} |" for target in wanted(rows)),
    ]


def _found(target: Wanted) -> str:
    return "" if target.found is None else f"{target.found:.3f}"


def _table(rows: Sequence[PolicyRow]) -> list[str]:
    lines = [
        f"| streams | memory | best of the papers | `{PLAIN}` | `{JUDGED}` | `{PLAIN}` / best | `{JUDGED}` / best | "
        f"`{JUDGED}` / papers | optimum |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    before = ""
    for row in rows:
        papers = row.best_of_papers
        most = row.values[papers]
        lead = f"{row.values[JUDGED] / most:.2f}" if most else ""
        known = "" if row.optimum is None else f"{row.optimum:,.0f}"
        title = "" if row.data == before else f"{SETS[row.data].title} (`{row.data}`)"
        lines.append(
            f"| {title} | {_share(row)} | `{papers}` {most:,.0f} | {row.values[PLAIN]:,.0f} | {_bold(row, JUDGED)} | "
            f"{row.quotient(PLAIN):.3f} | {row.quotient(JUDGED):.3f} | {lead} | {known} |"
        )
        before = row.data
    return lines


def _share(row: PolicyRow) -> str:
    return f"{100 * row.memory:.0f} %"


def _bold(row: PolicyRow, policy: str) -> str:
    text = f"{row.values[policy]:,.0f}"
    return f"**{text}**" if row.best == policy else text


def _all(rows: Sequence[PolicyRow]) -> list[str]:
    policies = [JUDGED, *(name for name in rows[0].values if name != JUDGED)]
    lines = [
        "## All policies",
        "",
        "Shares of the best. Without importances `simp` is `fifo`, and `additive` is `dimpprob`.",
        "",
        "| streams | memory | " + " | ".join(f"`{policy}`" for policy in policies) + " |",
        "|---" * (2 + len(policies)) + "|",
    ]
    for row in rows:
        lines.append(f"| {row.data} | {_share(row)} | " + " | ".join(f"{row.quotient(policy):.3f}" for policy in policies) + " |")
    return lines
