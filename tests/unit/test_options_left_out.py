"""Every option that somebody could forget or give differently, alone and in pairs.

The result is right, or an error comes and the store is as it was. The options come from the signatures: a new
one fails here until it has a value to be tried with.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest

from magicfs.filesystem import MagicFileSystem
from magicfs.formats.job_options import GIVEN
from magicfs.job.checks import OWN
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.stores.memory.filesystem import MemoryFileSystem
from proofs.scenes.known import forget_job
from proofs.sides.forgotten import (
    OF_JOB,
    WRITES,
    Days,
    Options,
    Write,
    by_url,
    by_url_elsewhere,
    error_of,
    option_of_a_job,
)
from tests.sample import Some

pytestmark = pytest.mark.sample

OF_FILESYSTEM: Final[dict[str, Any]] = {
    "fs": None,  # the wrapped filesystem as an instance
    "target_protocol": None,  # or by its name
    "target_options": {"use_listings_cache": False},
    "fo": "bucket/ignored",
    "hadoop": "3.3",
    "tracking": "memory",
    "unique_names": True,
    "part_size": 5,
    "job_object": False,
    "allow_secrets_in_pickles": True,
    "secrets_of": "nobody",
}
"""The same for ``MagicFileSystem``."""

OF_TASK: Final[dict[str, Any]] = {
    "setup.suffix": "abc123",
    "commit.progress": lambda _progress: None,
    "count.number": 3,
    "url.name": "a.csv",
    "url_to.name": "a.csv",
}
"""The same for the methods of ``Task``, which has no other options."""

JOBS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"hadoop": "3.3"},
    {"unique_names": False},
    {"unique_names": False, "hadoop": "3.3"},
    {"tracking": "memory"},
)


def optional(function: Any) -> set[str]:
    """The parameters that may be left out."""
    found = inspect.signature(function).parameters.values()
    return {one.name for one in found if one.default is not one.empty and one.kind is not one.VAR_KEYWORD}


def test_every_option_is_tried() -> None:
    known = {*optional(Job.__init__), *GIVEN, *OWN, "committer_options"} - {"options"}
    assert set(OF_JOB) == known, "give it a value in proofs/sides/forgotten.py"
    assert set(OF_FILESYSTEM) == optional(MagicFileSystem.__init__)
    twins = {f"a{name}" for name in vars(Task)}
    public = {name: value for name, value in vars(Task).items() if name[0] != "_" and name not in twins}
    methods = {name: value for name, value in public.items() if callable(value)}
    assert set(OF_TASK) == {f"{name}.{one}" for name, method in methods.items() for one in optional(method)}


def subsets(options: Options) -> Iterator[dict[str, Any]]:
    """No option, each alone, all pairs."""
    for size in range(3):
        for names in combinations(options, size):
            yield {name: options[name] for name in names}


def pairs_with(name: str, options: Options) -> Iterator[dict[str, Any]]:
    """One option with each of those that come after it."""
    names = list(options)
    for other in names[names.index(name) + 1 :]:
        yield {name: options[name], other: options[other]}


MODES = pytest.mark.parametrize("mode", ["append", "overwrite"])


@pytest.mark.parametrize("name", OF_JOB)
def test_option_of_a_job(name: str) -> None:
    assert sum(option_of_a_job(name)) == 2 * len(WRITES)


@pytest.mark.slow
@pytest.mark.sample(most=6)
@MODES
@pytest.mark.parametrize("name", OF_JOB)
def test_options_of_a_job_in_pairs(tmp_path: Path, mode: str, name: str, some: Some) -> None:
    for options in some(pairs_with(name, OF_JOB), 6):
        for write in (by_url, by_url_elsewhere):
            days = Days(tmp_path)
            for _day in range(2):
                days.run({"mode": mode, **options}, write)


def filesystem_of(days: Days, options: Options) -> MagicFileSystem:
    """A filesystem of the user's own, for the same world."""
    chosen = {name: value for name, value in options.items() if name not in {"fs", "target_protocol"}}
    if "fs" in options:
        chosen["fs"] = MemoryFileSystem(world=days.world)
    if "target_protocol" in options or "fs" not in options:
        chosen["target_protocol"] = "memory"
    target = {**chosen.pop("target_options", {}), "world": days.world}
    return MagicFileSystem(**chosen, **({"target_options": target} if "target_protocol" in chosen else {}))


