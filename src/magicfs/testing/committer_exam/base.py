"""What every part of the committer exam builds on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from magicfs.formats.success import SuccessData
from magicfs.job import Job
from magicfs.protocol.paths import prefix_of
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


class Examined:
    """A committer on one store. The subclass names its ``subject`` and has a fixture ``bench``.

    Attributes:
        exam: What the summary calls the exam.
        subject: What the summary calls the committer and its store.
        required: Whether a skipped test fails the run.
        committer: Name of the committer.
        conflict: Conflict mode of the jobs.
        modes: In which ways of keeping its work the committer is examined.
        exact_clock: Whether of two objects the one that was written later always shows a later time.
    """

    exam: ClassVar[str] = "committer exam"
    subject: ClassVar[str]
    required: ClassVar[bool] = True
    committer: ClassVar[str] = "magic"
    conflict: ClassVar[Any] = "append"
    modes: ClassVar[tuple[str, ...]] = tuple(_MODES)
    exact_clock: ClassVar[bool] = False

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run tests that ask for ``mode`` or ``stored_mode`` once in every one of ``modes``.

        The arguments of a job: ``mode`` is any way to keep its work, ``stored_mode`` one in which a listing
        shows what tasks have committed.
        """
        stored = [name for name in self.modes if name.startswith("store")]
        for argument, names in (("mode", list(self.modes)), ("stored_mode", stored)):
            if argument in metafunc.fixturenames:
                metafunc.parametrize(argument, [_MODES[name] for name in names], ids=names)

    def job(self, bench: Bench, destination: str = DESTINATION, **options: Any) -> Job:
        """A job that is set up."""
        given = {"committer": self.committer, "conflict": self.conflict, **bench.options(), **options}
        return Job(f"{bench.url}/{destination}", **given).setup()

    def write(self, task: Task, files: Mapping[str, bytes]) -> None:
        """Write files, many at once, below a task's path."""
        task.filesystem.pipe({f"{task.path}/{name}": content for name, content in files.items()})

    def run_task(self, job: Job, number: int, *names: str) -> TaskCommit:
        """Run one task that writes the named files, one row each."""
        with job.task(number) as task:
            self.write(task, {name: body(number, name) for name in names})
        return committed(task)

    def published(self, bench: Bench, destination: str = DESTINATION) -> dict[str, bytes]:
        """Body by key below the destination of everything but work objects and ``_SUCCESS``."""
        prefix = prefix_of(destination)
        found = {key[len(prefix) :]: key for key in bench.listed(prefix)}
        return {
            name: bench.read(key)
            for name, key in found.items()
            if name != "_SUCCESS" and not name.startswith("__magic")
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

    def assert_nothing_left(self, bench: Bench, destination: str = DESTINATION) -> None:
        """No pending upload and no work object."""
        assert not bench.pending(prefix_of(destination))
        assert not self.work(bench, destination)


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
