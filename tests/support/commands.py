"""The command line, called from tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.cli import run


def simulated(capsys: pytest.CaptureFixture[str], path: Path | str, *options: str) -> list[dict[str, Any]]:
    status = run(["simulate", str(path), "--format", "json", *options])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return json.loads(captured.out)


def summed_up(line: dict[str, Any]) -> dict[str, Any]:
    """What the command line says of a run, without what it says about the memory and the exact result."""
    assert line.keys() >= {"memory", "recall", "value_recall"}
    return {name: value for name, value in line.items() if name not in ("memory", "recall", "value_recall")}


def in_a_process(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    code = "from penstock.cli import main; main()"
    environment = os.environ | variables
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )
