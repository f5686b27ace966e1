"""The command line as a process: how it leaves, and what it shows meanwhile."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
import time

import pytest

from commands import in_a_process
from penstock.cli import app, output, run

# --------------------------------------------------------------------------------------------------------- as a process


def test_the_process_leaves_with_the_status_and_no_stack_trace(tmp_path):
    done = in_a_process("simulate", str(tmp_path / "none.csv"), "--window", "1", "--memory", "1")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("penstock: ")
    assert done.stderr.count("\n") == 1


def test_when_its_reader_leaves_early_it_leaves_quietly():
    code = "from penstock.cli import main; main()"
    with subprocess.Popen([sys.executable, "-c", code, "policies"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_help_loads_neither_the_engine_nor_the_charts():
    code = (
        "import sys; from penstock.cli import run; run(['--help']); run(['simulate', '--help'])\n"
        "heavy = ('altair', 'vl_convert', 'penstock.experiments.figures', 'penstock.engine.compiled.engine')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == "[]\n"


def test_an_unexpected_error_is_one_line_too(capsys, monkeypatch):
    def broken(*_: object, **__: object) -> None:
        raise KeyError("oh [no]")

    # Not by its path: the package has a function of the same name as the module.
    monkeypatch.setattr(sys.modules["penstock.generator.generate"], "generate", broken)
    assert run(["generate", "x.csv"]) == 1
    assert capsys.readouterr().err == "penstock: unexpected KeyError: 'oh [no]' (PENSTOCK_TRACEBACK=1 shows where)\n"


def test_an_interrupt_is_one_line_and_writes_nothing(capsys, monkeypatch, tmp_path, trace_file):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("penstock.core.tables.write_table", interrupted)
    arguments = ["simulate", str(trace_file), "--window", "9", "--memory", "9", "--outputs", str(tmp_path / "o.csv")]
    assert run(arguments) == 130
    assert capsys.readouterr().err == "penstock: interrupted, nothing was written\n"
    assert list(tmp_path.iterdir()) == []


def test_the_app_is_a_typer_app():
    assert app.info.name == "penstock"


# --------------------------------------------------------------------------------------------------------- progress bar


def bar_output(patience: float, seconds: float, monkeypatch: pytest.MonkeyPatch) -> str:
    """What a bar writes to a terminal while `seconds` of work go by."""
    monkeypatch.setattr(output, "_PATIENCE", patience)
    ours, theirs = pty.openpty()
    chunks: list[bytes] = []

    def listen() -> None:
        try:
            while chunk := os.read(ours, 65536):
                chunks.append(chunk)
        except OSError:
            pass  # the terminal was closed

    listener = threading.Thread(target=listen)
    listener.start()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with output.Bar(10, "playing [R]") as bar:
            bar.advance(5)
            time.sleep(seconds)
        monkeypatch.undo()
    listener.join(timeout=10)
    os.close(ours)
    return b"".join(chunks).decode()


def test_a_bar_shows_on_a_terminal_once_the_work_takes_long(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    text = bar_output(0.05, 0.6, monkeypatch)
    assert "playing [R]" in text
    assert "50%" in text


def test_quick_work_shows_no_bar(monkeypatch):
    assert bar_output(5.0, 0.05, monkeypatch) == ""


def test_a_bar_shows_nothing_off_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(output, "_PATIENCE", 0.01)
    with output.Bar(10, "playing") as bar:
        time.sleep(0.1)
        bar.advance(1)
    assert capsys.readouterr().err == ""
