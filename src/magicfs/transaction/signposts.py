"""What a job leaves in its extra destinations while it is alive: where its job object is.

Without it, somebody who clears up there would take the job's uploads for those of a job that has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

from magicfs.engine import Engine
from magicfs.errors import ObjectNotFound
from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields, check_format
from magicfs.parallel import drained
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.transaction.context import JobContext

__all__ = ["FORMAT", "keys_of", "put", "read"]

FORMAT: Final = "magicfs.elsewhere/1"
_SIZE_LIMIT: Final = 64 * 1024


def keys_of(context: JobContext) -> list[str]:
    """Where a job's signposts stand, one in each extra destination."""
    return [context.layout.signpost_key(extra) for extra in context.extra_destinations]


async def put(engine: Engine, context: JobContext) -> None:
    """Set a job's signposts up. A second call writes the same again.

    Raises:
        StoreError: The store refused one.
    """
    document = {"format": FORMAT, "jobId": context.job, "destination": context.layout.destination}
    raw = render(document)

    async def one(key: str) -> bool:
        await engine.store.put(key, raw)
        return True

    await drained(keys_of(context), one, engine.concurrency)


async def read(engine: Engine, directory: str, job: JobId) -> str | None:
    """The destination of a job that has a signpost in a directory; None if there is no signpost.

    Raises:
        FormatError: It cannot be believed.
    """
    names: Sequence[LayoutName] = get_args(LayoutName)
    for name in names:
        key = WorkLayout("", job, 0, name).signpost_key(directory)
        path = f"{engine.store.bucket}/{key}"
        try:
            raw = await engine.store.get(key, size_max=_SIZE_LIMIT + 1)
        except ObjectNotFound:
            continue
        fields = Fields(path, parse(path, raw, size_limit=_SIZE_LIMIT))
        check_format(fields, FORMAT)
        if fields.required_text("jobId") != job:
            raise fields.error("jobId", "is another job's; somebody copied the file here")
        return fields.text("destination")
    return None
