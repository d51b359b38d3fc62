"""The footers of published files: in lists beside the manifest of the job that brought the files.

::

    DEST/_magicfs/<job>/footers-<number>-<sha256>.json     a list, which the manifest names

A job that shows files of the past again has no footers of theirs: they stay where they were. So whoever looks
for the footer of a file walks down the chain until he meets it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from contextlib import aclosing
from itertools import chain, islice
from typing import Final

from magicfs.errors import UsageError
from magicfs.formats.fields import LONG_MAX
from magicfs.formats.footer import FileFooters, Footer
from magicfs.formats.limits import FOOTERS_SIZE_LIMIT
from magicfs.formats.manifest import FilesPart, Footers, Manifest, ManifestFile
from magicfs.manifests import parts
from magicfs.stores.port import Store

_FILES_IN_LIST: Final = 2_000
"""Most files of one list: some megabytes where every file has many columns."""

FileOfFooter = tuple[str, int, Footer | None]
"""The key of a file, relative to the destination, its bytes, and its footer if it is known."""


async def write(
    store: Store, destination: str, job: str, files: Iterable[FileOfFooter], *, restored: int | None = 0
) -> Footers:
    """Write the footers of a job's files down, a list at a time. A second call writes the same again.

    ``restored``: rows of files beside these, whose footers are written elsewhere; None if they are not known.
    """
    count = _Count()
    lists = await parts.write_lists(store, destination, job, _lists(job, count.over(files)))
    rows = None if restored is None or count.without else count.rows + restored
    rows = None if rows is None or rows > LONG_MAX else rows
    return Footers(rows=rows, schemas=tuple(sorted(count.schemas)), lists=lists)


async def footers_of(store: Store, destination: str, manifest: Manifest) -> dict[str, Footer]:
    """The footers that the lists of one manifest hold, by relative key.

    Raises FormatError if a list is gone, malformed or altered.
    """
    found: dict[str, Footer] = {}
    if manifest.footers is None:
        return found
    named = manifest.footers.lists
    lists = parts.read_lists(store, destination, manifest.job_id, named, size_limit=FOOTERS_SIZE_LIMIT)
    async with aclosing(lists) as read:
        async for path, raw in read:
            found |= FileFooters.from_bytes(path, raw).files
    return found


async def footers_of_files(
    store: Store, destination: str, manifests: AsyncIterable[Manifest], files: Mapping[str, ManifestFile]
) -> dict[str, Footer]:
    """The footers of files by relative key, found in manifests, the newest first, that hold them.

    Files without rows have none. The manifests are asked for until all others have been found.
    """
    found: dict[str, Footer] = {}
    wanted = {key: _identity(one) for key, one in files.items() if one.rows is not None}
    async for manifest in manifests:
        if not wanted:
            break
        if manifest.footers is None:
            continue
        if same := {one.key for one in manifest.files if wanted.get(one.key) == _identity(one)}:
            held = await footers_of(store, destination, manifest)
            found |= {key: held[key] for key in same & held.keys()}
            wanted = {key: identity for key, identity in wanted.items() if key not in found}
    return found


def _identity(one: ManifestFile) -> tuple[int, str | None, str]:
    return one.size, one.write_id, one.etag if one.write_id is None else ""


class _Count:
    """What is counted while footers are written down."""

    def __init__(self) -> None:
        self.rows = 0
        self.without = 0  # how many files have no footer
        self.schemas: set[str] = set()

    def over(self, files: Iterable[FileOfFooter]) -> Iterator[tuple[str, int, Footer]]:
        for key, size, footer in files:
            if footer is None:
                self.without += 1
                continue
            self.rows += footer.rows
            if footer.schema is not None:
                self.schemas.add(footer.schema.fingerprint)
            yield key, size, footer


_Group = list[tuple[str, int, Footer]]


def _lists(job: str, files: Iterable[tuple[str, int, Footer]]) -> Iterator[tuple[FilesPart, bytes]]:
    lists = chain.from_iterable(_readable(job, group) for group in _grouped(files))
    for number, (group, raw) in enumerate(lists):
        yield parts.named_part(number, raw, [size for _, size, _ in group], "footers-"), raw


def _grouped(files: Iterable[tuple[str, int, Footer]]) -> Iterator[_Group]:
    source = iter(files)
    while group := list(islice(source, _FILES_IN_LIST)):
        yield group


def _readable(job: str, group: _Group) -> Iterator[tuple[_Group, bytes]]:
    """A group as one list, or as several if that would be too large to be read."""
    try:
        raw = FileFooters(job_id=job, files={key: footer for key, _, footer in group}).to_bytes()
    except UsageError:
        if len(group) == 1:
            raise
        half = len(group) // 2
        yield from _readable(job, group[:half])
        yield from _readable(job, group[half:])
    else:
        yield group, raw
