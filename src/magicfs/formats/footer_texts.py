"""What files say of themselves, as texts in the extra data of their pending uploads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from magicfs.errors import FormatError
from magicfs.formats.document import UNREADABLE
from magicfs.formats.footer import SCHEMA_MAX, TEXT_MAX, Footer, Schema

__all__ = ["FOOTER", "SCHEMA", "carried_by", "check_carried", "footers_in", "once_each"]

FOOTER: Final = "magicfs.footer"
"""The name in a pending upload's extra data."""
SCHEMA: Final = "magicfs.schema"
"""The name of its schema there, which only the first file of a task has of those that share it."""


def carried_by(footer: Footer | None) -> dict[str, str]:
    """What the extra data of a pending upload says of a footer."""
    if footer is None:
        return {}
    found = {FOOTER: footer.to_text()}
    if footer.schema is not None and footer.schema.fields:
        found[SCHEMA] = footer.schema.to_text()
    return found


def once_each(extras: Iterable[Mapping[str, str]]) -> Iterator[Mapping[str, str]]:
    """The extra data of files, of which only the first one bears a schema that several have."""
    seen: set[str] = set()
    for extra in extras:
        schema = extra.get(SCHEMA)
        if schema is not None and schema in seen:
            yield {name: value for name, value in extra.items() if name != SCHEMA}
            continue
        if schema is not None:
            seen.add(schema)
        yield extra


def footers_in(extras: Iterable[Mapping[str, str]]) -> Iterator[Footer | None]:
    """The footers in the extra data of files; None of those that have none, or none that can be read."""
    schemas: dict[str, Schema] = {}
    for extra in extras:
        text = extra.get(FOOTER)
        if text is None:
            yield None
            continue
        try:
            if (columns := extra.get(SCHEMA)) is not None:
                one = Schema.from_text(SCHEMA, columns)
                schemas.setdefault(one.fingerprint, one)
            found = Footer.from_text(FOOTER, text, schemas)
        except UNREADABLE:
            found = None
        yield found


def check_carried(path: str, extra: Mapping[str, str]) -> bool:
    """Whether the extra data of a file says something of itself. Raises FormatError if that is too long."""
    text = extra.get(FOOTER)
    if text is None:
        return False
    for name, said, most in ((FOOTER, text, TEXT_MAX), (SCHEMA, extra.get(SCHEMA, ""), SCHEMA_MAX)):
        if len(said) > most:
            raise FormatError(path, name, f"{len(said)} characters, and the limit is {most}")
    return True
