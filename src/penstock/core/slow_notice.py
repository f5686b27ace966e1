"""What takes longer than a few seconds says what it does."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

SECONDS = 3.0
"""How long nobody asks."""

Say = Callable[[str], object]
"""Takes a line on how far something is."""

logger = logging.getLogger("penstock")


@contextmanager
def saying(what: str, say: Say = logger.warning) -> Iterator[None]:
    """Say what is being done in here, if it takes longer than that.

    >>> with saying("counting to three", print):
    ...     sum(range(4))
    6
    """
    timer = Timer(SECONDS, say, [what])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
