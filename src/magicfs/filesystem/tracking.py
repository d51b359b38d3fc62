"""What this process knows of the files that it writes under magic paths.

Files are kept by *scope*: the directory of their task attempt, or the magic directory where the layout is
not a committer's, named by ``name_in``. With ``tracking="memory"`` this is the only place that knows a
finished upload, as in Hadoop's ``InMemoryMagicCommitTracker``; with ``tracking="store"`` it knows which files
are still open, which upload a second write of the same path replaced, and what it need not read back.

How a finished upload is remembered until its task commits: in the store, or in this process.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, NewType

from magicfs.errors import (
    FormatError,
    MagicError,
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    Unsupported,
    UsageError,
)
from magicfs.filesystem.upload.memory import Copy
from magicfs.filesystem.upload.stream import NOTHING_TAKEN, Taken
from magicfs.formats import hadoop_uri, pending
from magicfs.formats.document import java_text
from magicfs.formats.footer import carried_by
from magicfs.formats.limits import BUNDLE_SIZE_LIMIT, PENDING_SIZE_LIMIT
from magicfs.formats.pending import EtagFormat, Pending
from magicfs.formats.plain_pending import Body, UploadedPart
from magicfs.formats.statistics import MeanStatistic, Statistics
from magicfs.protocol import paths
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.magic import MAGIC_JOB, MagicPath
from magicfs.protocol.readback import WRITE_ID, is_renamed, write_id_shown
from magicfs.runtime import process_end
from magicfs.runtime.interrupt import held
from magicfs.stores.port import ObjectInfo, PutMode, Store

if TYPE_CHECKING:
    from magicfs.filesystem.upload import Uploaded

MARKER_LENGTH = "x-hadoop-s3a-magic-data-length"
"""User metadata of the marker: the upload's length as decimal text (``X_HEADER_MAGIC_MARKER``)."""

# Hadoop names stores by its own connector's scheme; other stores keep theirs.
_HADOOP_SCHEMES = {"s3": "s3a"}


def write_id_of(pending: Pending) -> str | None:
    """The identity of a file: the write id of an upload, None for one that Hadoop opened; of a file that is
    renamed its ETag, which it keeps.
    """
    if pending.source is not None:
        return pending.source.etag or None
    return pending.extra_data.get(WRITE_ID)


def shown_of(found: ObjectInfo, pending: Pending) -> str | None:
    """The write id that an object shows to be borne by it: the upload's own one if it is its object."""
    if pending.source is not None:
        return pending.source.etag if is_renamed(found.etag, pending.source.etag) else None
    return write_id_shown(
        found.metadata,
        found.etag,
        own=write_id_of(pending),
        upload_id=pending.upload_id,
        length=pending.length,
    )


def marker_length(value: str | None) -> int | None:
    """Decode a marker's length; what is missing, garbled or negative counts as absent, as in Hadoop."""
    if value is None or not value.strip().isascii() or not value.strip().isdigit():
        return None
    return int(value)


_COUNTED: Final = {"committer_magic_files_created": 1}


