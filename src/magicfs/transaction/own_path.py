"""A user's own magic path that a job publishes: the records of its uploads go when these are settled."""

from __future__ import annotations

from magicfs.engine import Engine
from magicfs.errors import FormatError, MagicError, ObjectNotFound, StoreError
from magicfs.formats.pending import PENDING_SIZE_LIMIT, Pending
from magicfs.protocol import paths
from magicfs.protocol.magic import PENDING
from magicfs.runtime.parallel import drained
from magicfs.transaction.attempt_output import delete_keys
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput

__all__ = ["delete_records"]


async def delete_records(engine: Engine, context: JobContext, output: JobOutput) -> list[MagicError]:
    """Delete records and markers of uploads that are completed or aborted; returns what could not be done.

    One that has been written anew meanwhile describes another upload, and stays.
    """
    if context.options.places.own_path is None:
        return []
    bucket, ended, problems = engine.store.bucket, list[str](), list[MagicError]()

    async def look(known: Pending) -> bool:
        key = (known.filename or "").removeprefix(f"{bucket}/")
        if not key.endswith(PENDING) or not _is_of(
            key.removesuffix(PENDING), context.options.places.own_path or ""
        ):
            return True
        try:
            raw = await engine.store.get(key, size_max=PENDING_SIZE_LIMIT + 1)
            if Pending.from_bytes(f"{bucket}/{key}", raw).upload_id == known.upload_id:
                ended.extend((key, key.removesuffix(PENDING)))
        except (ObjectNotFound, FormatError):
            pass
        except StoreError as error:
            problems.append(error)
        return True

    await drained(output.pendings(), look, engine.concurrency)
    return [*problems, *await delete_keys(engine, sorted(ended))]


def _is_of(key: str, own_path: str) -> bool:
    return key == own_path or paths.is_under(key, own_path)