def write_through(days: Days, options: Options, *, known: bool) -> Write:
    def write(job: Job, task: Task) -> None:
        if not known:
            forget_job(job)
        filesystem_of(days, options).pipe_file(f"{task.path}/a.csv", b"row\n")

    return write


def try_filesystem(directory: Path, job: Options, mode: str, options: Options) -> None:
    for known in (True, False):
        days = Days(directory)
        for _day in range(2):
            days.run({"mode": mode, **job}, write_through(days, options, known=known))


@MODES
@pytest.mark.parametrize("job", JOBS, ids=str)
@pytest.mark.parametrize("name", ["", *OF_FILESYSTEM])
def test_option_of_the_filesystem(tmp_path: Path, job: Options, mode: str, name: str) -> None:
    try_filesystem(tmp_path, job, mode, {name: OF_FILESYSTEM[name]} if name else {})


@pytest.mark.slow
@pytest.mark.sample(most=6)
@MODES
@pytest.mark.parametrize("job", JOBS, ids=str)
@pytest.mark.parametrize("name", OF_FILESYSTEM)
def test_options_of_the_filesystem_in_pairs(tmp_path: Path, job: Options, mode: str, name: str) -> None:
    for options in pairs_with(name, OF_FILESYSTEM):
        try_filesystem(tmp_path, job, mode, options)


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS, ids=str)
@pytest.mark.parametrize("known", [True, False])
def test_options_of_a_task(tmp_path: Path, job: Options, known: bool) -> None:
    for options in subsets(OF_TASK):
        days = Days(tmp_path)

        def write(job: Job, _task: Task, days: Days = days, given: Options = options) -> None:
            suffix = [given["setup.suffix"]] if "setup.suffix" in given else []
            task = job.task(1).setup(*suffix)
            if not known:
                forget_job(job)
            task.count("rows", *([given["count.number"]] if "count.number" in given else []))
            url = task.url(given["url.name"]) if "url.name" in given else f"{task.url()}/a.csv"
            filesystem_of(days, {}).pipe_file(url, b"row\n")
            task.commit(given.get("commit.progress"))

        for _day in range(2):
            days.run(job, write)


# -- a second driver -----------------------------------------------------------------------------------------

JOB = str(UUID(int=12))


def take_over(directory: Path, first: Options, second: Options) -> None:
    """A driver dies after one of two tasks has committed; another takes its job over with other options."""
    days = Days(directory)

    def first_driver() -> None:
        job = days.job({"job_id": JOB, **first}).setup()
        with job.task(0) as task:
            by_url(job, task)

    if error_of(first_driver) is not None:
        return  # its own options do not go together
    before, files, jobs = days.all(), days.files(), list[Job]()
    error = error_of(lambda: jobs.append(days.job({"job_id": JOB, "attempt": 1, **second}).setup()))
    if error is not None:
        assert days.all() == before, (first, second, error)
        return
    [job] = jobs

    def second_driver() -> None:
        job.recover_tasks()
        with job.task(1) as task:
            by_url_elsewhere(job, task)
        job.commit(job.commits)

    if (error := error_of(second_driver)) is None:
        assert job.report.files == 2, (first, second)
        assert list(days.files().values()) == [b"row\n"] * 2, (first, second)
    else:
        assert days.files() == files, (first, second, error)
        job.abort()
        assert days.files() == files, (first, second, error)
    objects, uploads = days.all()
    assert uploads == [], (first, second)
    assert not [key for key in objects if "__magic" in key], (first, second)


LATER: Final = {name: value for name, value in OF_JOB.items() if name not in {"job_id", "attempt"}}


@pytest.mark.parametrize("name", LATER)
def test_option_of_a_job_that_a_later_attempt_forgets_or_adds(tmp_path: Path, name: str) -> None:
    take_over(tmp_path, {name: LATER[name]}, {})
    take_over(tmp_path, {}, {name: LATER[name]})


@pytest.mark.slow
@pytest.mark.sample(most=6)
@pytest.mark.parametrize("name", LATER)
def test_options_of_a_job_that_a_later_attempt_forgets_or_adds_in_pairs(
    tmp_path: Path, name: str, some: Some
) -> None:
    for options in some(pairs_with(name, LATER), 6):
        kept = {name: options[name]}
        for first, second in ((options, {}), ({}, options), (options, kept), (kept, options)):
            take_over(tmp_path, first, second)
