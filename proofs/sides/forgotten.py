"""A job that is run on two days, with options that somebody could forget or give differently.

The result is right, or an error comes and the store is as it was.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import fsspec

import magicfs
from magicfs.catalogs import SymlinkManifest
from magicfs.errors import MagicError
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.protocol.paths import is_visible
from magicfs.stores.memory.filesystem import MemoryFileSystem
from proofs.crash.store_models import world_of
from proofs.scenes.arranged import arranged
from proofs.scenes.known import forget_job
from proofs.scenes.memory_scene import BUCKET
from proofs.scenes.trouble import require

__all__ = [
    "OF_JOB",
    "WRITES",
    "Days",
    "Options",
    "Write",
    "by_url",
    "by_url_elsewhere",
    "error_of",
    "option_of_a_job",
]

Options = Mapping[str, Any]
Write = Callable[[Job, Task], None]

OF_JOB: Final[dict[str, Any]] = {
    "committer": "directory",
    "committer_options": {},  # a work directory
    "mode": "error",
    "unique_names": False,
    "tracking": "memory",
    "run_id": "monday",
    "attempt": 1,
    "part_size": 3,
    "small_files": 5,
    "concurrency": 1,
    "extra_destinations": ["memory://bucket/other"],
    "storage_options": {"use_listings_cache": False},
    "progress": lambda _progress: None,
    "filesystem": None,  # another one of the same world
    "job_id": "daily",
    "hadoop": "3.3",
    "label": "nightly",
    "warn_below": 1,
    "allow_empty": True,
    "single_driver": True,
    "is_current_driver": lambda: True,
    "rerun": "error",
    "also_overwrite": ["memory://bucket/another"],
    "keep": "7d",
    "keep_in_place": True,
    "footers": True,
    "checksums": True,
    "audit": [bool],
    "audit_failure": "abort",
    "success_marker": False,
    "catalogs": [SymlinkManifest()],
    "alias": "latest",  # refused where there are several files
    "after": [lambda _published: None],
    "seal": True,  # refused, for this process has no key
}
"""For each option of a job a value that is not the default."""


def error_of(call: Callable[[], Any]) -> MagicError | None:
    """What a call raises; only errors that magicfs means to raise are let pass."""
    try:
        call()
    except MagicError as error:
        return error
    return None


class Days:
    """The same job, run again each day with the same content.

    Attributes:
        world: What is in the store.
        published: How many days whoever lists finds.
    """

    def __init__(self, directory: Path, store: str = "s3") -> None:
        self.world = world_of(store)
        self.world.create_bucket(BUCKET)
        self.directory = directory
        self.published = 0

    def job(self, options: Options) -> Job:
        """A job with some options; where one needs something of this test, that is put in."""
        chosen = {"mode": "append", "filesystem": MemoryFileSystem(world=self.world), **options}
        if "storage_options" in options and "filesystem" not in options:
            chosen |= {
                "filesystem": None,
                "storage_options": {**options["storage_options"], "world": self.world},
            }
        elif "filesystem" in options:
            chosen["filesystem"] = MemoryFileSystem(world=self.world, use_listings_cache=False)
        if "committer_options" in options or options.get("committer") == "directory":
            chosen["committer_options"] = {"work_directory": str(self.directory)}
        return Job("memory://bucket/sales", **arranged(**chosen))

    def files(self) -> dict[str, bytes]:
        return {key: body for key, body in self.all()[0].items() if is_visible(key, "sales")}

    def all(self) -> tuple[dict[str, bytes], list[str]]:
        """All objects, and what is pending."""
        bucket = self.world.find(BUCKET)
        assert bucket is not None
        objects = {key: bytes(found.body) for key, found in bucket.objects.items()}
        return objects, sorted(upload.key for upload in bucket.uploads.values())

    def run(self, options: Options, write: Write) -> None:
        """One day. It is published as it should be, or fails and leaves the store as it was."""
        before, jobs = self.all(), list[Job]()

        def whole() -> None:
            with self.job(options) as job, job.task(0) as task:
                jobs.append(job)
                write(job, task)

        if (error := error_of(whole)) is not None:
            require(self.all() == before, (options, error))
            return
        report = jobs[0].report
        if report.published_before:
            require(self.all() == before, options)
            return
        self.published += 1
        stay = "keep" in options and options.keys() & {"keep_in_place", "catalogs"}
        if options.get("mode") == "overwrite" and not stay:
            self.published = 1
        require(report.files == 1, (options, report))
        require(list(self.files().values()) == [b"row\n"] * self.published, options)
        objects, uploads = self.all()
        require(not uploads, options)
        require(not [key for key in objects if "__magic" in key], options)
        verified = magicfs.Dataset(
            "memory://bucket/sales", filesystem=MemoryFileSystem(world=self.world)
        ).verify()
        require(verified.ok, (options, verified))


def by_url(job: Job, task: Task, **options: Any) -> None:
    """What pandas does with a URL."""
    wrapped = {"memory": {"world": job.spec.wrapped().world}} if task.url().startswith("magic+") else {}
    with fsspec.open(task.url("a.csv"), "wb", **wrapped, **options) as file:
        file.write(b"row\n")


def by_url_elsewhere(job: Job, task: Task) -> None:
    """The same in a process that knows nothing of the job."""
    forget_job(job)
    by_url(job, task)


def with_storage_options_elsewhere(job: Job, task: Task) -> None:
    forget_job(job)
    options = {} if job.spec.filesystem is not None else task.storage_options
    with (
        fsspec.open(task.url("a.csv"), "wb", **options)
        if options
        else task.filesystem.open(f"{task.path}/a.csv", "wb") as file
    ):
        file.write(b"row\n")


WRITES: Final[tuple[Write, ...]] = (by_url, by_url_elsewhere, with_storage_options_elsewhere)
"""How a task may write."""


def option_of_a_job(name: str, store: str = "s3") -> Iterator[int]:
    """One option, in each way to write, appending and replacing, on two days."""
    for mode in ("append", "overwrite"):
        for write in WRITES:
            with tempfile.TemporaryDirectory() as directory:
                days = Days(Path(directory), store)
                for _day in range(2):
                    days.run({"mode": mode, name: OF_JOB[name]}, write)
            yield 1
