"""The command line, called from tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli import run


def simulated(capsys: pytest.CaptureFixture[str], path: Path, *options: str) -> list[dict[str, float]]:
    status = run(["simulate", str(path), "--format", "json", *options])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return json.loads(captured.out)


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
