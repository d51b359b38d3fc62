"""What differs between two publications: files, rows, bytes, partitions and columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from typing import Final

from magicfs.datasets.read import current_view, shown_files
from magicfs.engine import Engine
from magicfs.formats.manifest import ManifestFile
from magicfs.manifests.chain import View
from magicfs.past.as_of import job_as_of, view_at
from magicfs.past.effects import NO_FILES, Files
from magicfs.past.footers_at import footers_of_view
from magicfs.protocol import ids
from magicfs.protocol.final_names import copied_by, copied_key
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location
from magicfs.report import Report

_NAMED_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class DiffReport(Report):
    """The difference between two publications of a dataset.

    Attributes:
        url: The destination.
        before: The job of the first publication.
        after: The job of the second one.
        added: The files that only the second one has.
        removed: The files that only the first one has.
        rows_added: The rows of the added files; None if a job did not count them.
        rows_removed: The rows of the removed files; None if a job did not count them.
        partitions: The first 100 directories, relative to the destination, with files that differ.
        columns: The columns that differ, such as ``+ price: double``, ``- x: int64`` or
            ``day: string -> date``; only of jobs with option ``footers``.
    """

    url: str | PathLike[str]
    before: str
    after: str
    added: Files = NO_FILES
    removed: Files = NO_FILES
    rows_added: int | None = 0
    rows_removed: int | None = 0
    partitions: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def lines(self) -> list[tuple[str, str]]:
        """The same for people: names and values, of which some may be empty."""
        return [
            ("before", f"job {self.before}"),
            ("after", f"job {self.after}"),
            ("added", _with_rows(self.added, self.rows_added)),
            ("removed", _with_rows(self.removed, self.rows_removed)),
            ("partitions", ", ".join(self.partitions)),
            ("columns", "; ".join(self.columns)),
        ]


async def difference(
    engine: Engine, location: Location, *, a: str | datetime, b: str | datetime | None
) -> DiffReport:
    """``magicfs.Dataset.diff``, on the store's loop."""
    before, after = [await _view(engine, location, one) for one in (a, b)]
    old, new = (_data(location, one) for one in (before, after))
    added, removed = _apart(old, new)
    differs = bool(added or removed)
    directories = sorted({key.rpartition("/")[0] for key in (*added, *removed)} - {""})
    return DiffReport(
        location.url,
        before.head.job_id,
        after.head.job_id,
        added=_files(added),
        removed=_files(removed),
        rows_added=_rows(added),
        rows_removed=_rows(removed),
        partitions=tuple(directories[:_NAMED_MAX]),
        columns=_changes(
            await _columns(engine, location, before, old if differs else {}),
            await _columns(engine, location, after, new if differs else {}),
        ),
    )


_FilesByKey = dict[str, ManifestFile]


def _apart(old: _FilesByKey, new: _FilesByKey) -> tuple[_FilesByKey, _FilesByKey]:
    """The files that only the new state has, and those that only the old one has."""
    copies = originals(new, old)
    same = {key for key in new if key in old and _is_one(old[key], new[key])}
    added = {key: one for key, one in new.items() if key not in same and key not in copies}
    stay = same | set(copies.values())
    return added, {key: one for key, one in old.items() if key not in stay}


def originals(keys: Collection[str], old: Collection[str]) -> dict[str, str]:
    """Which of the keys are copies that rollbacks have made of old ones, and of which."""
    jobs = {copied_by(key) for key in keys} - {None}
    made = {copied_key("", one, ids.job_id(job)): one for job in jobs if job is not None for one in old}
    return {key: made[key] for key in keys if key in made}


async def _view(engine: Engine, location: Location, as_of: str | datetime | None) -> View:
    if as_of is None:
        return await current_view(engine, location)
    return await view_at(engine, location, await job_as_of(engine, location, as_of))


def _data(location: Location, view: View) -> dict[str, ManifestFile]:
    return {key: one for key, one in shown_files(location, view).items() if is_data(key, "")}


def _is_one(file: ManifestFile, other: ManifestFile) -> bool:
    """Whether two files of one name are one; ETags are missing in sums of a dataset that was moved."""
    return file.size == other.size and (file.etag == other.etag or not (file.etag and other.etag))


def _files(files: Mapping[str, ManifestFile]) -> Files:
    return Files.of({key: one.size for key, one in files.items()})


def _rows(files: Mapping[str, ManifestFile]) -> int | None:
    counted = [one.rows for one in files.values()]
    return None if None in counted else sum(filter(None, counted))


def _with_rows(files: Files, rows: int | None) -> str:
    counted = "" if rows is None or not files.files else f", {rows:,} rows"
    return f"{files}{counted}"


async def _columns(
    engine: Engine, location: Location, view: View, files: Mapping[str, ManifestFile]
) -> dict[str, str]:
    """The types of the columns of some files, by name, as far as footers record them."""
    if all(one.rows is None for one in files.values()):
        return {}
    found = await footers_of_view(engine, location, view.head.job_id, files)
    return {
        one.name: one.type
        for footer in found.values()
        if footer.schema is not None
        for one in footer.schema.fields
    }


def _changes(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    if not old or not new:
        return ()
    more = [f"+ {name}: {new[name]}" for name in new if name not in old]
    less = [f"- {name}: {old[name]}" for name in old if name not in new]
    other = [f"{name}: {old[name]} -> {new[name]}" for name in new if old.get(name, new[name]) != new[name]]
    return (*more, *less, *other)
