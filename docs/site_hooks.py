"""What the site has beside its pages: the examples, the reference of the command line and of the metrics, the list of decisions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
_HIDDEN = ("--help",)


def on_files(files: Files, *, config: Any) -> Files:
    """Add what is not a page of docs/."""
    for path in sorted((ROOT / "examples").iterdir()):
        if path.is_file():
            files.append(File.generated(config, f"examples/{path.name}", content=path.read_bytes()))
    files.append(File.generated(config, "reference/command-line.md", content=command_line()))
    files.append(File.generated(config, "reference/metrics.md", content=metrics()))
    files.append(File.generated(config, "how-it-is-built.md", content=rooms()))
    files.append(File.generated(config, "decisions.md", content=decisions()))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Links to the examples lead to their copies in the site."""
    return markdown.replace("](../examples/", "](" + "../" * page.file.src_uri.count("/") + "examples/")


def command_line() -> str:
    """Every command with its arguments and options."""
    from penstock.cli import app

    lines = ["# The command line", "", "`penstock COMMAND --help` says the same, with an example for each.", ""]
    _describe(typer.main.get_command(app), "penstock", lines)
    return "\n".join(lines)


def _describe(command: Any, name: str, lines: list[str]) -> None:
    inner = getattr(command, "commands", None)
    if inner is None or name != "penstock":
        lines += [f"## {name}", "", _plain(command.help or ""), ""]
        options = [one for one in command.params if not set(getattr(one, "opts", ())) & set(_HIDDEN)]
        if options:
            lines += ["| option | meaning |", "| --- | --- |"]
            lines += [f"| `{_called(one)}` | {_plain(getattr(one, 'help', '') or '')}{_default(one)} |" for one in options]
            lines.append("")
        if command.epilog:
            lines += ["    " + _plain(command.epilog), ""]
    for word, one in sorted((inner or {}).items()):
        _describe(one, f"{name} {word}", lines)


def _called(option: Any) -> str:
    names = ", ".join(option.opts) if option.param_type_name == "option" else option.metavar or option.name.upper()
    metavar = option.metavar if option.param_type_name == "option" and option.metavar and not option.is_flag else ""
    return f"{names} {metavar}".strip().replace("|", "\\|")


def _default(option: Any) -> str:
    shown = option.default is not None and getattr(option, "show_default", False) and not callable(option.default)
    return f" Default: `{option.default}`." if shown and not getattr(option, "is_flag", False) else ""


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def metrics() -> str:
    """The metrics of a join, from the tables that the code reads."""
    from penstock.spark.observe.metrics import OF_BATCH, OF_STATE

    lines = [
        "# Metrics",
        "",
        "`observedMetrics[name]` of every progress event has these; `penstock run`, `ps.progress` and [the live page](../watching.md)",
        "show them.",
        "[Reading the metrics](../spark.md#reading-the-metrics) is the guide.",
        "",
        "## Of a batch, and with `total_` of the life of the query",
        "",
        *_table(OF_BATCH),
        "## Of the end of a batch",
        "",
        *_table(OF_STATE),
    ]
    return "\n".join(lines)


def _table(meanings: dict[str, str]) -> list[str]:
    return ["| metric | what it counts |", "| --- | --- |", *(f"| `{name}` | {_plain(said)} |" for name, said in meanings.items()), ""]


def rooms() -> str:
    """The drawing of the rooms in CONTRIBUTING, with its arrows as a table."""
    drawing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("<!-- rooms: made by docs/rooms.py -->")[2]
    drawing = drawing.partition("<!-- end of rooms -->")[0]
    imports: dict[str, list[str]] = {}
    for within, chart in zip(("", "spark/"), re.findall(r"```mermaid(.*?)```", drawing, re.S), strict=True):
        for room, other in re.findall(r"^ +(\S+) --> (\S+)$", chart, re.M):
            imports.setdefault(within + room, []).append(within + other)
    table = ["| room | imports, beside what these import |", "| --- | --- |"]
    table += [f"| `{room}` | {', '.join(f'`{one}`' for one in others)} |" for room, others in imports.items()]
    said = re.sub(r"```mermaid.*?```\n", "", drawing, flags=re.S)
    way = (
        "A tuple's way through Spark: the join is planned and assembled, rows are packed into blocks by shard, a processor opens one, "
        "the engine plays instants, the policy ranks, the meter counts losses, the ledger records them, and blocks are unpacked."
    )
    return "\n".join(["# How it is built", "", way, "", "Each room imports from those below it, and from no other.", "", *table, "", said,
                      "Why it is so is in [the decisions](decisions.md).", ""])  # fmt: skip


def decisions() -> str:
    """All decision records, by number."""
    lines = ["# Decisions", "", "What was decided where the papers are silent, or where there was a choice, and why.", ""]
    for path in sorted((ROOT / "docs" / "decisions").glob("*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
        lines.append(f"* [{title}](decisions/{path.name})")
    return "\n".join([*lines, ""])
