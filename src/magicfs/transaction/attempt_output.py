"""What a task attempt wrote: finding it, checking it, discarding it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from magicfs.engine import Engine
from magicfs.errors import FormatError, MagicError, ObjectNotFound, UsageError
from magicfs.formats.audit import Said, carried_by
from magicfs.formats.pending import PENDING_SIZE_LIMIT, Pending
from magicfs.formats.rows import has_dots
from magicfs.protocol import paths
from magicfs.protocol.final_names import final_key
from magicfs.protocol.ids import AttemptId
from magicfs.protocol.magic import PENDING, locate
from magicfs.protocol.steps import Abort, Batch, Delete, Step
from magicfs.runtime.parallel import drained
from magicfs.stores.port import ObjectInfo
from magicfs.transaction.context import ContentCheck, JobContext, StagedFile

__all__ = [
    "TaskOutput",
    "abort_uploads",
    "delete_keys",
    "load",
    "look_at_content",
    "not_looked_at",
    "read_pending",
    "refuse_others",
    "run_all",
    "with_said",
]

_TOLD_MAX = 1000
"""Characters of what one check may tell of one file."""


async def look_at_content(
    context: JobContext, key: str, size: int, opened: Callable[[], BinaryIO]
) -> Said | None:
    """What all checks say of a file, in a thread; None of one that is none of the destination's."""
    if (relative := _relative(context, key)) is None:
        return None
    return await asyncio.to_thread(_look, context.file_checks, relative, size, opened)


def not_looked_at(context: JobContext, key: str, why: str) -> Said | None:
    """The same of a file that nobody can read any more."""
    if _relative(context, key) is None:
        return None
    return {str(one): f"could not be read: {why}" for one in context.file_checks}


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


@dataclass(slots=True)
class TaskOutput:
    """The files of one attempt."""

    pendings: list[Pending] = field(default_factory=list)  # those that can be committed
    problems: list[MagicError] = field(default_factory=list)  # why the others cannot
    keys: list[str] = field(default_factory=list)  # everything that lies in the attempt's directory


Known = Mapping[str, tuple[ObjectInfo, Pending]]
"""What this process has written itself: by the key of each ``.pending`` file its object and what it says."""


async def load(
    engine: Engine, directory: str, bucket: str, destinations: Sequence[str], known: Known | None = None
) -> TaskOutput:
    """Read every ``.pending`` file of an attempt, in parallel: one LIST per page, one GET per file.

    The listing tells which files there are. One that it shows as this process has written it is not read
    back: ``known`` says what is in it. A file that is malformed, names a place outside the destinations, or
    is a marker without its ``.pending`` becomes a problem, not an exception.
    """
    output = TaskOutput()
    listed = [info async for info in engine.store.list(paths.prefix_of(directory))]
    output.keys = [info.key for info in listed]
    described = {key.removesuffix(PENDING) for key in output.keys if key.endswith(PENDING)}
    for key in output.keys:
        # Names with a slash at the end are directories that other tools have marked.
        if not key.endswith((PENDING, "/")) and key not in described:
            output.problems.append(
                FormatError(
                    f"{bucket}/{key}",
                    "",
                    "the marker has no .pending file, because closing the file failed; write it again",
                )
            )
    written = (
        {info.key: known[info.key][1] for info in listed if _is_as_written(info, known)} if known else {}
    )
    keys = [key for key in output.keys if key.endswith(PENDING)]
    await read_pending(engine, keys, bucket, destinations, output, written)
    return output


def _is_as_written(listed: ObjectInfo, known: Known) -> bool:
    if listed.key not in known or not listed.etag:
        return False
    ours = known[listed.key][0]
    return (listed.size, listed.etag) == (ours.size, ours.etag)


async def read_pending(
    engine: Engine,
    keys: Sequence[str],
    bucket: str,
    destinations: Sequence[str],
    output: TaskOutput,
    written: Mapping[str, Pending] | None = None,
) -> None:
    """Read ``.pending`` files into ``output``, in the order of their keys, and problems; also when it
    raises. What ``written`` says of some is taken for read.
    """
    written = written or {}
    found: dict[str, Pending] = {}

    def take(key: str, pending: Pending) -> None:
        _check_place(f"{bucket}/{key}", pending, bucket, destinations)
        found[key] = replace(pending, filename=f"{bucket}/{key}")

    async def read(key: str) -> None:
        try:
            raw = await engine.store.get(key, size_max=PENDING_SIZE_LIMIT + 1)
            take(key, Pending.from_bytes(f"{bucket}/{key}", raw))
        except (FormatError, ObjectNotFound) as error:
            output.problems.append(error)

    try:
        for key, pending in written.items():
            try:
                take(key, pending)
            except FormatError as error:
                output.problems.append(error)
        await drained([key for key in keys if key not in written], read, engine.concurrency)
    finally:
        output.pendings += [found[key] for key in sorted(found)]


def _check_place(where: str, pending: Pending, bucket: str, destinations: Sequence[str]) -> None:
    if pending.bucket != bucket:
        raise FormatError(where, "bucket", f"{pending.bucket!r} is not {bucket!r}, the job's")
    if paths.which_holds(pending.destination_key, destinations) is None or has_dots(pending.destination_key):
        places = " and ".join(repr(one) for one in destinations)
        raise FormatError(where, "destinationKey", f"{pending.destination_key!r} lies outside {places}")


def refuse_others(
    context: JobContext, attempt: AttemptId, opened: Iterable[tuple[str, Pending]], output: TaskOutput
) -> None:
    """Make a problem of every file that is not what the job's settings make of the path that was opened.

    ``opened`` are the attempt's files by path, ``bucket/key``. One whose owner or place is another's stays in
    the store as it is; one that only lacks the unique name is the attempt's own, and is discarded with it.
    """
    for path, pending in opened:
        located = locate(path)
        assert located is not None
        expected = plain = None
        with suppress(UsageError):  # outside of __base nothing has a unique name
            plain = located.final_key
            expected = final_key(located, unique_names=context.options.unique_names)
        key = pending.destination_key
        whose = {pending.job_id, pending.task_id} - {"", context.job, attempt}
        if key == expected and not whose:
            continue
        what = f"belongs to {' and '.join(sorted(whose))}" if whose else f"would be published as {key!r}"
        output.problems.append(
            UsageError(
                f"{path} {what}, but for attempt {attempt} of job {context.job}, with "
                f"unique_names={context.options.unique_names}, its final name is {expected!r}; write it "
                "again through task.filesystem, or give storage_options=task.storage_options together with "
                "task.url"
            )
        )
        if whose or key != plain:
            output.pendings.remove(pending)


async def abort_uploads(engine: Engine, pendings: Sequence[Pending]) -> list[MagicError]:
    """Abort uploads, trying each; returns what could not be aborted."""
    uploads = [one for one in pendings if one.is_upload]
    return await run_all(engine, "abort", [Abort(p.destination_key, p.upload_id) for p in uploads])


async def delete_keys(engine: Engine, keys: Sequence[str]) -> list[MagicError]:
    """Delete objects in bulk, trying each batch; returns what could not be deleted."""
    size = engine.store.capabilities.bulk_delete_max
    steps = [Delete(tuple(keys[start : start + size])) for start in range(0, len(keys), size)]
    return await run_all(engine, "delete", steps)


async def run_all(engine: Engine, name: str, steps: Sequence[Step]) -> list[MagicError]:
    """Carry out steps that do not depend on each other, trying each; returns what could not be done."""
    result = await engine.run(Batch(name, steps), stop_on_failure=False)
    return [f.error for f in result.failures if isinstance(f.error, MagicError)]
