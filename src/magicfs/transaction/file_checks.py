"""Checks of the content of files, by the task that wrote them; what they say travels with its commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, BinaryIO, Protocol, runtime_checkable

from magicfs.formats.audit import Said, carried_by
from magicfs.formats.pending import Pending
from magicfs.protocol import paths
from magicfs.protocol.conflict import partition_of

if TYPE_CHECKING:
    from magicfs.transaction.context import JobContext

__all__ = ["ContentCheck", "StagedFile", "look", "not_looked_at", "with_said"]

_TOLD_MAX = 1000
"""Characters of what one check may tell of one file."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file that a task is about to commit.

    Attributes:
        key: Where it will be, relative to the destination.
        bytes: Its size.
    """

    key: str
    bytes: int
    _open: Callable[[], BinaryIO] = field(repr=False)

    @property
    def partition(self) -> dict[str, str]:
        """The values in the names of its directories: ``{"day": "2026-01-01"}`` of ``day=2026-01-01/…``."""
        return partition_of(self.key)

    def open(self) -> BinaryIO:
        """The file, to be read; opened anew by each call, and closed when the checks have ended."""
        return self._open()


@runtime_checkable
class ContentCheck(Protocol):
    """Looks at the content of each file of a job, in the task that has written it. Its text is its name."""

    def look(self, file: StagedFile) -> str | None:
        """What is wrong with a file; None if nothing is."""


async def look(context: JobContext, key: str, size: int, opened: Callable[[], BinaryIO]) -> Said | None:
    """What all checks say of a file, in a thread; None of one that is none of the destination's."""
    if (relative := _relative(context, key)) is None:
        return None
    return await asyncio.to_thread(_look, context.file_checks, relative, size, opened)


def not_looked_at(context: JobContext, key: str, why: str) -> Said | None:
    """The same of a file that nobody can read any more."""
    if _relative(context, key) is None:
        return None
    return {str(one): f"could not be looked at: {why}" for one in context.file_checks}


def with_said(pendings: Sequence[Pending], said: Mapping[str, Said]) -> list[Pending]:
    """Files of a task with what was said of them, by their final keys."""
    return [
        one
        if one.destination_key not in said
        else replace(one, extra_data={**one.extra_data, **carried_by(said[one.destination_key])})
        for one in pendings
    ]


def _look(checks: Sequence[ContentCheck], key: str, size: int, opened: Callable[[], BinaryIO]) -> Said:
    with ExitStack() as left_open:
        file = StagedFile(key, size, lambda: left_open.enter_context(opened()))
        return {str(one): _plain(one.look(file)) for one in checks}


def _plain(told: str | None) -> str | None:
    return None if told is None else told.encode("utf-8", "replace").decode()[:_TOLD_MAX]


def _relative(context: JobContext, key: str) -> str | None:
    destination = context.layout.destination
    return paths.relative_to(key, destination) if paths.is_under(key, destination) else None
