"""Checks of the content of files, by the task that wrote them; what they say travels with its commit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import BinaryIO

from magicfs.audit.content import FileCheck, StagedFile
from magicfs.formats.audit import Said, carried_by
from magicfs.formats.pending import Pending
from magicfs.protocol import paths
from magicfs.transaction.context import JobContext

__all__ = ["look", "not_looked_at", "with_said"]

_TOLD_MAX = 1000
"""Characters of what one check may tell of one file."""


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


def _look(checks: Sequence[FileCheck], key: str, size: int, opened: Callable[[], BinaryIO]) -> Said:
    with ExitStack() as left_open:
        file = StagedFile(key, size, lambda: left_open.enter_context(opened()))
        return {str(one): _plain(one.look(file)) for one in checks}


def _plain(told: str | None) -> str | None:
    return None if told is None else told.encode("utf-8", "replace").decode()[:_TOLD_MAX]


def _relative(context: JobContext, key: str) -> str | None:
    destination = context.layout.destination
    return paths.relative_to(key, destination) if paths.is_under(key, destination) else None
