"""The figures of a run as the rows of a page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from proofs.faults.rows import NEW_ROWS, OLD_ROWS

__all__ = ["put_in", "render", "rows_of", "shown_in"]

_BEGIN = re.compile(r"<!-- faults: begin(?:, only: (.+))? -->\n")
"""A page may show some writers only: their names, with semicolons between them."""
_END = "<!-- faults: end -->"

_WIDTH = 116
_LOG = {(OLD_ROWS, 0): "old", (0, NEW_ROWS): "new"}
_HEAD = """| overwrites by | {cases} |
| --- |{lines}
"""


def render(
    figures: Mapping[str, Mapping[str, Any]],
    versions: Mapping[str, Mapping[str, str]],  # by writer
    server: str,
    cases: Sequence[str],
) -> str:
    """The table. A cell: old files left of 4/new files shown/uploads left; ours after recover."""
    lines = [_HEAD.format(cases=" | ".join(cases), lines=" --- |" * len(cases)).rstrip()]
    for tool, told in figures.items():
        cells = [_cell(told.get(case)) for case in cases]
        lines.append(f"| {tool} | {' | '.join(cells)} |")
    shown = sorted({f"{name} {one}" for installed in versions.values() for name, one in installed.items()})
    return "\n".join([*lines, "", *wrap(f"On {server}; {', '.join(shown)}.", _WIDTH)])


def _cell(told: Mapping[str, Any] | None) -> str:
    if told is None:
        return ""
    if told["ended"] == "written":
        return "no such step"
    cell = f"{told['old_files_left']}/{told['new_files_shown']}/{told['uploads_left']}"
    if (after := told.get("after_recover")) is None:
        if (rows := told.get("rows_by_log")) is not None:
            cell += f"; its log: {_LOG.get(tuple(rows), 'mixed')}"
    else:
        cell += f" → {after['old_files_left']}/{after['new_files_shown']}/{after['uploads_left']}"
    return cell


def rows_of(text: str) -> list[str] | None:
    """The writers that a page shows; None for all. Raises ValueError if it has no marks."""
    begin = _begin(text)
    return begin[1].split("; ") if begin[1] else None


def shown_in(text: str) -> str:
    """What stands between the marks of a page."""
    return text[_begin(text).end() :].partition(_END)[0]


def put_in(text: str, table: str) -> str:
    """A page with the table between its two marks. Raises ValueError if it has none."""
    at = _begin(text).end()
    return f"{text[:at]}{table}\n{_END}{text[at:].partition(_END)[2]}"


def _begin(text: str) -> re.Match[str]:
    begin = _BEGIN.search(text)
    if begin is None or _END not in text[begin.end() :]:
        raise ValueError(f"the page has no <!-- faults: begin --> and {_END}")
    return begin
