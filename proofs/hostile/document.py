"""The table of ``docs/security.md``, made from the gate: what each field of each record is compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from magicfs.alias import records as aliases
from magicfs.classic import records as classic
from magicfs.formats import gate
from magicfs.formats.rows import Row
from magicfs.releases import record as releases
from magicfs.watch import operations

__all__ = ["table", "written"]

_BEGIN: Final = "<!-- rows of the gate -->\n"
_END: Final = "<!-- end of the rows -->\n"


def table() -> str:
    """The rows of all formats, those with equal words in one line."""
    lines = ["| record | field | compared with |\n| --- | --- | --- |\n"]
    for kind, rows in {
        **gate.ROWS,
        **classic.ROWS,
        **operations.ROWS,
        **releases.ROWS,
        **aliases.ROWS,
    }.items():
        merged: dict[str, list[Row]] = {}
        for row in rows:
            merged.setdefault(row.compared, []).append(row)
        for compared, same in merged.items():
            fields = ", ".join(f"`{row.field}`" for row in same)
            lines.append(f"| {kind} | {fields} | {compared} |\n")
    return "".join(lines)


def written(document: Path) -> str:
    """The document with the rows as they are now."""
    before, _, rest = document.read_text(encoding="utf-8").partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{table()}\n{_END}{after}"
