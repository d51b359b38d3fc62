"""What a job was asked to do: checked once, the same in every process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from fsspec.spec import AbstractFileSystem

from magicfs.committers import registry
from magicfs.committers.base import Committer, JobContext
from magicfs.engine import Engine, Observer
from magicfs.errors import UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.formats.pending import EtagFormat
from magicfs.manifests import manifest_key
from magicfs.protocol import paths
from magicfs.protocol.conflict import CONFLICTS, Conflict
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import LayoutName, WorkLayout
from magicfs.stores import resolve
from magicfs.stores.port import Store

__all__ = ["CONFLICTS", "JobSpec", "location_of"]

CONCURRENCY_MAX = 1024
RUN_ID_MAX = 1024


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """The arguments of a ``Job`` and its id. Pickles without secrets.

    Attributes:
        location: The destination.
        job: The job.
        committer: Name of the committer.
        conflict: What to do about data that is there already.
        unique_names: Whether final names carry task and job.
        tracking: Where finished uploads are remembered.
        layout: Which of Hadoop's directory layouts.
        attempt: Number of the job attempt.
        part_size: Bytes of the first parts of every upload; None for the default.
        concurrency: Most requests at once.
        etag_format: Which generation of Hadoop shall read the files.
        hadoop_sets: Whether to copy pending sets to where Hadoop's job commit looks for them.
        run_id: Name of the run, by which a second one finds the first.
        allow_empty: Whether a job without files may replace what is there.
        single_driver: Whether the caller vouches for what the store cannot ensure.
        storage_options: Options of the wrapped filesystem.
        filesystem: The wrapped filesystem itself, in place of options.
    """

    location: paths.Location
    job: JobId
    committer: str = "magic"
    conflict: Conflict = "fail"
    unique_names: bool = True
    tracking: Literal["store", "memory"] = "store"
    layout: LayoutName = "__magic_job"
    attempt: int = 0
    part_size: int | None = None
    concurrency: int = 32
    etag_format: EtagFormat = "string"
    hadoop_sets: bool = False
    run_id: str | None = None
    allow_empty: bool = False
    single_driver: bool = False
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    filesystem: AbstractFileSystem | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        registry.check(self.committer)
        _choice("conflict", self.conflict, CONFLICTS)
        _choice("tracking", self.tracking, ("store", "memory"))
        _choice("etag_format", self.etag_format, get_args(EtagFormat))
        if self.run_id is not None and not self.run_id:
            raise UsageError("run_id is empty; name the run, or leave it out")
        if len(self.run_id or "") > RUN_ID_MAX:
            raise UsageError(f"run_id has {len(self.run_id or '')} characters; at most {RUN_ID_MAX} are kept")
        if not 1 <= self.concurrency <= CONCURRENCY_MAX:
            raise UsageError(f"concurrency={self.concurrency} is out of range; choose 1 to {CONCURRENCY_MAX}")
        if isinstance(self.filesystem, MagicFileSystem):
            raise UsageError(
                "filesystem is a MagicFileSystem already; give the one that it wraps (its attribute fs)"
            )
        manifest_key(self.location.key, self.job)
        context = self.context
        if self.tracking == "memory" and not context.names_tell:
            raise UsageError(
                "tracking='memory' needs unique_names=True and a job id that holds a UUID: uploads of lost "
                "tasks are recorded nowhere and can only be told by their names; use tracking='store'"
            )
        resolve.check(self.wrapped())
        if self.part_size is not None:
            self.store().capabilities.parts.check(self.part_size)

    def __getstate__(self) -> dict[str, Any]:
        if self.filesystem is not None and (found := resolve.secrets_of(self.filesystem.storage_options)):
            raise UsageError(
                f"the job's filesystem has inline secrets ({', '.join(sorted(found))}), which a pickle would "
                "carry; take them from the environment or a profile, or give storage_options instead"
            )
        state = dict(self.__dict__)
        state["storage_options"] = resolve.without_secrets(self.storage_options)
        return state

    @property
    def work_layout(self) -> WorkLayout:
        """Where the job keeps its work."""
        return WorkLayout(self.location.key, self.job, self.attempt, self.layout)

    @property
    def context(self) -> JobContext:
        """The facts that the committer works from."""
        return JobContext(
            url=self.location.url,
            layout=self.work_layout,
            conflict=self.conflict,
            unique_names=self.unique_names,
            tracking=self.tracking,
            etag_format=self.etag_format,
            hadoop_sets=self.hadoop_sets,
            run_id=self.run_id,
            allow_empty=self.allow_empty,
            single_driver=self.single_driver,
        )

    def wrapped(self) -> AbstractFileSystem:
        """The filesystem of the store, as this process has it."""
        if self.filesystem is not None:
            return self.magic_filesystem().fs
        return resolve.filesystem(self.location.scheme, self.storage_options)

    def magic_filesystem(self) -> MagicFileSystem:
        """The filesystem that tasks write through; one instance serves all tasks of a process."""
        if self.filesystem is not None:
            return MagicFileSystem(self.filesystem, **self.magic_options())
        return MagicFileSystem(
            target_protocol=self.location.scheme,
            target_options=dict(self.storage_options),
            **self.magic_options(),
        )

    def magic_options(self) -> dict[str, Any]:
        """The options of ``MagicFileSystem`` that differ from its defaults."""
        options: dict[str, Any] = {"tracking": self.tracking, "unique_names": self.unique_names}
        if self.part_size is not None:
            options["part_size"] = self.part_size
        if self.etag_format != "string":
            options["etag_format"] = self.etag_format
        return options

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop on which the store works."""
        loop: asyncio.AbstractEventLoop = self.wrapped().loop
        return loop

    def store(self) -> Store:
        """The store of the destination's bucket."""
        return resolve.open_store(self.wrapped(), self.location.bucket)

    def make_committer(self, observer: Observer | None = None) -> Committer:
        """The committer, bound to this process's connection."""
        return registry.make(self.committer, self.context, Engine(self.store(), self.concurrency, observer))


def location_of(url: str, *, any_scheme: bool = False) -> paths.Location:
    """Take the URL of a destination apart.

    Args:
        url: Such as ``s3://bucket/sales``.
        any_scheme: Whether the scheme is only a name, for the filesystem is known.

    Raises:
        UsageError: It is none, or no store of that scheme can delay an upload.
    """
    scheme, separator, _ = url.partition("://")
    if separator and not any_scheme and "::" not in scheme and scheme not in resolve.SCHEMES:
        known = ", ".join(sorted(resolve.SCHEMES))
        raise UsageError(f"{url!r}: {scheme}:// cannot delay an upload; magicfs works on {known}")
    return paths.parse_url(url)


def _choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{name}={value!r} is unknown; choose one of {', '.join(choices)}")
