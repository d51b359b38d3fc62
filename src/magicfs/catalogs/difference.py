"""Which files a table must gain and lose to show a publication."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from magicfs.catalogs.port import Changes, Files, Published
from magicfs.errors import UsageError
from magicfs.formats.manifest import ManifestFile


@dataclass(frozen=True, slots=True)
class Difference:
    """Sorted keys. A file that was rewritten under its name is both removed and added."""

    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def changes(self) -> Changes:
        return Changes(len(self.added), len(self.removed))


def difference(held: Collection[str], published: Published, table: str) -> Difference:
    """From what a table holds to a publication. ``held``: keys, and in full what is not of the destination.

    Raises UsageError if the table does not hold what it says it shows, unless that is forced.
    """
    known = published.shown()
    shown: Files = {} if known is None else known
    here = set(held)
    if not published.force and here != shown.keys():
        raise UsageError(_changed(table, here - shown.keys(), shown.keys() - here, known is None))
    same = {
        key
        for key in here & published.files.keys() & shown.keys()
        if _identity(shown[key]) == _identity(published.files[key])
    }
    return Difference(tuple(sorted(published.files.keys() - same)), tuple(sorted(here - same)))


def _identity(file: ManifestFile) -> tuple[object, ...]:
    return file.size, file.etag, file.write_id, file.checksum


def _changed(table: str, more: Collection[str], fewer: Collection[str], is_new: bool) -> str:
    if is_new:
        what = (
            f"{table} holds {len(more)} files, such as {min(more)!r}, and magicfs has registered none of them"
        )
    else:
        some = min(more or fewer)
        what = (
            f"{table} was changed by another program since magicfs registered it: {len(more)} files were "
            f"added and {len(fewer)} removed, such as {some!r}"
        )
    return (
        f"{what}; nothing was changed; use a separate table, or replace this one's contents with force=True "
        "(--force)"
    )
