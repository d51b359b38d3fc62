"""What every part of the committer exam builds on."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest
from fsspec.asyn import sync

from magicfs.committers.registry import committer_info
from magicfs.formats.job_object import JobObject
from magicfs.formats.success import SuccessData
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.manifests.chain import READING, view
from magicfs.protocol.paths import prefix_of
from magicfs.stores.conditions import Conditions, assume, remembered
from proofs.committer_exam.bench import Bench
from proofs.committer_exam.places import Place, place_of
from proofs.committer_exam.selection import select
from proofs.scenes.arranged import arranged
from proofs.scenes.hadoop_form import in_form

__all__ = ["DESTINATION", "Examined", "body", "committed"]

DESTINATION = "wäre house/sales%201 +#"

# What a server honours is tried once, not for each of its buckets.
_honoured: dict[str, Conditions] = {}


class Examined:
    """A committer on one store. The subclass names its ``subject`` and has a fixture ``bench``.

    Attributes:
        exam: What the summary calls the exam.
        subject: What the summary calls the committer and its store.
        required: Whether a skipped test fails the run.
        committer: Name of the committer.
        mode: Mode of the jobs.
        modes: In which ways of keeping its work the committer is examined; None for all that it has.
        cuts: After how many completed files of three a driver dies.
        seeds: Of which hostile names are made.
        exact_clock: Whether of two objects the one that was written later always shows a later time.
        left_out: Tests that do not concern the committer, and for whom they are.
        place: Where attempts write.
    """

    exam: ClassVar[str] = "committer exam"
    subject: ClassVar[str]
    required: ClassVar[bool] = True
    committer: ClassVar[str] = "magic"
    mode: ClassVar[Any] = "append"
    modes: ClassVar[tuple[str, ...] | None] = None
    cuts: ClassVar[tuple[int, ...]] = (0, 1, 2, 3)
    seeds: ClassVar[tuple[int, ...]] = (20261121, 7, 17112)
    exact_clock: ClassVar[bool] = False
    left_out: ClassVar[Mapping[str, str]] = {}
    place: Place
    keeps_small_files: bool

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls.left_out = select(cls, cls.committer)

    @classmethod
    def kind_of_place(cls) -> type[Place]:
        """Where attempts of the committer write."""
        return place_of(committer_info(cls.committer).writes)

    @classmethod
    def examined_modes(cls) -> dict[str, Mapping[str, Any]]:
        """The ways of keeping its work in which the committer is examined, as options of a job."""
        modes = cls.kind_of_place().modes
        return {name: modes[name] for name in (cls.modes or modes)}

    @classmethod
    def bulk_modes(cls) -> list[tuple[str, Mapping[str, Any]]]:
        """Those in which jobs of many files run."""
        bulk, modes = cls.kind_of_place().bulk, cls.examined_modes()
        return [(name, modes[name]) for name in bulk if name in modes]

    @classmethod
    def cheapest_mode(cls) -> Mapping[str, Any]:
        """The one of the committer that makes the fewest requests."""
        kind = cls.kind_of_place()
        return kind.modes[kind.bulk[-1]]

    @classmethod
    def its_modes(cls) -> tuple[str, ...]:
        """The modes of the committer."""
        return committer_info(cls.committer).modes

    @classmethod
    def replacing(cls) -> tuple[str, ...]:
        """Those of them that replace."""
        return tuple(name for name in cls.its_modes() if name.startswith("overwrite"))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run tests once for each value of some arguments.

        ``way`` is any way to keep its work, as options of a job; ``stored_mode`` one in which a listing
        shows what tasks have committed; ``kept`` the same without those that only change names and layout.
        ``mode`` is any mode of the committer, ``replacing`` one that replaces; ``cut`` and
        ``seed`` are those of ``cuts`` and ``seeds``.
        """
        modes = self.examined_modes()
        stored = [name for name, options in modes.items() if options.get("tracking") != "memory"]
        kept = [name for name in stored if name in {"store", "cluster"}]
        for argument, names in (("way", list(modes)), ("stored_mode", stored), ("kept", kept)):
            if argument in metafunc.fixturenames:
                metafunc.parametrize(argument, [modes[name] for name in names], ids=names)
        for argument, values in (
            ("mode", self.its_modes()),
            ("replacing", self.replacing()),
            ("cut", self.cuts),
            ("seed", self.seeds),
        ):
            if argument in metafunc.fixturenames:
                metafunc.parametrize(argument, values)

    @pytest.fixture(autouse=True)
    def _at_a_place(self) -> Iterator[None]:
        self.place = self.kind_of_place()()
        self.keeps_small_files = False
        yield
        self.place.close()

    def job(self, bench: Bench, destination: str = DESTINATION, **options: Any) -> Job:
        """A job that is set up."""
        self.keeps_small_files = "small_files" in options
        form = options.pop("form", {})
        given = {"committer": self.committer, "mode": self.mode, **bench.options(), **options}
        given["committer_options"] = self.place.options() | dict(given.get("committer_options", {}))
        job = in_form(Job(f"{bench.url}/{destination}", **arranged(**given)), **form)
        store, kind = job.spec.store(), type(bench).__name__ + bench.server_name
        if kind in _honoured:
            assume(store, _honoured[kind])
        job.setup()
        if (seen := remembered(store)) is not None:
            _honoured[kind] = seen
        return job

    # -- what task attempts do -------------------------------------------------------------------------

    def write(self, task: Task, files: Mapping[str, bytes]) -> None:
        """Write files, many at once, below a task's path."""
        self.place.write(task, files)

    def uploads_of(self, files: int) -> int:
        """How many uploads as many files are that an attempt has written and not committed."""
        return self.waiting(files) if self.place.is_uploaded_at_once else 0

    def waiting(self, files: int) -> int:
        """How many uploads as many files of a committed task are: none if they ride in a bundle, or are
        renamed.
        """
        return 0 if self.keeps_small_files or not self.place.makes_uploads else files

    def untold(self, way: Mapping[str, Any], files: int) -> int:
        """Of as many uploads of a committed task, how many nobody can find who knows only the store."""
        in_cluster = "cluster_directory" in way.get("committer_options", {})
        return files if in_cluster and way.get("unique_names") is False else 0

    def hidden(self, way: Mapping[str, Any], files: int) -> int:
        """The same where listings leave out an upload while an object has its key.

        Then only the set of its task names it, if that lies at the destination.
        """
        in_cluster = "cluster_directory" in way.get("committer_options", {})
        return files if in_cluster or way.get("tracking") == "memory" else 0

    def assert_swept(self, bench: Bench, aborted: int, left: int, rivals: int) -> None:
        """A sweep has aborted what was left.

        Where uploads of one name share a list, whoever publishes the name drops the others: of those that
        had such names some, or all, were gone already.
        """
        left = self.waiting(left)
        least = left if bench.uploads_apart else left - rivals
        assert least <= aborted <= left

    def vanish(self, job: Job, number: int, files: Mapping[str, bytes]) -> int:
        """One attempt that writes files, and whose process then dies; returns how many uploads it leaves."""
        task = job.task(number).setup()
        self.write(task, files)
        self.place.die(task)
        return self.uploads_of(len(files))

    def leave(self, job: Job, number: int, files: Mapping[str, bytes]) -> int:
        """One attempt that leaves an upload of each file, which nobody hands over to the job; how many."""
        task: Task = pickle.loads(pickle.dumps(job.task(number))).setup()  # noqa: S301 - our own bytes
        self.write(task, files)
        if not self.place.is_uploaded_at_once:
            task.commit()
        return self.waiting(len(files))

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
        prefix = prefix_of(destination)
        return bench.listed(f"{prefix}__magic") + bench.listed(f"{prefix}_temporary")

    def sets(self, bench: Bench) -> list[str]:
        """Where committed tasks have left their pending sets."""
        return self.place.sets(bench, DESTINATION)

    def job_object(self, bench: Bench, job: Job) -> JobObject:
        """What the job says of itself in the store."""
        key = job.spec.work_layout.job_object_key
        return JobObject.from_bytes(key, bench.read(key))

    def assert_nothing_left(
        self, bench: Bench, destination: str = DESTINATION, *, elsewhere: bool = False
    ) -> None:
        """No pending upload, no work object, and beside the pointer only manifests that it leads to.

        Nor is anything left of dead attempts on this machine; nor in the cluster's filesystem, unless the job
        was ended ``elsewhere``, by a process that does not know of it.
        """
        assert not self.place.leftovers()
        assert elsewhere or not self.place.in_cluster()
        assert not bench.pending(prefix_of(destination))
        assert not self.work(bench, destination)
        assert bench.listed(f"{prefix_of(destination)}_magicfs") == self.manifests(bench, destination)

    def assert_ended(self, bench: Bench, *keys: str) -> None:
        """Of a job that was given up nothing is left; only the keys of others are there."""
        assert bench.listed() == sorted(keys)
        assert not bench.pending()
        assert not self.place.leftovers()
        assert not self.place.in_cluster()

    def assert_only_set_up(self, bench: Bench, job: Job) -> None:
        """No pending upload, of work objects only the job object, and nothing of attempts on this machine."""
        assert not self.place.attempts()
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
