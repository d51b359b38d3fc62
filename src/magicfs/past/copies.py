"""The copies that a rollback makes of files that are gone from their places: from the versions which their
bucket keeps, or from where a job has moved them aside.

Each is a delayed upload of the rollback's job under a name of its own, whose parts the store copies; what is
known of them is persisted as tasks do that. So the rollback is a job as any other, and nothing of it is
visible before it commits. Nobody deletes what is kept for good but ``magicfs maintain`` and the rules of the
bucket: where one is gone before it was copied, there is no rollback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any, Final, cast
from uuid import uuid4

from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound
from magicfs.filesystem.tracking import described
from magicfs.filesystem.upload.stream import Taken, Uploaded
from magicfs.formats.footer import Footer, once_each
from magicfs.formats.manifest import ManifestFile
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.manifests import chain, footers
from magicfs.manifests.comparison import compare, is_file
from magicfs.past.earlier_files import lying_where_they_are
from magicfs.past.extension import files_gone, restored_files
from magicfs.protocol import ids, paths
from magicfs.protocol.file_options import METADATA
from magicfs.protocol.final_names import copied_key
from magicfs.protocol.readback import WRITE_ID
from magicfs.runtime.parallel import gathered
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Part, VersionStore
from magicfs.transaction import output as job_output
from magicfs.transaction.attempt_output import StoreSets
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput

_TASK_FILES: Final = 1000
"""Most files of what counts as one task."""
_PART: Final = 512 * 2**20
"""Bytes of a part that is copied; more where there would be too many of them."""
_AT_ONCE: Final = 8
_READ: Final = 32 * 2**20
"""Bytes of a part that this process reads and writes, where the store does not copy parts."""
_READ_AT_ONCE: Final = 4


async def copy_what_is_gone(engine: Engine, context: JobContext, conditions: Conditions) -> JobOutput:
    """Copy the files of then that are deleted or written over, and of which the bucket has the versions.

    What is there stays where it is, and is shown again there. A second call, after the first has died, copies
    again; what that had copied belongs to the job, and goes with it.

    Raises ObjectNotFound if a file is gone for good; the caller then aborts the job.
    """
    destination = context.layout.destination
    job, files = context.options.rollback.job, await restored_files(engine, context, conditions)
    assert job is not None
    lying = await lying_where_they_are(engine, destination, files)
    gone = await _gone(engine, destination, files, lying)
    if lost := [one.key for one in gone if not lying[one.key].version and lying[one.key] is one]:
        raise files_gone(engine, context, lost)
    copied = await copied_files(engine, context, conditions, job, gone, lying) if gone else JobOutput()
    names = {one.key for one in gone}
    copied.restored = {key: file for key, file in files.items() if key not in names}
    return copied


async def _gone(
    engine: Engine, destination: str, files: Mapping[str, ManifestFile], lying: Mapping[str, ManifestFile]
) -> list[ManifestFile]:
    """The files that are not there any more, if there is one that could be copied."""
    by_version = engine.store.capabilities.versions and any(one.version for one in files.values())
    if not by_version and files == lying:
        return []
    found = await compare(engine, destination, files)
    return [files[key] for key in (*found.missing, *found.altered)]


async def _footers(
    engine: Engine, context: JobContext, conditions: Conditions, job: str, files: Sequence[ManifestFile]
) -> dict[str, Footer]:
    """What the files say of themselves, as it was kept with them, by relative keys.

    Files are copied without it where it is lost: it can be made again, and they cannot.
    """
    if all(one.rows is None for one in files):
        return {}
    store, destination = engine.store, context.layout.destination
    below = chain.chain(store, destination, conditions, start=job, hidden="readable")
    try:
        return await footers.footers_of_files(store, destination, below, {one.key: one for one in files})
    except FormatError:
        return {}


async def copied_files(
    engine: Engine,
    context: JobContext,
    conditions: Conditions,
    job: str,
    files: Sequence[ManifestFile],
    lying: Mapping[str, ManifestFile],
) -> JobOutput:
    """Copies of files that a job had published, each under a name of its own. ``lying``: where they are now.

    Raises ObjectNotFound if one is gone.
    """
    said = await _footers(engine, context, conditions, job, files)
    sets, taking = StoreSets(engine, context), job_output.Taking(engine, context)
    for number, start in enumerate(range(0, len(files), _TASK_FILES)):
        task = ids.task_id(number)
        attempt = ids.attempt_id(task, token_hex(4))
        copies = await _copy_all(engine, context, job, files[start : start + _TASK_FILES], said, lying)
        extras = once_each([one.extra_data for one in copies])
        copies = [
            replace(one, job_id=context.job, task_id=attempt, extra_data=extra)
            for one, extra in zip(copies, extras, strict=True)
        ]
        kept = await sets.keep(task, attempt, PendingSet.merge(context.job, copies))
        name = context.layout.set_key(attempt)
        taking.take(name, kept.pending_set.to_bytes(context.options.hadoop.etag_format))
    return taking.finish()


async def _copy_all(
    engine: Engine,
    context: JobContext,
    job: str,
    files: Sequence[ManifestFile],
    said: Mapping[str, Footer],
    lying: Mapping[str, ManifestFile],
) -> list[Pending]:
    async def copy(file: ManifestFile) -> Pending:
        taken = Taken(said.get(file.key), file.checksum)
        try:
            return await _copy(engine, context, file, lying[file.key], taken)
        except ObjectNotFound as error:
            raise files_gone(engine, context, [file.key], job) from error

    if engine.store.capabilities.versions:
        return await gathered(files, copy, engine.concurrency)
    return await gathered(files, copy, min(engine.concurrency, _READ_AT_ONCE))


async def _copy(
    engine: Engine, context: JobContext, file: ManifestFile, source: ManifestFile, taken: Taken
) -> Pending:
    """``source``: the same where it lies."""
    store, destination = engine.store, context.layout.destination
    place, version = paths.join(destination, source.key), source.version or ""
    key = copied_key(destination, file.key, context.job)
    head = await (
        cast("VersionStore", store).versions().head(place, version) if version else store.head(place)
    )
    if not version and not is_file(head, source):
        raise ObjectNotFound("copy", f"{store.bucket}/{place}", "another file is there")
    known = store.capabilities.uploads.options
    options: dict[str, Any] = {**head.description, METADATA: dict(head.metadata)}
    write_id = uuid4().hex
    upload_id = await store.create_upload(
        key,
        metadata={WRITE_ID: write_id},
        options={name: value for name, value in options.items() if name in known},
    )
    if not head.size:
        parts = [await store.put_part(key, upload_id, 1, b"")]
    else:
        within = store.capabilities.versions
        step = max(_PART if within else _READ, -(-head.size // store.capabilities.parts.count_max))

        async def part(number: int) -> Part:
            start = (number - 1) * step
            size = min(step, head.size - start)
            if within:
                versions = cast("VersionStore", store).versions()
                return await versions.copy_part(key, upload_id, number, (place, version), start, size)
            body = await store.get_range(place, start, size, etag=head.etag)
            return await store.put_part(key, upload_id, number, body)

        numbers = range(1, -(-head.size // step) + 1)
        parts = sorted(await gathered(numbers, part, _AT_ONCE if within else 1), key=lambda one: one.number)
    uploaded = Uploaded(key, upload_id, write_id, tuple(parts), head.size, taken=taken)
    return described(store, f"{store.bucket}/{key}", uploaded, {})
