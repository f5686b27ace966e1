"""What the commands share: tables and JSON, one-line errors, a progress bar, files that appear whole or not at all."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.core.errors import PenstockError, choose

TABLES = (".parquet", ".csv", ".jsonl", ".json")
NOTHING = "\N{EN DASH}"
"""Where a table has no number to show."""
PICTURES = (".png", ".svg", ".html")
_PATIENCE = 1.0  # seconds of work before a progress bar shows
_WIDE = 160  # columns of a table that goes to a file or a pipe
_NAME = 24  # letters of a first column that has its way


FormatOption = Annotated[str, typer.Option("--format", metavar="table|json", help="A table for people, or JSON for programs.")]


class Stopped(Exception):  # noqa: N818
    """The user has stopped a run, it ended in order, and a message was printed."""


def wants_json(form: str) -> bool:
    """Whether `--format` asks for JSON.

    >>> wants_json("json")
    True
    """
    return choose("--format", form, ("table", "json")) == "json"


def complain(message: str, *, status: int = 2) -> int:
    """Print one line to stderr, whatever the message, and return the exit status."""
    print(f"penstock: {' '.join(message.split())}", file=sys.stderr)
    return status


def note(message: str) -> None:
    """Print a message that is no error."""
    print(f"note: {message}", file=sys.stderr)


def print_json(data: Any) -> None:
    """Print data for a program; a number that JSON does not have, such as a sum that overflowed, is null."""
    print(json.dumps(finite(data), indent=2, allow_nan=False))


def finite(data: Any) -> Any:
    """The same data with null for every number that JSON does not have."""
    if isinstance(data, Mapping):
        return {name: finite(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "", caption: str = "", left: int = 1) -> None:
    """Print a table for people; the first `left` columns hold words, the others numbers.

    >>> print_table(["policy", "outputs"], [["prob", "12"]])
    <BLANKLINE>
      policy   outputs
     ──────────────────
      prob          12
    <BLANKLINE>
    """
    from rich import box

    out = Console(file=sys.stdout, markup=False, highlight=False, emoji=False)
    if not out.is_terminal:
        out.width = _WIDE
    table = Table(box=box.SIMPLE_HEAD)
    rows = list(rows)
    names = max((len(row[0]) for row in rows), default=0)  # what the rows are called is broken last
    for number, name in enumerate(columns):
        least = min(names, _NAME) if number == 0 else None
        table.add_column(Text(name), justify="left" if number < left else "right", overflow="fold", min_width=least)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    # Not the table's own title and caption: those are wrapped to its width.
    if title:
        out.print(Text(f" {title}", style="bold"))
    out.print(table)
    if caption:
        out.print(Text(f" {caption}", style="dim"))


def share(part: float, whole: float) -> str:
    """A part of a whole in percent.

    >>> share(1, 3), share(0, 0)
    ('33.3 %', '–')
    """
    return f"{100 * part / whole:.1f} %" if whole else NOTHING


def number(value: float) -> str:
    """A count with separators, or a number with the digits that matter.

    >>> number(1234567), number(12.0), number(0.123456)
    ('1,234,567', '12', '0.1235')
    """
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"


class Bar:
    """A progress bar on stderr; it shows on a terminal only, and only once the work has taken a second.

    >>> with Bar(10, "reading") as bar:
    ...     bar.advance(10)
    """

    def __init__(self, total: int, label: str) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        console = Console(file=sys.stderr)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task(label, total=total)
        self._timer = threading.Timer(_PATIENCE, self._show)
        self._timer.daemon = True
        self._wanted = console.is_terminal
        self._lock = threading.Lock()
        self._shown = False

    def __enter__(self) -> Bar:
        if self._wanted:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._wanted = False
        self._timer.cancel()
        if self._shown:
            self._progress.stop()

    def advance(self, amount: int = 1) -> None:
        """So much more is done."""
        self._progress.advance(self._task, amount)

    def say(self, label: str) -> None:
        """Name what is being done."""
        self._progress.update(self._task, description=label)

    def _show(self) -> None:
        with self._lock:
            if self._wanted:
                self._progress.start()
                self._shown = True


def announcing(bar: Bar) -> Callable[[str], None]:
    """A function that names the next step of the work; the one before it is done."""
    begun = False

    def say(label: str) -> None:
        nonlocal begun
        if begun:
            bar.advance()
        begun = True
        bar.say(label)

    return say


class Files:
    """Files that appear together when all has worked, or not at all: written under another name, renamed at the end.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with Files() as files:
    ...     _ = files.new(folder / "a.csv").write_text("x")
    >>> [path.name for path in folder.iterdir()]
    ['a.csv']
    """

    def __init__(self) -> None:
        self._pending: list[tuple[Path, Path]] = []

    def new(self, path: Path) -> Path:
        """The name to write under for now; it has the suffix of `path`."""
        target = path.resolve()
        draft = target.with_name(f".{target.stem}.{os.getpid()}.part{target.suffix}")
        self._pending.append((draft, target))
        return draft

    def __enter__(self) -> Files:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                for draft, target in self._pending:
                    os.replace(draft, target)
        except OSError as failure:
            raise PenstockError(f"cannot write {str(target)!r}: {_reason(failure)}") from None
        finally:
            for draft, _ in self._pending:
                draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and self._pending:
            raise PenstockError(f"cannot write {str(self._pending[-1][1])!r}: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    """The system's words; PyArrow's own name the file under which we write for now."""
    return os.strerror(error.errno) if error.errno else str(error)


def check_target(option: str, path: Path | None, suffixes: Sequence[str]) -> None:
    """Refuse a file that could not be written later, before any work is done.

    >>> check_target("--plot", Path("out.gif"), (".png", ".svg", ".html"))
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: --plot must be a file that ends in .png, .svg, .html, got 'out.gif'
    """
    if path is None:
        return
    if path.suffix.lower() not in suffixes:
        raise PenstockError(f"{option} must be a file that ends in {', '.join(suffixes)}, got {str(path)!r}")
    if path.is_dir():
        raise PenstockError(f"{option} must be a file, got the folder {str(path)!r}")
    if not path.parent.is_dir():
        raise PenstockError(f"{option} must be in a folder that is there, got {str(path)!r}")
    if not os.access(path.parent, os.W_OK):
        raise PenstockError(f"{option} must be in a folder that you may write to, got {str(path)!r}")


def check_different(files: dict[str, Path | None]) -> None:
    """Refuse one file for two purposes.

    >>> check_different({"TRACE": Path("a.csv"), "--outputs": Path("a.csv")})
    Traceback (most recent call last):
    ...
    penstock.core.errors.PenstockError: TRACE and --outputs must be different files, got 'a.csv' for both
    """
    seen: dict[Path, str] = {}
    for option, path in files.items():
        if path is not None:
            first = seen.setdefault(path.resolve(), option)
            if first != option:
                raise PenstockError(f"{first} and {option} must be different files, got {str(path)!r} for both")
