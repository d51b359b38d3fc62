"""The steps of a flip: the record of it, the new dataset made whole, and the exchange.

A job that flips is two jobs of one id. The inner one makes the new dataset beside the destination, as any job
does where nothing is. The outer one has its job object at the destination, where others see it, and takes no
files: its commit exchanges the two directories. The flip record (``formats.flip_record``) lies at the
destination before, and beside it afterwards.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final
from uuid import uuid4

from magicfs.engine import Engine
from magicfs.errors import (
    CommitFailed,
    ObjectExists,
    ObjectNotFound,
    PreconditionFailed,
    StoreError,
    Unavailable,
)
from magicfs.formats.flip_record import FlipRecord
from magicfs.formats.job_object import JobObject
from magicfs.formats.manifest import Manifest
from magicfs.formats.pointer import Pointer
from magicfs.formats.success import SUCCESS_SIZE_LIMIT, SuccessData
from magicfs.manifests import chain
from magicfs.parallel import drained
from magicfs.protocol import paths
from magicfs.protocol.conflict import MANIFESTS, is_work
from magicfs.stores.conditions import Conditions, remove_matching
from magicfs.stores.exchange_by_renames import aside_of
from magicfs.stores.object_tree import tree_of
from magicfs.stores.register import Register
from magicfs.transaction.context import JobContext
from magicfs.transaction.record import new_token, now_ms

__all__ = [
    "RECORD",
    "delete_empty",
    "exchange",
    "forbid_exchange",
    "join",
    "new_dataset",
    "record_key",
    "record_path",
    "write_record",
]

RECORD: Final = "flip.json"
_TRIES = 20


def record_key(context: JobContext, directory: str | None = None) -> str:
    """Where a job's flip record lies, below the destination, or below another directory."""
    layout = context.layout if directory is None else replace(context.layout, destination=directory)
    return f"{layout.job_directory}/{RECORD}"


def record_path(context: JobContext) -> str:
    """The same relative to the directory."""
    return paths.relative_to(record_key(context), context.layout.destination)


async def write_record(engine: Engine, context: JobContext, job: JobObject) -> None:
    """Write the flip record. Only who may still move the job to its commit point writes it, before that."""
    record = FlipRecord(context.job, context.layout.destination, new_dataset(context), job.deletions)
    await engine.store.put(record_key(context), record.to_bytes())


async def join(engine: Engine, context: JobContext, conditions: Conditions, job: JobObject) -> Manifest:
    """Make what lies beside the destination the dataset that it shall be, and check that it is whole.

    Its manifest becomes the next one of the destination's chain, which is copied. A second call, from any
    process, changes nothing. Returns the manifest.

    Raises ObjectNotFound if the new dataset is not there: it has taken its place, or was discarded.
    Raises CommitFailed if it is not what the job has published there; nothing was changed at the destination.
    """
    store, new, destination = engine.store, new_dataset(context), context.layout.destination
    for _ in range(_TRIES):
        mine = await chain.read(store, new, context.job, conditions)
        if mine is None:
            raise ObjectNotFound("join", f"{store.bucket}/{new}", "no dataset of the job is there")
        if mine.destination == destination:
            break
        with suppress(ObjectExists, PreconditionFailed):  # another process does the same
            if await _copy_chain(engine, destination, new):
                await _link(engine, context, conditions, job, mine)
    else:
        raise Unavailable("join", f"{store.bucket}/{destination}", "its manifests changed all the time")
    await _rename_in_success(engine, context)
    await _check(engine, context, mine)
    return mine


async def _copy_chain(engine: Engine, destination: str, new: str) -> bool:
    """Copy the manifests of the destination; whether they were the same before and afterwards."""
    before = await _manifests(engine, destination)

    async def copy(key: str) -> bool:
        await engine.store.copy(key, paths.join(new, paths.relative_to(key, destination)))
        return True

    pointer = chain.pointer_key(destination).removesuffix("json")
    await drained((key for key in before if not key.startswith(pointer)), copy, engine.concurrency)
    return before == await _manifests(engine, destination)


async def _manifests(engine: Engine, destination: str) -> dict[str, str]:
    prefix = paths.prefix_of(paths.join(destination, MANIFESTS))
    return {info.key: info.etag async for info in engine.store.list(prefix)}


