"""The report: one HTML page with all figures and claims, that needs nothing beside it, in light and dark, on a desk or a phone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

import vl_convert as vlc

from penstock.experiments.catalog.table import CATALOG, PAPERS
from penstock.experiments.cells.experiment import Experiment
from penstock.experiments.cells.results import Results, shown
from penstock.experiments.reproduce.chart import charts, numbers, themed, whole
from penstock.experiments.reproduce.verdicts import Verdict, score

_STYLE = files(__package__).joinpath("report.css").read_text(encoding="utf-8")


def write(
    folder: Path,
    results: Mapping[str, Results],
    found: Sequence[Verdict],
    absent: Mapping[str, str],
    versions: str,
    *,
    quick: bool,
    say: Callable[[str], object] = len,
) -> Path:
    """The report, and each figure as PNG and SVG beside it; where the report is."""
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    drawn = {}
    for name, played in results.items():
        say(f"drawing {name}")
        experiment = CATALOG[name]
        drawn[name] = {
            panel: themed(vlc.vegalite_to_svg(chart.to_dict()), f"{name}-{at}")
            for at, (panel, chart) in enumerate(charts(experiment, played).items())
        }
        picture = whole(experiment, played).to_dict()
        (figures / f"{name}.svg").write_text(vlc.vegalite_to_svg(picture), encoding="utf-8")
        (figures / f"{name}.png").write_bytes(vlc.vegalite_to_png(picture, scale=2))
    report = folder / "report.html"
    draft = report.with_suffix(".part")
    draft.write_text(html(results, drawn, found, absent, versions, quick=quick), encoding="utf-8")
    draft.replace(report)
    return report


def html(
    results: Mapping[str, Results],
    drawn: Mapping[str, Mapping[str, str]],
    found: Sequence[Verdict],
    absent: Mapping[str, str],
    versions: str,
    *,
    quick: bool,
) -> str:
    """The page."""
    papers = [paper for paper in PAPERS if any(CATALOG[name].paper == paper for name in results)]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>Penstock: experiments of the papers</title><style>{_STYLE}</style></head><body>",
        "<h1>Experiments of five papers, repeated</h1>",
        f"<p>{len(results)} figures and tables; {score(found)}. Means over seeds, with 95 % intervals.</p>",
        '<p class="muted">'
        + ("A quick run, with fewer places on the axes and smaller streams where those of the papers are large. " if quick else "")
        + f"Played with {escape(versions)}.</p>",
        "<nav>" + " ".join(f'<a href="#{paper}">{escape(PAPERS[paper].partition(":")[0])}</a>' for paper in papers) + "</nav>",
        '<h2 id="claims">Claims</h2>',
        _table(found),
    ]
    for paper in papers:
        parts.append(f'<h2 id="{paper}">{escape(PAPERS[paper])}</h2>')
        for name, played in results.items():
            if CATALOG[name].paper == paper:
                parts.append(_article(CATALOG[name], played, drawn[name], [one for one in found if one.experiment == name]))
    if absent:
        parts.append(
            "<h2>Not played</h2><ul>" + "".join(f"<li>{escape(name)} {escape(why)}</li>" for name, why in absent.items()) + "</ul>"
        )
    return "\n".join([*parts, "</body></html>", ""])


def _table(found: Sequence[Verdict]) -> str:
    rows = [
        f'<tr><td><a href="#{one.experiment}">{one.experiment}</a></td><td>{escape(one.claim)}</td>'
        f'<td class="{one.word}">{one.word}</td><td>{escape(one.figure)}</td></tr>'
        for one in found
    ]
    head = "<thead><tr><th>experiment</th><th>claim</th><th>holds?</th><th>our figure</th></tr></thead>"
    return f'<table class="claims-table">{head}<tbody>{"".join(rows)}</tbody></table>'


def _article(experiment: Experiment, played: Results, drawn: Mapping[str, str], found: Sequence[Verdict]) -> str:
    claims = "".join(
        f'<li><span class="verdict {one.word}">{one.word}</span>{escape(one.claim)} <span class="figure">{escape(one.figure)}</span>'
        + (f'<span class="because">{escape(one.because)}</span>' if one.because else "")
        + "</li>"
        for one in found
    )
    changed = f'<p class="muted">Not as in the paper: {escape(experiment.changed)}</p>' if experiment.changed else ""
    panels = "".join(f"<div>{svg}</div>" for svg in drawn.values())
    tables = "".join(_numbers(experiment, played, panel) for panel in experiment.panels)
    return (
        f'<article id="{experiment.name}"><h3>{escape(experiment.title)}</h3>'
        f'<p class="muted">{experiment.name}: {escape(experiment.setting)}.</p>'
        f'<div class="panels">{panels}</div><ul class="claims">{claims}</ul>{changed}'
        f"<details><summary>numbers</summary>{tables}</details></article>"
    )


def _numbers(experiment: Experiment, played: Results, panel: str) -> str:
    rows = {(row["line"], row["x"]): row["mean"] for row in numbers(experiment, played, panel)}
    xs = played.xs(panel)
    head = "".join(f"<th>{escape(x if isinstance(x, str) else shown(float(x)))}</th>" for x in xs)
    body = "".join(
        f"<tr><td>{escape(line)}</td>"
        + "".join(f'<td class="number">{shown(rows[line, x]) if (line, x) in rows else ""}</td>' for x in xs)
        + "</tr>"
        for line in experiment.lines
    )
    caption = f"<p class='muted'>{escape(panel)}</p>" if panel else ""
    first = escape(experiment.x) or "&nbsp;"
    return f'{caption}<div class="wide"><table><thead><tr><th>{first}</th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
