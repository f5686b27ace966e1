"""Whether the Java that Spark needs is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

Java = Any
"""An object of Spark's Java side, of which PySpark knows no type."""
LEAST = 17
_REMEDY = f"install it (on Debian and Ubuntu: apt install openjdk-{LEAST}-jre-headless) or set JAVA_HOME"


def missing_java() -> str | None:
    """One sentence on what is missing and how to get it, or None if Spark can start."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME is {home!r} and has no bin/java" if home else "none was found"
        return f"Spark needs Java {LEAST} or newer, and {where}: {_REMEDY}"
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    major = java_version(said)
    if major is not None and major < LEAST:
        return f"Spark needs Java {LEAST} or newer, and {java} is Java {major}: {_REMEDY}"
    return None


def java_version(said: str) -> int | None:
    """The major version in what `java -version` prints.

    >>> java_version('openjdk version "17.0.15" 2025-04-15'), java_version('java version "1.8.0_292"')
    (17, 8)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else None
