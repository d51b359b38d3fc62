"""What a task attempt wrote where names are only keys, as the manifest of its task."""

from __future__ import annotations

from magicfs.committers.renaming.scan import Found, NameCheck
from magicfs.engine import Engine
from magicfs.formats.task_commit import Counters
from magicfs.formats.task_manifest import TaskManifest
from magicfs.protocol import paths
from magicfs.protocol.ids import AttemptId
from magicfs.transaction.context import JobContext

__all__ = ["scan"]


async def scan(
    engine: Engine, context: JobContext, names: NameCheck, attempt: AttemptId, *, counters: Counters | None
) -> TaskManifest:
    """List what an attempt wrote, in one listing. Markers of directories are left out.

    No ETag is noted: a copy has another one, or the same. Nothing is changed. Raises CommitFailed as
    ``NameCheck.add`` does.
    """
    found = Found(names, names.places.layout.task_attempt_directory(attempt))
    prefix = paths.prefix_of(found.root)
    async for info in engine.store.list(prefix):
        if not info.key.endswith("/"):
            name = info.key[len(prefix) :]
            found.depth = max(found.depth, name.count("/"))
            names.add(name, info.key, info.size, None)
    return found.manifest(context, attempt, counters)
