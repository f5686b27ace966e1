"""Draw the rooms of the package and their arrows, from its imports: python docs/rooms.py [--write]

An arrow is an import that no longer way implies: where cli imports spark and spark imports core, cli -> core is not drawn. With `--write`
the drawing in CONTRIBUTING.md is replaced; a test compares the two.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- rooms: made by docs/rooms.py -->\n", "<!-- end of rooms -->"


def main() -> None:
    """Print or write the drawing."""
    if "--write" in sys.argv:
        PAGE.write_text(with_drawing(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(drawing())


def with_drawing(page: str) -> str:
    """A page with the drawing of today between its marks."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + drawing() + END + rest.partition(END)[2]


def drawing() -> str:
    """Two charts, of the package and of its rooms on Spark, and a table of what lives where."""
    graph = grimp.build_graph("penstock")
    charts = [_chart(graph, parent) for parent in ("penstock", "penstock.spark")]
    return "\n".join([*charts, *_table(graph)]) + "\n\n"


def _chart(graph: grimp.ImportGraph, parent: str) -> str:
    rooms = {name for name in graph.find_children(parent) if _is_room(name)}
    arrows = {(a, b) for a in rooms for b in rooms if a != b and _imports(graph, a, b)}
    lines = [f"    {_short(a, parent)} --> {_short(b, parent)}" for a, b in sorted(arrows) if not _is_implied(a, b, arrows)]
    alone = sorted(rooms - {room for arrow in arrows for room in arrow})
    return "\n".join(["```mermaid", "flowchart TD", *lines, *(f"    {_short(room, parent)}" for room in alone), "```", ""])


def _table(graph: grimp.ImportGraph) -> Iterator[str]:
    yield "| room | files | what lives there |"
    yield "|---|---|---|"
    for name in sorted(name for name in graph.modules if _is_room(name)):
        files = sum(1 for child in graph.find_children(name) if not _is_room(child))
        yield f"| `{name.removeprefix('penstock.').replace('.', '/')}/` | {files} | {_says(name)} |"


def _imports(graph: grimp.ImportGraph, a: str, b: str) -> bool:
    return graph.direct_import_exists(importer=a, imported=b, as_packages=True)


def _is_implied(a: str, b: str, arrows: set[tuple[str, str]]) -> bool:
    """Whether a longer way leads from a to b."""
    reached, waiting = set(), [to for of, to in arrows if of == a and to != b]
    while waiting:
        room = waiting.pop()
        if room not in reached:
            reached.add(room)
            waiting += [to for of, to in arrows if of == room]
    return b in reached


def _is_room(name: str) -> bool:
    return name != "penstock" and _file(name).is_file()


def _file(name: str) -> Path:
    return ROOT / "src" / name.replace(".", "/") / "__init__.py"


def _short(name: str, parent: str) -> str:
    return name.removeprefix(f"{parent}.")


def _says(name: str) -> str:
    """The first sentence of what a room says of itself."""
    return (ast.get_docstring(ast.parse(_file(name).read_text(encoding="utf-8"))) or "").splitlines()[0]


if __name__ == "__main__":
    main()
