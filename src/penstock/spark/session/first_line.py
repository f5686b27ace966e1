"""What an error of Spark says, in one sentence."""

from __future__ import annotations


def first_line(error: object) -> str:
    """The sentence of an error of Spark, without its trace and its error class.

    >>> first_line(ValueError("[NOT_FOUND] The table is not there. SQLSTATE: 42P01;\\n'Project"))
    'The table is not there'
    """
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    said = said.partition("SQLSTATE")[0].strip().rstrip(".;")
    return said[said.index("]") + 1 :].strip() if said.startswith("[") and "]" in said else said
