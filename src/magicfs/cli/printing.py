"""What commands print: one compact JSON line, or text for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

__all__ = [
    "human_age",
    "human_moment",
    "print_fields",
    "print_json",
    "print_table",
    "printable",
    "write_line",
]

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


def write_line(text: str) -> None:
    """Write one line to stdout."""
    sys.stdout.write(text + "\n")


def print_json(document: Mapping[str, object]) -> None:
    """Write one compact line of JSON to stdout, in ASCII whatever the terminal's encoding."""
    write_line(json.dumps(document, separators=(",", ":"), allow_nan=False))


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write rows in columns; the last column is not padded."""
    table = [header, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header) - 1)]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        write_line("  ".join([*cells, row[-1]]))


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Write one ``name  value`` line each; what is empty or None is left out."""
    shown = [(name, printable(str(value))) for name, value in fields if value not in (None, "")]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        write_line(f"{name.ljust(width)}  {value}")


def printable(text: str) -> str:
    """Text from elsewhere, made harmless for a terminal: control and format characters are escaped."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def human_age(seconds: float) -> str:
    """An age in its two largest units, such as ``3 h 20 min``. What lies in the future counts as 0 s."""
    left = max(0, int(seconds))
    if left < _MINUTE:
        return f"{left} s"
    if left < _HOUR:
        return f"{left // _MINUTE} min"
    if left < _DAY:
        return f"{left // _HOUR} h {left % _HOUR // _MINUTE} min"
    return f"{left // _DAY} d {left % _DAY // _HOUR} h"


def human_moment(milliseconds: int) -> str:
    """A moment since the epoch as date and time; empty for 0, which stands for no moment."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms since the epoch"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else ""
