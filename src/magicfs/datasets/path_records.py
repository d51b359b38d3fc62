"""What is recorded below a user's own magic path, and whether it can be published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from magicfs.engine import Engine
from magicfs.errors import FormatError, ObjectNotFound, UsageError
from magicfs.filesystem.tracking import name_in, shown_of, tracker, write_id_of
from magicfs.formats.pending import Pending
from magicfs.protocol import paths
from magicfs.protocol.magic import PENDING, PENDING_SET, MagicPath
from magicfs.protocol.readback import etag_of_parts
from magicfs.runtime.parallel import drained, raise_first
from magicfs.transaction import attempt_output
from magicfs.transaction.attempt_output import TaskOutput

__all__ = ["PathRecords", "check_closed", "check_twice", "find_records", "forget", "is_of", "visible_uploads"]

_JOB = "job-"
_LOOKS = 3


@dataclass(slots=True)
class PathRecords:
    """What is recorded below a path."""

    keys: list[str] = field(default_factory=list)  # records and markers
    output: TaskOutput = field(default_factory=TaskOutput)
    remembered: list[tuple[str, Pending]] = field(default_factory=list)
    """Files that only this process knows, by path."""

    @property
    def pendings(self) -> list[Pending]:
        return [*self.output.pendings, *(pending for _, pending in self.remembered)]


async def find_records(engine: Engine, magic: MagicPath) -> PathRecords:
    """Look below a path. UsageError: it is a job's, or a file is open. FormatError: a record is wrong.

    Looks again if a record goes while it is read: another call publishes or discards the path.
    """
    found = await _look(engine, magic)
    for _ in range(_LOOKS):
        if not any(isinstance(one, ObjectNotFound) for one in found.output.problems):
            break
        found = await _look(engine, magic)
    raise_first(found.output.problems)
    opened = [((p.filename or "").removesuffix(PENDING), p) for p in found.output.pendings]
    for path, pending in (*opened, *found.remembered):
        _check_name(magic.below(path.partition("/")[2]), pending)
    return found


async def _look(engine: Engine, magic: MagicPath) -> PathRecords:
    store, found = engine.store, PathRecords()
    async for info in store.list(magic.key):
        if info.key in {magic.key, magic.pending_key} or paths.is_under(info.key, magic.key):
            found.keys.append(info.key)
    for key in found.keys:
        _refuse_job(magic, magic.below(key))
    known = tracker().snapshot(name_in(store, magic.scope))
    for path in sorted(known.open):
        if is_of(path, magic):
            raise UsageError(f"{path} is still open; nothing was changed; close it first, or discard it")
    found.remembered = [
        (path, pending)
        for path, pending in sorted(known.finished.items())
        if is_of(path, magic) and f"{path}{PENDING}".partition("/")[2] not in found.keys
    ]
    await attempt_output.read_pending(engine, found.keys, store.bucket, [magic.destination], found.output)
    return found


def is_of(path: str, magic: MagicPath) -> bool:
    """Whether a path is the asked one, or lies below it."""
    return path == magic.path or paths.is_under(path, magic.path)


def _refuse_job(asked: MagicPath, found: MagicPath) -> None:
    """Refuse a path in which a job keeps its work."""
    first = found.children[0] if found.children else ""
    is_work = found.key.endswith(PENDING_SET) or found.children[1:] == ("job.json",)
    if found.owner is None and not (first.startswith(_JOB) and is_work):
        return
    job, destination = first.removeprefix(_JOB), f"{found.bucket}/{'/'.join(found.parents)}".rstrip("/")
    raise UsageError(
        f"{asked.path} holds work of job {job}, as {found.path} shows; nothing was changed; end the job "
        f"with magicfs recover, the URL of {destination}, --job {job} and --commit or --abort"
    )


def _check_name(path: MagicPath, pending: Pending) -> None:
    if pending.destination_key != path.final_key:
        raise FormatError(
            f"{path.path}{PENDING}",
            "destinationKey",
            f"is {pending.destination_key!a}, and the path means {path.final_key!a}; nothing was changed; "
            "somebody has moved or copied the record",
        )


def forget(engine: Engine, magic: MagicPath, found: PathRecords) -> None:
    """Have this process no longer remember files that are published or discarded."""
    for path, pending in found.remembered:
        tracker().withdraw(name_in(engine.store, magic.scope), path, pending.upload_id)


async def visible_uploads(engine: Engine, pendings: Sequence[Pending]) -> set[str]:
    """Ids of uploads whose files are visible already."""
    found: set[str] = set()

    async def look(pending: Pending) -> bool:
        try:
            info = await engine.store.head(pending.destination_key)
        except ObjectNotFound:
            return True
        write_id = write_id_of(pending)
        if write_id is None:
            same = info.etag == etag_of_parts(part.etag for part in pending.parts)
        else:
            same = shown_of(info, pending) == write_id
        if same:
            found.add(pending.upload_id)
        return True

    await drained(pendings, look, engine.concurrency)
    return found


def check_closed(magic: MagicPath, found: PathRecords) -> None:
    """Raise UsageError for a file whose close has failed."""
    described = {key.removesuffix(PENDING) for key in found.keys if key.endswith(PENDING)}
    for key in found.keys:
        if not key.endswith((PENDING, "/")) and key not in described:
            raise UsageError(
                f"{magic.bucket}/{key} has no record of its upload, because closing the file failed; "
                "nothing was changed; write it again, or discard it"
            )


def check_twice(pendings: Sequence[Pending]) -> None:
    """Raise UsageError if two files have one final name."""
    seen: dict[str, Pending] = {}
    for pending in pendings:
        other = seen.setdefault(pending.destination_key, pending)
        if other is not pending:
            raise UsageError(
                f"{other.uri} and {pending.uri} have the same final name, {pending.destination_key}; "
                "nothing was changed; publish one of the directories and discard the other"
            )
