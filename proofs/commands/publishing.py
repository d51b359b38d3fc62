"""The verbs that publish rows, take some away, or show again what was there, each one call of one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import uuid4

from magicfs.datasets.commit import commit_listed, commit_or_abort
from magicfs.datasets.connection import told_as_newest
from magicfs.datasets.own_paths import discard_found, publish_found
from magicfs.datasets.read import current_view
from magicfs.engine import Engine
from magicfs.errors import MagicError, UsageError
from magicfs.formats.job_options import JobOptions, Keep
from magicfs.formats.manifest import ManifestFile
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.plain_pending import UploadedPart
from magicfs.past.drop import Order, drop_files
from magicfs.past.rollback import roll_back
from magicfs.protocol import ids, paths
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.magic import locate
from magicfs.protocol.readback import WRITE_ID
from magicfs.transaction import output as job_output
from magicfs.transaction.context import JobContext
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.output import JobOutput
from magicfs.transaction.planning import naming
from proofs.commands.places import Place

__all__ = ["PUBLISHING"]

_APPENDED: Final = {"p=1/appended": b"appended 1", "p=3/appended": b"appended 2"}
_REPLACING: Final = {"p=1/replacing": b"replacing 1", "p=3/replacing": b"replacing 2"}
_REWRITTEN: Final = "p=2/together"


async def append(engine: Engine, place: Place) -> None:
    await _job(engine, place, "append", _APPENDED)


async def overwrite(engine: Engine, place: Place) -> None:
    await _job(engine, place, "overwrite", _REPLACING)


async def overwrite_partitions(engine: Engine, place: Place) -> None:
    await _job(engine, place, "overwrite_partitions", _REPLACING)


async def keep(engine: Engine, place: Place) -> None:
    """``overwrite`` that keeps the old files."""
    await _job(engine, place, "overwrite", _REPLACING, keep=Keep(ms=86_400_000))


async def rewrite(engine: Engine, place: Place) -> None:
    """The rows of a partition, as they are when it begins, in one file."""
    seen = (await current_view(engine, place.location)).files
    chosen = {key: file for key, file in seen.items() if key.startswith("p=2/")}
    if not chosen:
        raise UsageError("nothing to rewrite")
    bodies = [await engine.store.get(paths.join(place.location.key, key)) for key in sorted(chosen)]

    def choice(shown: Mapping[str, ManifestFile]) -> Mapping[str, ManifestFile]:
        found = {key: one for key, one in shown.items() if chosen.get(key) == one}
        return found if len(found) == len(chosen) else {}

    await _job(engine, place, "rewrite", {_REWRITTEN: b"+".join(bodies)}, choice=choice)


async def drop(engine: Engine, place: Place) -> None:
    order, job = Order.of("p=1"), ids.job_id(uuid4())
    await drop_files(engine, place.location, order=order, job=job)


async def rollback_to(engine: Engine, place: Place) -> None:
    await roll_back(engine, place.location, to=place.target, job=ids.job_id(uuid4()))


async def rollback_kept(engine: Engine, place: Place) -> None:
    """The same, and what it replaces is kept."""
    how: Any = {"keep_ms": 86_400_000, "job": ids.job_id(uuid4())}
    await roll_back(engine, place.location, to=place.target, **how)


async def rollback_oldest(engine: Engine, place: Place) -> None:
    """To the very first publication, of which files may be kept, or gone."""
    await roll_back(engine, place.location, to=place.oldest, job=ids.job_id(uuid4()))


async def publish(engine: Engine, place: Place) -> None:
    await _publish(engine, place)


async def publish_over(engine: Engine, place: Place) -> None:
    """``publish`` that replaces what is there."""
    await _publish(engine, place, mode="overwrite")


async def discard(engine: Engine, place: Place) -> None:
    await discard_found(engine, place.path, _magic(place))


async def accept(engine: Engine, place: Place) -> None:
    """``commit`` of a job in quarantine."""
    if place.job is not None:
        await commit_listed(engine, place.location, place.job.id, accept="it is good enough")


async def _publish(engine: Engine, place: Place, **how: Any) -> None:
    report = await publish_found(engine, place.path, _magic(place), **how)
    if report.action == "published before":
        raise UsageError("another call has published them")


def _magic(place: Place) -> Any:
    return locate(place.path.path)


async def _job(
    engine: Engine,
    place: Place,
    mode: Any,
    files: Mapping[str, bytes],
    choice: Callable[..., Any] | None = None,
    **how: Any,
) -> None:
    """A job of one task that writes and commits within one call."""
    destination, job = place.location.key, ids.job_id(uuid4())
    context = JobContext(
        url=place.location.url,
        layout=WorkLayout(destination, job),
        options=JobOptions(
            committer="magic", mode=mode, unique_names=place.unique_names, tracking="memory", **how
        ),
    )
    transaction = JobTransaction(await told_as_newest(engine, place.location), context)
    setup = await transaction.set_up()
    mark = f"-000000-{job}" if place.unique_names else ""
    pendings: list[Pending] = []

    async def load() -> JobOutput:
        for name, body in files.items():
            key = paths.join(destination, f"{name}{mark}.bin")
            pendings.append(await _uploaded(engine, key, body, job))
        packed = PendingSet.merge(job, pendings).to_bytes()
        output = job_output.checked(engine, context, [("the task", packed)])
        output.planner = None if choice is None else naming(choice)
        return output

    try:
        await commit_or_abort(transaction, load, setup.driver)
    except MagicError:
        if await transaction.state() is None:
            await transaction.abort(pendings, setup.driver, given=False)
        raise


async def _uploaded(engine: Engine, key: str, body: bytes, job: ids.JobId) -> Pending:
    write_id, store = uuid4().hex, engine.store
    upload_id = await store.create_upload(key, metadata={WRITE_ID: write_id})
    part = await store.put_part(key, upload_id, 1, body)
    now = int(time.time() * 1000)
    return Pending(
        upload_id=upload_id,
        bucket=store.bucket,
        destination_key=key,
        parts=(UploadedPart(part.etag),),
        length=len(body),
        created_ms=now,
        saved_ms=now,
        job_id=job,
        task_id="attempt-000000-0",
        extra_data={WRITE_ID: write_id},
    )


PUBLISHING: Final = (
    append,
    overwrite,
    overwrite_partitions,
    keep,
    rewrite,
    drop,
    rollback_to,
    rollback_kept,
    rollback_oldest,
    publish,
    publish_over,
    discard,
    accept,
)
