"""Data that is there already, where a conflict mode forbids to publish onto it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from magicfs.engine import Engine
from magicfs.errors import OutputExists
from magicfs.protocol import conflict, paths
from magicfs.protocol.replacement import OldFile
from magicfs.runtime.parallel import drained
from magicfs.transaction.context import JobContext

__all__ = ["refuse_any", "refuse_data", "refuse_equal"]


def _output_exists(context: JobContext, key: str) -> OutputExists:
    """The error for ``conflict="fail"`` where a key is data already."""
    if context.is_partition_scoped:
        return OutputExists(
            f"a partition of {context.url} that job {context.job} writes to holds data already, such as "
            f"{key}, and conflict='fail' of committer={context.options.committer!r} publishes only into "
            "partitions "
            "without any, and files at the root only where there is none at all; nothing was changed; "
            "choose another destination, or conflict='append' or 'replace_partitions'"
        )
    return OutputExists(
        f"{context.url} holds data already, such as {key}, and conflict='fail' publishes only where there is "
        "none; nothing was changed; choose another destination, or conflict='append' or 'replace'"
    )


async def refuse_data(engine: Engine, context: JobContext, partitions: tuple[str, ...] | None) -> None:
    """Raise OutputExists if data is there in any of the partitions; None looks at all of the destination."""
    destination = context.layout.destination

    async def look(partition: str) -> bool:
        async for info in engine.store.list(paths.prefix_of(paths.join(destination, partition))):
            if conflict.is_data(info.key, destination):
                raise _output_exists(context, info.key)
        return True

    await drained([""] if partitions is None else partitions, look, engine.concurrency)


def refuse_any(context: JobContext, old: Iterable[OldFile]) -> None:
    """Raise OutputExists if some listed objects are data."""
    destination = context.layout.destination
    there = next((one.key for one in old if conflict.is_data(one.key, destination)), None)
    if there is not None:
        raise _output_exists(context, there)


def refuse_equal(context: JobContext, equal_keys: Sequence[str]) -> None:
    """Raise OutputExists if names of an appending job are taken."""
    if equal_keys and not context.renames.overwrites:
        raise OutputExists(
            f"{len(equal_keys)} files of job {context.job} have names that are taken, such as "
            f"{equal_keys[0]}, and conflict='append' replaces nothing; nothing was changed; use "
            "unique_names=True, other names, or conflict='replace'"
        )