async def _link(
    engine: Engine, context: JobContext, conditions: Conditions, job: JobObject, mine: Manifest
) -> None:
    """Let the copied chain go on with the job's manifest: pointer first, for the manifest says that all is
    done.
    """
    store, new, destination = engine.store, new_dataset(context), context.layout.destination
    seen = await chain.read_pointer(store, destination, conditions)
    previous = seen[0].job_id if seen else None
    own = Register(store, chain.manifest_key(new, context.job), conditions, lasting=True)
    head = Register(store, chain.pointer_key(new), conditions, lasting=True)
    manifest, pointer = await own.read(), await head.read()
    if manifest is None or pointer is None:
        raise ObjectNotFound("join", f"{store.bucket}/{new}", "no dataset of the job is there")
    before = seen[0] if seen else Pointer(job_id=context.job, nonce=new_token(), changed_ms=now_ms())
    moved = before.moved(context.job, job.run_id, uuid4().hex, now_ms())
    # Whoever has read the pointer at the destination, and is late, must not find the next number free.
    await head.swap(pointer, moved.to_bytes(), number_min=seen[1].number + 1 if seen else 0)
    replaces = job.conflict == "replace"
    linked = replace(
        mine,
        run_id=job.run_id,
        destination=destination,
        conflict=job.conflict,
        committed_ms=job.changed_ms,
        previous=previous,
        hides="all" if replaces else "nothing",
        replaced=previous if replaces else None,
        older_files=False,
    )
    await own.swap(manifest, linked.to_bytes())


async def _rename_in_success(engine: Engine, context: JobContext) -> None:
    """Let ``_SUCCESS`` name the files as they will be called."""
    store, new, destination = engine.store, new_dataset(context), context.layout.destination
    key = replace(context.layout, destination=new).success_key
    success = SuccessData.from_bytes(
        f"{store.bucket}/{key}", await store.get(key, size_max=SUCCESS_SIZE_LIMIT + 1)
    )
    old, wanted = f"/{new}/", f"/{destination}/"
    if not any(name.startswith(old) for name in success.filenames):
        return
    diagnostics = {
        **success.diagnostics,
        "magicfs.conflict": context.conflict,
        "magicfs.manifest": chain.manifest_key(destination, context.job),
    }
    names = tuple(
        wanted + name.removeprefix(old) if name.startswith(old) else name for name in success.filenames
    )
    await store.put(key, replace(success, filenames=names, diagnostics=diagnostics).to_bytes())


async def _check(engine: Engine, context: JobContext, mine: Manifest) -> None:
    """Raise CommitFailed if a file of the new dataset is lacking, or is another one."""
    new = new_dataset(context)
    there = {info.key: info async for info in engine.store.list(paths.prefix_of(new))}
    for file in mine.files:
        info = there.get(paths.join(new, file.key))
        if info is None or info.size != file.size or (file.etag and info.etag != file.etag):
            what = "is not there" if info is None else "is another one"
            raise CommitFailed(
                f"{file.key} of the new dataset of job {context.job} {what}; nothing was changed at "
                f"{context.url}; abort the job and run it again"
            )


async def exchange(engine: Engine, context: JobContext, conditions: Conditions) -> bool:
    """Put the new dataset in the place of the old one. See ``Tree.exchange``.

    Where renames do it, a job may write its object at the destination while nothing is there. It gives way
    once it finds that gone.
    """
    destination, tree = context.layout.destination, tree_of(engine.store)
    manifest = paths.relative_to(chain.manifest_key(destination, context.job), destination)
    for _ in range(_TRIES):
        try:
            return await tree.exchange(
                destination, new_dataset(context), leaving=record_path(context), bringing=manifest
            )
        except ObjectExists as error:
            listed = [info async for info in engine.store.list(paths.prefix_of(destination))]
            made = [info for info in listed if not info.key.endswith("/")]
            data = [one.key for one in made if not is_work(paths.relative_to(one.key, destination))]
            if data:
                old = aside_of(new_dataset(context))
                raise CommitFailed(
                    f"{data[0]} was written while {context.url} was published as a whole, and is in the way; "
                    f"the new dataset lies in {context.new}, the old one in {old}; move that file away, then "
                    f"run magicfs recover {context.url}"
                ) from error
            work = [(one.key, one.etag) for one in made]
            await remove_matching(engine.store, conditions, work, engine.concurrency)
            await delete_empty(engine, destination)
    raise Unavailable(
        "exchange", f"{engine.store.bucket}/{destination}", "jobs were set up there all the time"
    )


async def forbid_exchange(engine: Engine, context: JobContext) -> bool:
    """Let nobody do that any more. See ``Tree.forbid_exchange``."""
    tree = tree_of(engine.store)
    return await tree.forbid_exchange(
        context.layout.destination, new_dataset(context), leaving=record_path(context)
    )


async def delete_empty(engine: Engine, directory: str) -> None:
    """Delete a directory and those in it, as far as they are empty: whoever is late may write there again, or
    have put something else there.
    """
    tree = tree_of(engine.store)
    with suppress(ObjectNotFound, StoreError):
        async for entry in tree.entries(directory):
            if entry.kind == "directory":
                await delete_empty(engine, entry.path)
        await tree.delete(directory)


def new_dataset(context: JobContext) -> str:
    """The directory beside the destination of a job that flips, in which the new dataset is made."""
    assert context.new is not None
    return context.new
