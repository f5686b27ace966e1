"""Claims and what became of them: the table that is part of the report, of the page and of what the command prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import Any

from penstock.experiments.catalog.table import CATALOG, PAPERS
from penstock.experiments.cells.results import Results

HOLDS, CONTRADICTED = "yes", "no"
OURS = "beyond"
"""How the names of our own experiments begin."""
_WIDTH = 118  # of a page's lines


@dataclass(frozen=True)
class Verdict:
    """A claim: whether it holds, our figure, and the explanation where it does not."""

    experiment: str
    claim: str
    holds: bool
    figure: str
    because: str

    @property
    def word(self) -> str:
        """Yes or no."""
        return HOLDS if self.holds else CONTRADICTED

    def summary(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def verdicts(results: Mapping[str, Results]) -> list[Verdict]:
    """Of all experiments that were played, in the order of the catalog."""
    found = []
    for name, played in results.items():
        for claim in CATALOG[name].claims:
            checked = claim.check(played)
            because = "" if checked.holds else claim.because
            found.append(Verdict(name, claim.text, checked.holds, checked.figure, because))
    return found


def score(found: Sequence[Verdict]) -> str:
    """How many claims hold, those of the papers and our own.

    >>> score([Verdict("das-fig07", "", True, "", ""), Verdict("beyond-wrong", "", False, "", "")])
    '1 of 1 claims of the papers hold here, and 0 of 1 of ours beyond them'
    """
    ours = [one for one in found if one.experiment.startswith(OURS)]
    papers = [one for one in found if not one.experiment.startswith(OURS)]
    said = f"{sum(one.holds for one in papers)} of {len(papers)} claims of the papers hold here"
    return f"{said}, and {sum(one.holds for one in ours)} of {len(ours)} of ours beyond them" if ours else said


def page(found: list[Verdict], versions: str, absent: Mapping[str, str]) -> str:
    """The table as Markdown."""
    said = (
        f"What the five papers say of their figures, in our words, checked by code: {score(found)}. "
        "Where one does not, the reason is below its table. `penstock reproduce all` plays every experiment anew, and writes "
        "this page and a report with all figures; [reproduce](reproduce.md) says how. Means over seeds, with 95 % intervals."
    )
    lines = ["# The papers' claims", "", *wrap(said, _WIDTH, break_on_hyphens=False), ""]
    for paper, title in PAPERS.items():
        own = [one for one in found if CATALOG[one.experiment].paper == paper]
        if not own:
            continue
        lines += [f"## {title}", "", "| experiment | claim | holds? | our figure |", "| --- | --- | --- | --- |"]
        lines += [f"| `{one.experiment}` | {one.claim} | {one.word} | {one.figure.replace('|', '/')} |" for one in own]
        lines.append("")
        reasons: dict[str, list[str]] = {}
        for one in own:
            if one.because:
                reasons.setdefault(one.because, []).append(one.experiment)
        for because, names in reasons.items():
            said = f"* {', '.join(f'`{name}`' for name in dict.fromkeys(names))}: {because}"
            lines += wrap(said, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        lines += [""] if reasons else []
    if absent:
        lines += ["## Not played", "", *(f"* `{name}` {why}." for name, why in absent.items()), ""]
    return "\n".join([*lines, f"Played with {versions}.", ""])
