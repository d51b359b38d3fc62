"""The copies that a rollback makes of files that are gone, from the versions which their bucket keeps.

Each is a delayed upload of the rollback's job under a name of its own, whose parts the store copies; what is
known of them is persisted as tasks do that. So the rollback is a job as any other, and nothing of it is
visible before it commits. Nobody deletes a version for good but ``magicfs maintain`` and the rules of the
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
from magicfs.formats.footer import Footer
from magicfs.formats.footer_texts import once_each
from magicfs.formats.manifest import ManifestFile
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.manifests import chain, footers
from magicfs.manifests.comparison import compare
from magicfs.past.extension import files_gone, restored_files
from magicfs.protocol import ids, paths
from magicfs.protocol.file_options import METADATA
from magicfs.protocol.final_names import copied_key
from magicfs.protocol.readback import WRITE_ID
from magicfs.runtime.parallel import gathered
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Part
from magicfs.stores.version_port import VersionStore
from magicfs.transaction import output as job_output
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput
from magicfs.transaction.sets import StoreSets

__all__ = ["copy_what_is_gone"]

_TASK_FILES: Final = 1000
"""Most files of what counts as one task."""
_PART: Final = 512 * 2**20
"""Bytes of a part that is copied; more where there would be too many of them."""
_AT_ONCE: Final = 8


async def copy_what_is_gone(engine: Engine, context: JobContext, conditions: Conditions) -> JobOutput:
    """Copy the files of then that are deleted or written over, and of which the bucket has the versions.

    What is there stays where it is, and is shown again there. A second call, after the first has died, copies
    again; what that had copied belongs to the job, and goes with it.

    Raises ObjectNotFound if a file is gone for good; whoever sets the job up aborts it then.
    """
    destination = context.layout.destination
    files = await restored_files(engine, context, conditions)
    gone = await _gone(engine, destination, files)
    if lost := [one.key for one in gone if not one.version]:
        raise files_gone(engine, context, lost)
    copied = await _copied(engine, context, conditions, gone) if gone else JobOutput()
    names = {one.key for one in gone}
    copied.restored = {key: file for key, file in files.items() if key not in names}
    return copied


async def _gone(engine: Engine, destination: str, files: Mapping[str, ManifestFile]) -> list[ManifestFile]:
    """The files that are not there any more, if there is one that could be copied."""
    if not (engine.store.capabilities.versions and any(one.version for one in files.values())):
        return []
    found = await compare(engine, destination, files)
    return [files[key] for key in (*found.missing, *found.altered)]


async def _footers(
    engine: Engine, context: JobContext, conditions: Conditions, files: Sequence[ManifestFile]
) -> dict[str, Footer]:
    """What the files say of themselves, as it was kept with them, by relative keys.

    Files are copied without it where it is lost: it can be made again, and they cannot.
    """
    if all(one.rows is None for one in files):
        return {}
    store, destination = engine.store, context.layout.destination
    below = chain.chain(store, destination, conditions, start=context.options.rollback.job, hidden="readable")
    try:
        return await footers.footers_of_files(store, destination, below, {one.key: one for one in files})
    except FormatError:
        return {}


async def _copied(
    engine: Engine, context: JobContext, conditions: Conditions, gone: Sequence[ManifestFile]
) -> JobOutput:
    said = await _footers(engine, context, conditions, gone)
    sets, taking = StoreSets(engine, context), job_output.Taking(engine, context)
    for number, start in enumerate(range(0, len(gone), _TASK_FILES)):
        task = ids.task_id(number)
        attempt = ids.attempt_id(task, token_hex(4))
        copies = await _copy_all(engine, context, gone[start : start + _TASK_FILES], said)
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
    engine: Engine, context: JobContext, files: Sequence[ManifestFile], said: Mapping[str, Footer]
) -> list[Pending]:
    async def copy(file: ManifestFile) -> Pending:
        try:
            return await _copy(engine, context, file, Taken(said.get(file.key), file.checksum))
        except ObjectNotFound as error:
            raise files_gone(engine, context, [file.key]) from error

    return await gathered(files, copy, engine.concurrency)


async def _copy(engine: Engine, context: JobContext, file: ManifestFile, taken: Taken) -> Pending:
    store, destination = cast("VersionStore", engine.store), context.layout.destination
    assert file.version is not None
    source = (paths.join(destination, file.key), file.version)
    key = copied_key(destination, file.key, context.job)
    head = await store.versions().head(*source)
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
        step = max(_PART, -(-head.size // store.capabilities.parts.count_max))

        async def part(number: int) -> Part:
            start = (number - 1) * step
            size = min(step, head.size - start)
            return await store.versions().copy_part(key, upload_id, number, source, start, size)

        parts = sorted(
            await gathered(range(1, -(-head.size // step) + 1), part, _AT_ONCE), key=lambda one: one.number
        )
    uploaded = Uploaded(key, upload_id, write_id, tuple(parts), head.size, taken=taken)
    return described(store, f"{store.bucket}/{key}", uploaded, {})
