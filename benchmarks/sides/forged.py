"""Jobs of magicfs with very many files: what their tasks wrote is made up, all that follows is real."""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import fsspec.asyn

import magicfs
from benchmarks.clock import Clock, peak_mb
from benchmarks.place import CONCURRENCY, Place
from benchmarks.sides.fallbacks import Fallbacks
from magicfs.filesystem import MagicFileSystem
from magicfs.filesystem.tracking import described, name_in, tracker
from magicfs.filesystem.upload import Uploaded
from magicfs.formats.task_commit import TaskCommit
from magicfs.protocol.final_names import final_key
from magicfs.protocol.readback import WRITE_ID
from magicfs.stores.port import Part, Store

__all__ = ["Driver", "Forger", "commits_of"]

_SIZE = 1000
_ETAG = '"0123456789abcdef0123456789abcdef"'


class Forger:
    """Sets jobs up and commits their tasks."""

    def __init__(self, place: Place | None) -> None:
        self._place = place

    def versions(self) -> dict[str, str]:
        return {"magicfs": magicfs.__version__}

    def forge(self, clock: Clock, where: str, files: int, tasks: int, told: str) -> None:  # noqa: ARG002
        """Leave a job and its commits in a local file. The stub completes uploads that nobody created."""
        assert self._place is not None
        _environment(self._place)
        options = _without_credentials(self._place)
        url = f"s3://{self._place.bucket}/{where}"
        job = magicfs.Job(
            url,
            mode="append",
            concurrency=CONCURRENCY,
            storage_options=options,
            options={"tracking": "memory"},
        ).setup()
        each = files // tasks
        commits = [
            _commit(job, number, [f"part-{name:06d}.parquet" for name in range(each)])
            for number in range(tasks)
        ]
        Path(told).write_bytes(pickle.dumps((job, commits)))

    def pickle_task(self, clock: Clock, where: str, told: str) -> None:  # noqa: ARG002
        """Leave a task in a local file, as it comes to a worker. Its job stays open."""
        assert self._place is not None
        _environment(self._place)
        url, options = f"s3://{self._place.bucket}/{where}", _without_credentials(self._place)
        self._job = magicfs.Job(
            url, mode="append", storage_options=options, options={"tracking": "memory"}
        ).setup()
        Path(told).write_bytes(pickle.dumps(self._job.task(0)))

    def partitions(self, clock: Clock, where: str, files: int, partitions: int, tasks: int) -> None:
        """Append to nothing, then replace each of those partitions; in memory."""
        url = f"memory://bench/{where}"
        for mode in ("append", "overwrite_partitions"):
            job = magicfs.Job(url, mode=cast("Any", mode), options={"tracking": "memory"}).setup()
            commits = commits_of(job, files, partitions, tasks)
            with clock(mode):
                report = job.commit(commits)
            assert report.files == files, report
        assert len(job.spec.wrapped().glob(f"bench/{where}/p=*/*")) == files, "the old ones are gone"
        job.spec.wrapped().rm(f"bench/{where}", recursive=True)


class Driver:
    """A process that knows a job by its pickle, and commits it."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._fallbacks = Fallbacks()

    def versions(self) -> dict[str, str]:
        return {"magicfs": magicfs.__version__}

    def commit(self, clock: Clock, where: str, told: str) -> dict[str, Any]:  # noqa: ARG002 - the job knows
        """The job commit; its peak of memory is that of the whole process."""
        _environment(self._place)
        job, commits = pickle.loads(Path(told).read_bytes())  # noqa: S301 - our own
        expected = sum(commit.files for commit in commits)
        with clock("commit"):
            report = job.commit(commits)
        assert report.files == expected, report
        return {"peak_of_process_mb": peak_mb(), "fallbacks": self._fallbacks.taken()}


def commits_of(
    job: magicfs.Job, files: int, partitions: int, tasks: int, body: bytes = b"x" * _SIZE
) -> list[TaskCommit]:
    """Commit tasks that have spread files over all partitions; their uploads are in the store."""
    each = files // tasks
    return [
        _commit(
            job,
            task,
            [f"p={(task * each + n) % partitions:05d}/part-{n:06d}.parquet" for n in range(each)],
            body,
        )
        for task in range(tasks)
    ]


def _commit(job: magicfs.Job, number: int, names: Sequence[str], body: bytes = b"") -> TaskCommit:
    """Commit a task that believes to have written files. With a body, their uploads are in the store."""
    task = job.task(number).setup()
    filesystem = cast("MagicFileSystem", task.filesystem)
    store = job.spec.store()
    magic = [filesystem.locate(f"{task.path}/{name}") for name in names]
    keys = [final_key(one, unique_names=True) for one in magic if one is not None]
    if body:
        uploads = fsspec.asyn.sync(job.spec.loop, _open_uploads, store, keys, body)
    else:
        uploads = [
            Uploaded(key, f"stub-{number}-{place}", _write_id(number, place), (Part(1, _ETAG),), _SIZE)
            for place, key in enumerate(keys)
        ]
    for one, uploaded in zip(magic, uploads, strict=True):
        assert one is not None
        pending = described(store, one.path, uploaded, {"committer_magic_files_created": 1})
        tracker().finished(name_in(store, one.scope), one.path, pending)
    return task.commit()


async def _open_uploads(store: Store, keys: Sequence[str], body: bytes) -> list[Uploaded]:
    made = []
    for place, key in enumerate(keys):
        written = _write_id(hash(key) % 2**32, place)
        upload = await store.create_upload(key, metadata={WRITE_ID: written})
        part = await store.put_part(key, upload, 1, body)
        made.append(Uploaded(key, upload, written, (part,), len(body)))
        if place % 100 == 0:
            await asyncio.sleep(0)
    return made


def _write_id(task: int, place: int) -> str:
    return f"{task:016x}{place:016x}"


def _environment(place: Place) -> None:
    """Credentials do not travel with a pickled job."""
    os.environ["AWS_ACCESS_KEY_ID"] = place.key
    os.environ["AWS_SECRET_ACCESS_KEY"] = place.secret


def _without_credentials(place: Place) -> dict[str, Any]:
    return {name: value for name, value in place.s3fs_options.items() if name not in {"key", "secret"}}
