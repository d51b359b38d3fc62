"""What a job needs of the files of one pending set: read once, with no more made of a file than its step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from magicfs.formats.checksum import CHECKSUM
from magicfs.formats.footer_texts import check_carried
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.plain_set import PlainSet, read_plain, text_of
from magicfs.formats.statistics import Statistics
from magicfs.protocol.steps import Publication
from magicfs.transaction import pack

__all__ = ["SetFiles", "of_set", "read"]


class SetFiles(NamedTuple):
    """The files of a set, by their places in it, and what they have in common."""

    texts: Sequence[str]  # the JSON of each, in one line
    steps: Sequence[Publication]
    created_ms: Sequence[int]  # when each was closed; 0 if that is not told
    buckets: Sequence[str]
    jobs: set[str]  # that set and files name as theirs
    attempts: set[str]
    with_footer: int  # how many say something of themselves
    with_checksum: int  # how many have a checksum of their task's
    statistics: Statistics  # of the set


def read(path: str, raw: bytes) -> SetFiles:
    """Read a pending set. Raises FormatError if it is malformed."""
    plain = read_plain(path, raw)
    return of_set(PendingSet.from_bytes(path, raw), path) if plain is None else _of_plain(plain, path)


def of_set(one: PendingSet, path: str) -> SetFiles:
    """The files of a set that was read field by field. FormatError if one says too much of itself."""
    files = one.commits
    return SetFiles(
        [text_of(file) for file in files],
        [pack.step_of(file) for file in files],
        [file.created_ms for file in files],
        [file.bucket for file in files],
        {one.job_id, *[file.job_id for file in files]},
        {file.task_id for file in files},
        sum([check_carried(path, file.extra_data) for file in files]),
        sum([CHECKSUM in file.extra_data for file in files]),
        one.statistics,
    )


def _of_plain(one: PlainSet, path: str) -> SetFiles:
    files = one.files
    return SetFiles(
        one.texts,
        [pack.plain_step(file) for file in files],
        [file.created_ms for file in files],
        [file.bucket for file in files],
        {one.job_id, *[file.job_id for file in files]},
        {file.attempt for file in files},
        sum([check_carried(path, file.extra_data) for file in files]),
        sum([CHECKSUM in file.extra_data for file in files]),
        one.statistics,
    )
