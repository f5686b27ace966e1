"""Where things are: the repository, the modules and scripts that tests share, the data that they read."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).parent
ROOT = SUPPORT.parent.parent
DATA = SUPPORT / "data"
"""Checkpoints and ledgers of earlier releases."""
SHARED = ROOT.parent / "shared" / "data"
"""Data sets beside the repository, which need not be there."""
