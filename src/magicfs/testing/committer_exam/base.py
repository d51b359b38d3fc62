"""What every part of the committer exam builds on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from fsspec.asyn import sync

from magicfs.formats.job_object import JobObject
from magicfs.formats.success import SuccessData
from magicfs.job import Job
from magicfs.manifests import READING, view
from magicfs.protocol.paths import prefix_of
from magicfs.stores.conditions import Conditions, assume, remembered
from magicfs.task import Task
from magicfs.task_commit import TaskCommit
from magicfs.testing.committer_exam.bench import Bench

__all__ = ["DESTINATION", "Examined", "body", "committed"]

DESTINATION = "wäre house/sales%201 +#"

_MODES: dict[str, dict[str, Any]] = {
    "store": {},
    "store-plain-names": {"unique_names": False},
    "store-old-layout": {"layout": "__magic"},
    "memory": {"tracking": "memory"},
    "memory-old-layout": {"tracking": "memory", "layout": "__magic"},
}

# What a server honours is tried once, not for each of its buckets.
_honoured: dict[str, Conditions] = {}


class Examined:
    """A committer on one store. The subclass names its ``subject`` and has a fixture ``bench``.

    Attributes:
        exam: What the summary calls the exam.
        subject: What the summary calls the committer and its store.
        required: Whether a skipped test fails the run.
        committer: Name of the committer.
        conflict: Conflict mode of the jobs.
        modes: In which ways of keeping its work the committer is examined.
        cuts: After how many completed files of three a driver dies.
        seeds: Of which hostile names are made.
        exact_clock: Whether of two objects the one that was written later always shows a later time.
    """

    exam: ClassVar[str] = "committer exam"
    subject: ClassVar[str]
    required: ClassVar[bool] = True
    committer: ClassVar[str] = "magic"
    conflict: ClassVar[Any] = "append"
    modes: ClassVar[tuple[str, ...]] = tuple(_MODES)
    cuts: ClassVar[tuple[int, ...]] = (0, 1, 2, 3)
    seeds: ClassVar[tuple[int, ...]] = (20261121, 7, 17112)
    exact_clock: ClassVar[bool] = False

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run tests that ask for ``mode`` or ``stored_mode`` once in every one of ``modes``.

        The arguments of a job: ``mode`` is any way to keep its work, ``stored_mode`` one in which a listing
        shows what tasks have committed. Tests that ask for ``cut`` or ``seed`` run once for every one of
        ``cuts`` or ``seeds``.
        """
        stored = [name for name in self.modes if name.startswith("store")]
        for argument, names in (("mode", list(self.modes)), ("stored_mode", stored)):
            if argument in metafunc.fixturenames:
                metafunc.parametrize(argument, [_MODES[name] for name in names], ids=names)
        for argument, values in (("cut", self.cuts), ("seed", self.seeds)):
            if argument in metafunc.fixturenames:
                metafunc.parametrize(argument, values)

    def job(self, bench: Bench, destination: str = DESTINATION, **options: Any) -> Job:
        """A job that is set up."""
        given = {"committer": self.committer, "conflict": self.conflict, **bench.options(), **options}
        job = Job(f"{bench.url}/{destination}", **given)
        store, kind = job.spec.store(), type(bench).__name__ + bench.server_name
        if kind in _honoured:
            assume(store, _honoured[kind])
        job.setup()
        if (seen := remembered(store)) is not None:
            _honoured[kind] = seen
        return job

    def write(self, task: Task, files: Mapping[str, bytes]) -> None:
        """Write files, many at once, below a task's path."""
        task.filesystem.pipe({f"{task.path}/{name}": content for name, content in files.items()})

    def run_task(self, job: Job, number: int, *names: str) -> TaskCommit:
        """Run one task that writes the named files, one row each."""
        with job.task(number) as task:
            self.write(task, {name: body(number, name) for name in names})
        return committed(task)

    def published(self, bench: Bench, destination: str = DESTINATION) -> dict[str, bytes]:
        """Body by key below the destination of everything but work objects, manifests and ``_SUCCESS``."""
        prefix = prefix_of(destination)
        found = {key[len(prefix) :]: key for key in bench.listed(prefix)}
        return {
            name: bench.read(key)
            for name, key in found.items()
            if name != "_SUCCESS" and not name.startswith(("__magic", "_magicfs/", "_temporary/"))
        }

    def rows(self, bench: Bench, destination: str = DESTINATION) -> Counter[str]:
        """How often each row is there."""
        return Counter(
            row for content in self.published(bench, destination).values() for row in content.decode().split()
        )

    def success(self, bench: Bench, destination: str = DESTINATION) -> SuccessData:
        """What ``_SUCCESS`` says."""
        key = f"{prefix_of(destination)}_SUCCESS"
        return SuccessData.from_bytes(key, bench.read(key))

    def work(self, bench: Bench, destination: str = DESTINATION) -> list[str]:
        """Keys of work objects."""
        return bench.listed(f"{prefix_of(destination)}__magic")

    def sets(self, bench: Bench) -> list[str]:
        """Keys of pending sets among the work objects."""
        return [key for key in self.work(bench) if key.endswith(".pendingset")]

    def job_object(self, bench: Bench, job: Job) -> JobObject:
        """What the job says of itself in the store."""
        key = job.spec.work_layout.job_object_key
        return JobObject.from_bytes(key, bench.read(key))

    def assert_nothing_left(self, bench: Bench, destination: str = DESTINATION) -> None:
        """No pending upload, no work object, and beside the pointer only manifests that it leads to."""
        assert not bench.pending(prefix_of(destination))
        assert not self.work(bench, destination)
        assert bench.listed(f"{prefix_of(destination)}_magicfs") == self.manifests(bench, destination)

    def assert_only_set_up(self, bench: Bench, job: Job) -> None:
        """No pending upload, and of work objects only the job object."""
        assert not bench.pending(prefix_of(job.spec.location.key))
        assert self.work(bench, job.spec.location.key) == [job.spec.work_layout.job_object_key]

    def manifests(self, bench: Bench, destination: str = DESTINATION) -> list[str]:
        """The keys of the pointer and of all manifests that it leads to, sorted, read without our formats."""
        directory = f"{prefix_of(destination)}_magicfs"
        pointer = f"{directory}/current.json"
        if pointer not in bench.listed(directory):
            return []
        found, job = [pointer], json.loads(bench.read(pointer))["jobId"]
        while job is not None:
            found.append(f"{directory}/{job}.json")
            job = json.loads(bench.read(found[-1]))["previous"]
        return sorted(found)

    def manifested(self, job: Job) -> set[str]:
        """The files that a reader of the manifests sees, relative to the job's destination."""
        found = sync(job.spec.loop, view, job.spec.store(), job.spec.location.key, READING)
        return set(found.files) if found is not None else set()


def body(task: int, name: str) -> bytes:
    """One row that no other file has."""
    return f"{task}:{name.encode().hex()}\n".encode()


def rows_of(*files: tuple[int, str]) -> Counter[str]:
    """The rows of files, by task and name."""
    return Counter(body(task, name).decode().strip() for task, name in files)


def committed(task: Task) -> TaskCommit:
    """The commit of a task that has one."""
    commit = task.committed
    assert commit is not None
    return commit
