"""The figures of a run as the rows of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from proofs.faults.rows import NEW_ROWS, OLD_ROWS

__all__ = ["BEGIN", "END", "put_in", "render"]

BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"

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
    """The table. A cell: old files left of 4 / new files shown / uploads left; ours after recover."""
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
    cell = f"{told['old_files_left']} / {told['new_files_shown']} / {told['uploads_left']}"
    if (after := told.get("after_recover")) is None:
        if (rows := told.get("rows_by_log")) is not None:
            cell += f"; its log: {_LOG.get(tuple(rows), 'mixed')}"
    else:
        cell += f" → {after['old_files_left']} / {after['new_files_shown']} / {after['uploads_left']}"
    return cell


def put_in(text: str, table: str) -> str:
    """A page with the table between its two marks. Raises ValueError if it has none."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return f"{head}{BEGIN}\n{table}\n{END}{tail}"
