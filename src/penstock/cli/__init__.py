"""The command line: one file per command group, put together here.

Commands import what they compute with when they run, so that `penstock --help` and a mistyped option answer at once.
Imports every other room, and no room imports it.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from penstock.cli import demo, generate, ledger, optimum, order, plan, policies, reshard, settle, simulate, static, warm
from penstock.cli import run as pipelines
from penstock.cli.benches import bench
from penstock.cli.output import Stopped, complain
from penstock.cli.relations import lookup, relation
from penstock.cli.reproduction import reproduce
from penstock.core.errors import PenstockError
from penstock.spark.session.presence import missing_pyspark

_INTERRUPTED = 130

app = typer.Typer(
    name="penstock",
    help="Stream joins in sliding windows under a hard memory budget: what to keep, what to shed, and what that costs.",
    epilog="Start with: penstock demo",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
for group in (
    demo,
    pipelines,
    simulate,
    optimum,
    plan,
    order,
    generate,
    policies,
    static,
    relation,
    lookup,
    settle,
    ledger,
    reshard,
    reproduce,
    bench,
    warm,
):
    group.register(app)


def main() -> None:
    """The console script: run the command line of this process and leave with its status."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit status: 0, 2 for bad input, 130 when interrupted, 1 for a fault of ours.

    >>> run(["policies", "--format", "xml"])
    2
    """
    try:
        status: Any = app(arguments, prog_name="penstock", standalone_mode=False)
        sys.stdout.flush()
    except PenstockError as error:
        return complain(str(error))
    except Stopped:
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone, as in `penstock policies | head -1`; without this, Python complains at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename!r}: " if error.filename else ""
        return complain(f"{where}{error.strerror or error}")
    except (KeyboardInterrupt, typer.Abort):
        status = _INTERRUPTED
    except MemoryError:
        return complain("this machine does not have the memory for that; try a shorter trace or fewer outputs")
    except Exception as error:
        # Typer's own errors; the name of their class depends on its version.
        usage = getattr(error, "format_message", None)
        if callable(usage):
            return complain(_as_ours(usage()))
        lacking = missing_pyspark() if isinstance(error, ImportError) else None
        if lacking is not None:
            return complain(lacking)
        if os.environ.get("PENSTOCK_TRACEBACK"):
            raise
        return complain(f"unexpected {type(error).__name__}: {error} (PENSTOCK_TRACEBACK=1 shows where)", status=1)
    if status == _INTERRUPTED:  # newer versions of typer catch the interrupt and hand back this status
        return complain("interrupted, nothing was written", status=_INTERRUPTED)
    return status if isinstance(status, int) else 0


def _as_ours(message: str) -> str:
    """Typer's sentence in the form of ours: no capital, no full stop."""
    message = message.rstrip(". \n")
    return message[:1].lower() + message[1:]


def _version(wanted: bool) -> None:
    if wanted:
        import penstock

        typer.echo(f"penstock {penstock.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """What every command understands."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
