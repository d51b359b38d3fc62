"""JSON as Hadoop's manifest committer writes it: Jackson's default pretty printer.

Members stand on lines of their own, ``"name" : value``, two blanks deeper than their object; lists stay on
the line that they begin on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from magicfs.formats.document import render

__all__ = ["render_indented"]


def render_indented(document: Mapping[str, object]) -> bytes:
    """Write a document in UTF-8 without a newline at its end, members in their order.

    Raises:
        UsageError: Text with half a surrogate pair, or a number that is not finite.
    """
    try:
        return "".join(_pieces(document, "\n")).encode("utf-8")
    except ValueError:
        render(document)  # says what is wrong, and where
        raise


def _pieces(value: object, line: str) -> Iterator[str]:
    """The text of a value in pieces; ``line`` begins a line as deep as the value's own."""
    if isinstance(value, Mapping):
        before = "{" + line + "  "
        for name, member in value.items():
            yield f"{before}{json.dumps(name, ensure_ascii=False)} : "
            yield from _pieces(member, line + "  ")
            before = "," + line + "  "
        yield line + "}" if value else "{ }"
    elif isinstance(value, list | tuple):
        before = "[ "
        for element in value:
            yield before
            yield from _pieces(element, line)
            before = ", "
        yield " ]" if value else "[ ]"
    else:
        yield json.dumps(value, ensure_ascii=False, allow_nan=False)
