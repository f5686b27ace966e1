"""`penstock warm`: compile now what joins would compile when they are first used."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.core.errors import PenstockError

ArchiveOption = Annotated[
    Path | None,
    typer.Option(help="Also write the code as one file into this folder. In the folder of the package, a wheel takes it along."),
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command(epilog="Example: penstock warm")(warm)


def warm(archive: ArchiveOption = None) -> None:
    """Compile, as the user who will run joins, so that none of them waits for it: in the image of a container, say."""
    from penstock.core.compiled import kept_code
    from penstock.simulator.warm import warm as warmed

    for name in warmed():
        typer.echo(f"compiling: {name}")
    kept = kept_code()
    if kept is None:
        raise PenstockError("no folder was found to which this user alone can write, so that nothing was kept: set NUMBA_CACHE_DIR to one")
    name, code = kept
    if archive is not None:
        (archive / name).write_bytes(code)
        typer.echo(f"wrote {archive / name}, {len(code):,} bytes")
