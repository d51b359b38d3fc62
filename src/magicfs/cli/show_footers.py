"""How ``magicfs show`` shows what files say of themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magicfs.cli.printing import print_fields, print_table, write_line

if TYPE_CHECKING:
    from magicfs.formats.footer import Column, FileFooters

__all__ = ["show_footers"]


def show_footers(url: str, listed: FileFooters) -> None:
    """Print a list of footers: the files, and the columns of each."""
    rows = sum(one.rows for one in listed.files.values())
    schemas = {one.schema.fingerprint for one in listed.files.values() if one.schema is not None}
    print_fields(
        [
            ("file", url),
            ("kind", "what files say of themselves (footers)"),
            ("job", listed.job_id),
            ("files", len(listed.files)),
            ("rows", f"{rows}"),
            ("schemas", ", ".join(sorted(schemas))),
        ]
    )
    for key, footer in listed.files.items():
        write_line("")
        schema = f", schema {footer.schema.fingerprint}" if footer.schema is not None else ""
        print_fields([("key", key), ("rows", f"{footer.rows}"), ("format", f"{footer.format}{schema}")])
        if footer.schema is not None and footer.schema.fields:
            cells = (
                (one.name, one.type, *_cells(footer.columns.get(one.name))) for one in footer.schema.fields
            )
            print_table(("COLUMN", "TYPE", "NULLS", "MIN", "MAX"), cells)


def _cells(column: Column | None) -> tuple[str, str, str]:
    if column is None:
        return "", "", ""
    least, greatest = ("" if one is None else f"{one}" for one in (column.min, column.max))
    about = "" if column.exact or not least else " (bound)"
    return "" if column.nulls is None else f"{column.nulls}", f"{least}{about}", f"{greatest}{about}"