@dataclass(frozen=True, slots=True)
class MemoryRecorder:
    """Records only in the tracker of this process (``InMemoryMagicCommitTracker``)."""

    store: Store
    path: MagicPath
    exclusive: bool = False  # whether nobody may have written the path yet

    @property
    def _scope(self) -> PlaceName:
        return name_in(self.store, self.path.scope)

    @property
    def wants_copies(self) -> bool:
        # What nobody commits would never be forgotten.
        return self.path.owner is not None and self.path.owner.is_ours

    async def began(self) -> None:
        _open(self._scope, self.path, self.exclusive)

    async def record(self, uploaded: Uploaded) -> None:
        pending = described(self.store, self.path.path, uploaded, _COUNTED)
        scope, path = self._scope, self.path.path
        if not self.wants_copies and (earlier := tracker().find(scope, path)) is not None:
            await _abort_earlier(self.store, self.path, earlier, pending)
            tracker().withdraw(scope, path, earlier.upload_id)
        tracker().finished(scope, path, pending, copy=uploaded.copy)

    async def withdraw(self, identity: str) -> None:
        tracker().withdraw(self._scope, self.path.path, identity)

    def dropped(self) -> None:
        path = self.path.path
        if self.path.owner is not None:
            problem = "was opened and never closed, and was discarded when Python collected it"
            error = UsageError(f"{path} {problem}; close every file, best in a with block")
            tracker().lost(self._scope, path, error)

    def ended(self) -> None:
        tracker().closed(self._scope, self.path.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecorder(MemoryRecorder):
    """Leaves a marker that carries the size, and then a ``.pending`` file (``S3MagicCommitTracker``)."""

    etag_format: EtagFormat  # which generation of Hadoop is to read the file

    async def began(self) -> None:
        if self.exclusive:
            with suppress(ObjectNotFound):
                await self.store.head(self.path.key)
                raise _exists(self.path)
        _open(self._scope, self.path, self.exclusive)

    async def record(self, uploaded: Uploaded) -> None:
        pending = described(self.store, self.path.path, uploaded, _COUNTED)
        put = partial(self.store.put, self.path.pending_key, pending.to_bytes(self.etag_format))
        if self.wants_copies:  # of a task, where nothing counts until all files have both
            record, marked = await asyncio.gather(put(), self._put_marker(pending), return_exceptions=True)
            if isinstance(marked, BaseException):
                raise marked
            if isinstance(record, BaseException):
                raise record
        else:
            await self._put_marker(pending)
            record = await put()
        if self.path.owner is not None:
            tracker().finished(self._scope, self.path.path, pending, record, uploaded.copy)

    async def _put_marker(self, pending: Pending) -> None:
        metadata = {MARKER_LENGTH: str(pending.length)}
        if self.wants_copies:
            await self.store.put(self.path.key, b"", metadata=metadata)
            return
        # What the marker's first writer need not look for, a later one finds.
        try:
            await self.store.put(self.path.key, b"", metadata=metadata, mode=PutMode.CREATE)
        except (ObjectExists, Unsupported):
            await _abort_earlier(self.store, self.path, await _recorded(self.store, self.path), pending)
            await self.store.put(self.path.key, b"", metadata=metadata)

    async def withdraw(self, upload_id: str) -> None:
        tracker().withdraw(self._scope, self.path.path, upload_id)
        await self.store.delete([self.path.pending_key, self.path.key])


def _open(scope: PlaceName, path: MagicPath, exclusive: bool) -> None:
    if not tracker().opened(scope, path.path, exclusive=exclusive):
        raise _exists(path)


def _exists(path: MagicPath) -> ObjectExists:
    hint = "choose another name, or open it with 'wb'"
    return ObjectExists("open", path.path, "it is being written, or was written and is pending", hint=hint)


def described(store: Store, path: str, uploaded: Uploaded, counters: Mapping[str, int]) -> Pending:
    """What a ``.pending`` file or a pending set says of a finished upload.

    ``path``: ``bucket/key`` that the writer opened, for readers only. ``counters``: what the committer counts
    of it, beside bytes and parts.
    """
    now_ms = int(time.time() * 1000)
    return Pending(
        created_ms=now_ms,
        saved_ms=now_ms,
        date=java_text(now_ms),
        upload_id=uploaded.upload_id,
        bucket=store.bucket,
        destination_key=uploaded.key,
        parts=tuple(UploadedPart(part.etag, *(part.checksum or ())) for part in uploaded.parts),
        length=uploaded.length,
        uri=_uri(store, path),
        extra_data={WRITE_ID: uploaded.write_id, **_kept(uploaded.taken)},
        statistics=Statistics(
            counters={
                **counters,
                "committer_bytes_uploaded": uploaded.length,
                "object_multipart_initiated": 1,
                "stream_write_bytes": uploaded.length,
                "stream_write_block_uploads": len(uploaded.parts),
            },
            meanstatistics={
                "stream_write_block_bytes.mean": MeanStatistic(len(uploaded.parts), uploaded.length)
            },
        ),
    )


def described_body(
    store: Store, path: str, key: str, write_id: str, body: Body, length: int, taken: Taken = NOTHING_TAKEN
) -> Pending:
    """What a pending set says of a small file that has no upload."""
    now_ms = int(time.time() * 1000)
    return Pending(
        created_ms=now_ms,
        saved_ms=now_ms,
        date=java_text(now_ms),
        bucket=store.bucket,
        destination_key=key,
        body=body,
        length=length,
        uri=_uri(store, path),
        extra_data={WRITE_ID: write_id, **_kept(taken)},
        statistics=Statistics(counters={"committer_magic_files_created": 1, "stream_write_bytes": length}),
    )


def _kept(taken: Taken) -> dict[str, str]:
    return {**carried_by(taken.footer), **pending.carried_by(taken.checksum)}


def _uri(store: Store, path: str) -> str:
    return hadoop_uri.encode(f"{_HADOOP_SCHEMES.get(store.name, store.name)}://{path}")


BUNDLE_SIZE: Final = BUNDLE_SIZE_LIMIT // 2
"""Bytes of bodies in hand of one task attempt from which they go to the store as a bundle."""
_BODIES_MAX: Final = 8 * BUNDLE_SIZE
"""The same of all attempts of this process."""


PlaceName = NewType("PlaceName", str)
"""What this process calls a directory ``bucket/key`` of one store."""


def name_in(store: Store, path: str) -> PlaceName:
    """The name of a directory ``bucket/key``: two stores may have buckets of one name."""
    return PlaceName(f"{store.identity}{path.removeprefix(store.bucket)}")


def identity_of(pending: Pending) -> str:
    """What tells a file from another write of its path: its upload, or the write id of a body."""
    return pending.upload_id or pending.extra_data.get(WRITE_ID, "")


@dataclass(slots=True)
class Scope:
    """The files of one task attempt that this process wrote."""

    open: dict[str, int] = field(default_factory=dict)
    """Paths of files that are not closed yet, with how many hold each."""
    finished: dict[str, Pending] = field(default_factory=dict)
    """The last finished upload of each path, as it was opened."""
    records: dict[str, ObjectInfo] = field(default_factory=dict)
    """The object of each finished upload's ``.pending`` file, as the store answered its PUT."""
    replaced: list[Pending] = field(default_factory=list)
    """Finished uploads that a later write of the same path replaced."""
    lost: dict[str, MagicError] = field(default_factory=dict)
    """Why files failed once their writer had let go of them, by paths that were not written again."""
    untold: set[str] = field(default_factory=set)
    """Paths of those whose error no later write has raised."""
    bodies: dict[str, bytes] = field(default_factory=dict)
    """By identity, the bodies of small files that are in no bundle yet."""
    leaving: set[str] = field(default_factory=set)
    """Identities of those that are on their way into one."""
    bundles: dict[str, str] = field(default_factory=dict)
    """Keys of bundles in the store, with their ETags."""
    bundles_begun: int = 0
    copies: dict[str, Copy] = field(default_factory=dict)
    """By identity, the bytes of small files that have uploads, as far as they are kept."""
    in_hand: int = 0
    """Bytes of the bodies that are in no bundle, and not on their way into one."""

    def put(self, path: str, pending: Pending) -> None:
        """A file is finished."""
        old = self.finished.get(path)
        if old is not None and identity_of(old) != identity_of(pending):
            if old.body is None:
                self.replaced.append(old)
            self.drop_body(identity_of(old))
            self.copies.pop(identity_of(old), None)
        self.finished[path] = pending
        self.lost.pop(path, None)
        self.untold.discard(path)

    def drop_body(self, identity: str) -> None:
        """Nobody wants the bytes of a small file any more."""
        body = self.bodies.pop(identity, b"")
        if identity not in self.leaving:
            self.in_hand -= len(body)


_NOTHING: Final = Scope()
"""What is known of a scope in which nothing was written; never changed."""


@dataclass(slots=True, eq=False)
class Closing:
    """A file of a task attempt of this process, which goes on once its writer has closed it.

    The ``Background`` of its upload. ``scope`` and ``name`` are those of its attempt and of the file,
    ``earlier`` is an earlier file of that name.
    """

    scope: PlaceName
    name: PlaceName
    path: str
    earlier: Closing | None = None
    task: asyncio.Task[None] | None = None  # loops hold their tasks only weakly
    ended: Future[None] = field(default_factory=Future)

    def check(self) -> None:
        tracker().check(self.scope, self.path)

    async def begin(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        while len(found := tracker().closing(self.scope)) >= _AT_ONCE:
            await asyncio.wrap_future(found[0].ended)
        tracker().closes(self, work())

    async def turn(self) -> None:
        if self.task is None:
            await settled(self.name)
        elif self.earlier is not None:
            await asyncio.wrap_future(self.earlier.ended)


class Tracker:
    """Scopes by name, safe for threads. Every method is quick and does no I/O."""

    def __init__(self) -> None:
        self._scopes: dict[PlaceName, Scope] = {}
        self._closing: dict[PlaceName, Closing] = {}
        self._lock = threading.Lock()

    def opened(self, scope: PlaceName, path: str, *, exclusive: bool = False) -> bool:
        """A file is open; False if it shall be the only one of its path and is not, and nothing is noted."""
        with self._lock:
            known = self._scopes.get(scope)
            if exclusive and known is not None and (path in known.open or path in known.finished):
                return False
            counts = self._scopes.setdefault(scope, Scope()).open
            counts[path] = counts.get(path, 0) + 1
            return True

    def closed(self, scope: PlaceName, path: str) -> None:
        with self._lock:
            found = self._scopes.get(scope)
            if found is None:
                return
            left = found.open.get(path, 0) - 1
            if left > 0:
                found.open[path] = left
            else:
                found.open.pop(path, None)
            self._drop_if_empty(scope)

    def lost(self, scope: PlaceName, path: str, error: MagicError) -> None:
        """A file has failed, and its writer may believe that it is there."""
        with self._lock:
            self._scopes.setdefault(scope, Scope()).lost[path] = error

    def check(self, scope: PlaceName, path: str) -> None:
        """Raise why a file of a scope has failed, other than that of the path; once for each."""
        with self._lock:
            found = self._scopes.get(scope, _NOTHING)
            if not (untold := found.untold - {path}):
                return
            first = min(untold)
            found.untold.discard(first)
            error = found.lost[first]
        raise error

    def closes(self, closing: Closing, work: Coroutine[object, object, None]) -> None:
        """A file goes on in the background of the running loop."""
        closing.ended.set_running_or_notify_cancel()  # who waits for it cannot cancel it
        with self._lock:
            closing.earlier = self._closing.get(closing.name)
            self._closing[closing.name] = closing
        with held():  # no interruption of the call in which it begins is about it
            closing.task = asyncio.get_running_loop().create_task(work)
        closing.task.add_done_callback(partial(self._has_closed, closing))

    def _has_closed(self, closing: Closing, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        with self._lock:
            if self._closing.get(closing.name) is closing:
                del self._closing[closing.name]
            if task.cancelled() or error is not None:
                found = self._scopes.setdefault(closing.scope, Scope())
                found.lost[closing.path] = _named(closing.path, error)
                found.untold.add(closing.path)
        closing.earlier = None
        closing.ended.set_result(None)

    def closing(self, name: PlaceName | None = None) -> list[Closing]:
        """The files of a name and below it that go on in the background; None for all."""
        below = "" if name is None else f"{name}/"
        with self._lock:
            return [one for one in self._closing.values() if f"{one.name}/".startswith(below)]

    def left_to(self, child: Tracker) -> None:
        """Have a forked child know which files it cannot commit, because this process was not done."""
        for scope, known in self._scopes.items():
            for path, error in known.lost.items():
                child.lost(scope, path, error)
        for one in self._closing.values():
            problem = "was still being uploaded by another process when this one was forked from it"
            child.lost(one.scope, one.path, UsageError(f"{one.path} {problem}; commit the task there"))

    def finished(
        self,
        scope: PlaceName,
        path: str,
        pending: Pending,
        record: ObjectInfo | None = None,
        copy: Copy | None = None,
    ) -> None:
        """A file's upload is finished; an earlier one of the same path is replaced."""
        with self._lock:
            found = self._scopes.setdefault(scope, Scope())
            found.put(path, pending)
            if record is not None:
                found.records[path] = record
            if copy is not None:
                found.copies[identity_of(pending)] = copy

    def copy(self, scope: PlaceName, path: str) -> tuple[Copy, ObjectInfo | None] | None:
        """The bytes of a small file that has an upload, and the object of its ``.pending``, if it has one."""
        with self._lock:
            found = self._scopes.get(scope, _NOTHING)
            pending = found.finished.get(path)
            copy = None if pending is None else found.copies.get(identity_of(pending))
            return None if copy is None else (copy, found.records.get(path))

    def keep(self, scope: PlaceName, path: str, pending: Pending, body: bytes) -> bool:
        """A small file is finished; an earlier one of the same path is replaced.

        Returns whether so many bodies are in hand that they should leave for a bundle.
        """
        with self._lock:
            found = self._scopes.setdefault(scope, Scope())
            found.put(path, pending)
            found.bodies[identity_of(pending)] = body
            found.in_hand += len(body)
            if found.in_hand >= BUNDLE_SIZE:
                return True
            return sum(one.in_hand for one in self._scopes.values()) >= _BODIES_MAX

    def rename(self, scope: PlaceName, path: str, new_path: str, pending: Pending) -> bool:
        """Give a small file another path, where ``pending`` is to stand; False if it is gone."""
        with self._lock:
            found = self._scopes.get(scope, _NOTHING)
            old = found.finished.get(path)
            if old is None or identity_of(old) != identity_of(pending):
                return False
            del found.finished[path]
            found.put(new_path, pending)
            return True

    def body(self, scope: PlaceName, pending: Pending) -> bytes | None:
        """The bytes of a small file that is in no bundle yet."""
        with self._lock:
            return self._scopes.get(scope, _NOTHING).bodies.get(identity_of(pending))

    def leave(self, scope: PlaceName) -> tuple[int, dict[str, bytes]]:
        """Take bodies out of hand, at most as many as fit into a bundle; returns its number and the bodies,
        which ``arrived`` or ``came_back`` must follow.
        """
        with self._lock:
            found = self._scopes.get(scope, Scope())
            taken, size = dict[str, bytes](), 0
            for one, body in found.bodies.items():
                if one in found.leaving:
                    continue
                if taken and size + len(body) > 2 * BUNDLE_SIZE:
                    break
                taken[one], size = body, size + len(body)
            found.leaving |= taken.keys()
            found.in_hand -= size
            found.bundles_begun += bool(taken)
            return found.bundles_begun, taken

    def arrived(self, scope: PlaceName, offsets: Mapping[str, int], key: str, etag: str) -> None:
        """Bodies are in a bundle now, each at its offset there."""
        with self._lock:
            found = self._scopes.get(scope)
            if found is None:
                return
            found.bundles[key] = etag
            for path, pending in found.finished.items():
                if pending.body is not None and (offset := offsets.get(identity_of(pending))) is not None:
                    found.finished[path] = replace(pending, body=Body(key, offset, pending.body.sha256))
            for one in offsets:
                found.bodies.pop(one, None)
            found.leaving -= offsets.keys()

    def came_back(self, scope: PlaceName, taken: Collection[str]) -> None:
        """Bodies did not come into a bundle, and are in hand again."""
        with self._lock:
            if (found := self._scopes.get(scope)) is not None:
                found.leaving -= set(taken)
                found.in_hand += sum(len(found.bodies.get(one, b"")) for one in taken)

    def bundle(self, scope: PlaceName, key: str) -> str:
        """The ETag of a bundle; empty if this process has not written it."""
        with self._lock:
            return self._scopes.get(scope, _NOTHING).bundles.get(key, "")

    def withdraw(self, scope: PlaceName, path: str, identity: str) -> None:
        """Forget a finished file, if it is still the one of its path."""
        with self._lock:
            found = self._scopes.get(scope)
            if found is not None and path in found.finished and identity_of(found.finished[path]) == identity:
                del found.finished[path]
                found.records.pop(path, None)
                found.copies.pop(identity, None)
                found.drop_body(identity)
                self._drop_if_empty(scope)

    def find(self, scope: PlaceName, path: str) -> Pending | None:
        with self._lock:
            return self._scopes.get(scope, _NOTHING).finished.get(path)

    def below(self, name: PlaceName, path: str) -> list[dict[str, Pending]]:
        """The finished uploads of a path, of that name, and below it; for each scope by path."""
        with self._lock:
            found = [
                {file: one for file, one in scope.finished.items() if f"{file}/".startswith(f"{path}/")}
                for scoped, scope in self._scopes.items()
                if f"{name}/".startswith(f"{scoped}/") or f"{scoped}/".startswith(f"{name}/")
            ]
        return [files for files in found if files]

    def snapshot(self, scope: PlaceName) -> Scope:
        """A copy of what is known of a scope."""
        with self._lock:
            found = self._scopes.get(scope, Scope())
            return Scope(
                dict(found.open),
                dict(found.finished),
                dict(found.records),
                list(found.replaced),
                dict(found.lost),
            )

    def take(self, scope: PlaceName) -> Scope:
        """What is known of a scope, which is forgotten."""
        with self._lock:
            return self._scopes.pop(scope, Scope())

    def forget(self, prefix: str) -> None:
        """Forget every scope whose name begins with the prefix: its job has ended."""
        with self._lock:
            for scope in [scope for scope in self._scopes if scope.startswith(prefix)]:
                del self._scopes[scope]

    def _drop_if_empty(self, scope: PlaceName) -> None:
        one = self._scopes[scope]
        if not (one.open or one.finished or one.replaced or one.lost or one.bundles_begun):
            del self._scopes[scope]


_TRACKER = Tracker()


def tracker() -> Tracker:
    """The tracker of this process."""
    return _TRACKER


def _forget_after_fork() -> None:
    # The parent's files are not the child's: both would commit or abort them.
    global _TRACKER
    parent, _TRACKER = _TRACKER, Tracker()
    parent.left_to(_TRACKER)


process_end.after_fork_in_child(_forget_after_fork)


_AT_ONCE: Final = 32
"""Files of one task that go on in the background at most: as many as ``directory`` uploads at once."""


async def settled(name: PlaceName) -> None:
    """Wait for the end of all that was closed under a name or below it, by any thread."""
    for one in tracker().closing(name):
        await asyncio.wrap_future(one.ended)


def _named(path: str, error: BaseException | None) -> MagicError:
    """What to say of a file that has failed, with the path that its writer knows."""
    if isinstance(error, MagicError):
        if path not in error.message:
            error.message = f"{path}: {error.message}"
        return error.with_traceback(None)  # which holds what was written
    problem = UsageError(f"{path} was not written completely ({error!r}); write it again")
    problem.__cause__ = error
    return problem


async def _recorded(store: Store, path: MagicPath) -> Pending | None:
    """What the record at a path describes; None for no record, or one that cannot be read."""
    with suppress(ObjectNotFound, PermissionDenied, FormatError):
        raw = await store.get(path.pending_key, size_max=PENDING_SIZE_LIMIT + 1)
        return Pending.from_bytes(f"{store.bucket}/{path.pending_key}", raw)
    return None


async def _abort_earlier(store: Store, path: MagicPath, earlier: Pending | None, later: Pending) -> None:
    """Abort the upload of an earlier write, if the later one is to have its name.

    While the path is being published the earlier one is left to that, and only the later one waits.
    """
    if earlier is None or earlier.upload_id == later.upload_id:
        return
    with suppress(PermissionDenied):  # of who may only write; magicfs uploads shows the upload
        if earlier.destination_key == later.destination_key and not await _is_being_published(store, path):
            await store.abort_upload(earlier.destination_key, earlier.upload_id)


async def _is_being_published(store: Store, path: MagicPath) -> bool:
    from magicfs.formats.gate import read_job
    from magicfs.formats.limits import JOB_OBJECT_SIZE_LIMIT

    prefix = paths.join(path.destination, MAGIC_JOB)
    async for directory in store.list_directories(prefix):
        job = JobId(directory.removeprefix(prefix).rstrip("/"))
        layout = WorkLayout(path.destination, job)
        with suppress(ObjectNotFound, FormatError):
            raw = await store.get(layout.job_object_key, size_max=JOB_OBJECT_SIZE_LIMIT + 1)
            own_path = read_job(store.bucket, layout.job_object_key, raw, layout).options.places.own_path
            if own_path is not None and (path.key == own_path or paths.is_under(path.key, own_path)):
                return True
    return False
