"""Places that must lie apart: what is written into a folder that something else reads or clears is taken for what it is not. Spark-free."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from penstock.ledger.store import local_path

_ALIASES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}
_PATTERN = re.compile(r"[*?\[{]")


def resolved(place: str) -> str:
    """One text for one place: links followed, `file:` and trailing slashes gone, up to the first folder with a pattern in it.

    >>> resolved("file:///a/b/"), resolved("/a/../a/b/*.json"), resolved("S3A://Bucket//x/./y/?region=eu")
    ('/a/b', '/a/b', 's3://bucket/x/y')
    """
    local = local_path(place)
    if local is not None:
        parts = local.split(os.sep)
        kept = next((number for number, part in enumerate(parts) if _PATTERN.search(part)), len(parts))
        return os.path.realpath(os.sep.join(parts[:kept]) or os.sep)
    scheme, _, rest = place.split("?")[0].partition(":")
    host, _, path = rest.lstrip("/").partition("/")
    parts = posixpath.normpath(f"/{path}").replace("//", "/").split("/")
    kept = next((number for number, part in enumerate(parts) if _PATTERN.search(part)), len(parts))
    scheme = _ALIASES.get(scheme.lower(), scheme.lower())
    return f"{scheme}://{host.rpartition('@')[2].lower()}{'/'.join(parts[:kept])}".rstrip("/")


def overlap(one: str, other: str) -> str | None:
    """How one place lies to another: "the same as", "inside" or "around" it; None where they lie apart.

    >>> overlap("/a/b", "/a"), overlap("/a", "/a/b"), overlap("/a", "/ab"), overlap("s3://x/a/", "s3a://x/a")
    ('inside', 'around', None, 'the same as')
    """
    mine, theirs = (f"{resolved(place).rstrip('/')}/" for place in (one, other))
    if mine == theirs:
        return "the same as"
    return "inside" if mine.startswith(theirs) else "around" if theirs.startswith(mine) else None


def mixed(ours: Mapping[str, str | None], theirs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """A sentence for each of our places that is not apart from others, by their names.

    >>> list(mixed({"archive": "/a/b"}, {"the sink": ["/a"]}))
    ['archive must lie apart from the sink ("/a"), got "/a/b", which is inside it']
    """
    for (name, place), (other, there) in product(ours.items(), theirs.items()):
        for one in there if place is not None else ():
            found = overlap(str(place), one)
            if found == "the same as" and name != other:
                yield f'{name} must be another place than {other}, got "{place}"'
            elif found is not None and name != other:
                yield f'{name} must lie apart from {other} ("{one}"), got "{place}", which is {found} it'
