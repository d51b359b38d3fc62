"""Stores and machines that are not as they should be."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar
from unittest import mock

import magicfs
from magicfs.errors import CommitUnfinished, PermissionDenied
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World
from magicfs.stores.port import Store
from magicfs.testing.store_faults import Fault, Kind
from proofs.mistakes.user import Rows, User

__all__ = ["GROUP", "MISTAKES"]

GROUP = "Stores and machines"
_DAY_S = 86_400
_T = TypeVar("_T")


class _Policy(DelegatingStore):
    """A store whose policy forbids some requests."""

    def __init__(self, inner: Store, forbidden: frozenset[str]) -> None:
        super().__init__(inner)
        self._forbidden = forbidden

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        if operation in self._forbidden:
            raise PermissionDenied(operation, f"{self.bucket}/{key}", "forbidden by the bucket's policy")
        return await request()


class _Forbidding(MemoryFileSystem):
    def __init__(self, *forbidden: str) -> None:
        super().__init__()
        self._forbidden = frozenset(forbidden)

    def store(self, bucket: str) -> Store:
        return _Policy(super().store(bucket), self._forbidden)


def no_delete(user: User) -> Rows:
    user.publish(
        {"new.txt": "new"}, "overwrite", filesystem=_Forbidding("delete_all_matching", "delete_matching")
    )
    return ["new"]


def no_list_uploads(user: User) -> Rows:
    user.publish({"new.txt": "new"}, filesystem=_Forbidding("list_uploads"))
    return ["old", "new"]


def no_abort(user: User) -> Rows:
    with suppress(ValueError), user.job(filesystem=_Forbidding("abort_upload")) as job, job.task(0) as task:
        user.write(task, {"a.txt": "new"})
        raise ValueError("of the user")
    user.told += [f"{len(user.uploads())} upload is pending"]
    return ["old"]


def no_get(user: User) -> Rows:
    user.publish({"new.txt": "new"}, filesystem=_Forbidding("get"))
    return ["old", "new"]


def silent_for_a_moment(user: User) -> Rows:
    fault = Fault(Kind.THROTTLE, operation="complete_upload", times=2)
    user.publish({"new.txt": "new"}, filesystem=user.failing(fault))
    return ["old", "new"]


def reply_lost(user: User) -> Rows:
    user.publish(
        {"new.txt": "new"}, filesystem=user.failing(Fault(Kind.REPLY_LOST, operation="complete_upload"))
    )
    return ["old", "new"]


def clock_a_day_ahead(user: User) -> Rows:
    with mock.patch("time.time", side_effect=lambda now=time.time: now() + _DAY_S):
        user.publish({"a.txt": "new 1"})
    user.publish({"b.txt": "new 2"})
    magicfs.Dataset(user.url).recover()
    return ["old", "new 1", "new 2"]


def newer_job_object(user: User) -> Rows:
    job = user.job().setup()
    with job.task(0) as task:
        user.write(task, {"a.txt": "new"})
    for key in user.keys("/job.json"):
        body = json.loads(_read(user, key))
        user.put(key, json.dumps(body | {"format": "magicfs.job/99"}))
    user.publish({"new.txt": "new"}, "overwrite")
    return ["new"]


def no_conditional_writes(user: User) -> Rows:
    world = World(ignores=frozenset({"put_if_absent", "put_if_match"}))
    world.create_bucket(user.bucket)
    user.publish({"new.txt": "new"}, filesystem=MemoryFileSystem(world=world))
    return ["old", "new"]


def no_manifest(user: User) -> Rows:
    refused = Fault(Kind.ERROR_BEFORE, operation="put", prefix="sales/_magicfs/", times=None)
    try:
        user.publish({"new.txt": "new"}, filesystem=user.failing(refused))
    except CommitUnfinished as error:
        user.told.append(f"CommitUnfinished: {error}")
    magicfs.Dataset(user.url).recover()
    return ["old", "new"]


def own_magic_path(user: User) -> Rows:
    from magicfs import MagicFileSystem

    filesystem = MagicFileSystem(target_protocol="memory")
    filesystem.pipe_file(f"{user.bucket}/sales/__magic/by-hand/__base/a.txt", b"new\n")
    report = magicfs.Dataset(user.url).recover()
    user.told += [f"magicfs recover: {len(report.jobs)} jobs"]
    return ["old", "new"]


def _read(user: User, key: str) -> bytes:
    return asyncio.run(user.store.get(key))


MISTAKES = {
    "the policy forbids deleting, and an `overwrite` is published": no_delete,
    "the policy forbids listing uploads": no_list_uploads,
    "the policy forbids aborting uploads, and a task raises": no_abort,
    "the policy forbids reading": no_get,
    "the store is throttled in the commit": silent_for_a_moment,
    "an answer is lost in the commit": reply_lost,
    "the clock of one machine is a day ahead": clock_a_day_ahead,
    "a newer magicfs has an open job at the destination, and an older one replaces": newer_job_object,
    "a store that ignores conditional writes": no_conditional_writes,
    "manifests cannot be written once the files are visible, and `magicfs recover` follows": no_manifest,
    "a magic path of one's own, which nobody publishes": own_magic_path,
}
