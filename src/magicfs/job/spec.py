"""What a job was asked to do: checked once, the same in every process."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from magicfs.committers import registry
from magicfs.committers.registry import CommitterOptions, NoOptions, StagingOptions, committer_info
from magicfs.committers.work_places import (
    WorkPlace,
    local_directory,
    local_extra,
    local_filesystem,
    make_attempt_directory,
)
from magicfs.errors import UsageError
from magicfs.formats.job_options import JobOptions
from magicfs.job.checks import (
    check_destination,
    check_file_checks,
    check_filesystem,
    check_hadoop,
    check_hadoops_store,
    check_manifest,
    check_options,
    check_storage_class,
)
from magicfs.protocol import magic, modes, paths
from magicfs.protocol.ids import AttemptId, JobId, TaskId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.modes import WriteMode
from magicfs.protocol.parts import DEFAULT_PART_SIZE
from magicfs.protocol.paths import Location
from magicfs.stores import object_settings, resolve
from magicfs.stores.delegating import acting_for
from magicfs.stores.object_settings import ObjectSettings, options_of
from magicfs.stores.port import Store
from magicfs.stores.resolve import in_one_bucket, location_of, split
from magicfs.transaction.context import ContentCheck, JobContext

if TYPE_CHECKING:
    import asyncio

    from fsspec.spec import AbstractFileSystem

    from magicfs.committers.base import Committer
    from magicfs.engine import Observer
    from magicfs.filesystem import MagicFileSystem


def other_keys_of(urls: Sequence[str], location: Location, mode: WriteMode) -> tuple[str, ...]:
    """The directories that URLs (``s3://bucket/sales/old``) name, as keys of the destination's bucket.

    Raises UsageError if a URL cannot be right, or the job deletes nothing.
    """
    if not mode.startswith("overwrite"):
        raise UsageError(
            f"also_overwrite names datasets that the job may delete, but mode={mode!r} deletes none; leave "
            "it out, or use mode='overwrite' or 'overwrite_partitions'"
        )
    keys = []
    for url in urls:
        place = location_of(url, any_scheme=True)
        if not in_one_bucket(place, location):
            raise UsageError(
                f"also_overwrite names {url!r}, which is outside {location.scheme}://{location.bucket}; the "
                "job deletes nothing there; leave it out"
            )
        if magic.locate(place.path) is not None or not (
            paths.is_under(place.key, location.key) or paths.is_under(location.key, place.key)
        ):
            raise UsageError(
                f"also_overwrite names {url!r}, which is neither below nor above the destination "
                f"{location.url}; name only datasets whose files the job would delete"
            )
        keys.append(place.key)
    return tuple(dict.fromkeys(keys))


def keys_of(
    urls: Sequence[str], location: Location, committer: str, *, uploads_found_by_name: bool
) -> tuple[str, ...]:
    """The directories that URLs (``s3://bucket/other``) name, as keys of the destination's bucket.

    ``uploads_found_by_name``: whether every upload of the job can be recognized by its name. Raises
    UsageError if a URL cannot be right, or the job cannot have any.
    """
    info = committer_info(committer)
    if not info.driven or info.writes == "work files":
        raise UsageError(
            f"extra_destinations need delayed uploads, which committer={committer!r} does not have; use "
            "magic, directory or partitioned, or one job for each destination"
        )
    if not uploads_found_by_name:
        raise UsageError(
            "extra_destinations need unique_names=True and a job id that contains a UUID: jobs replace "
            "nothing there, and find their uploads by name"
        )
    keys: list[str] = []
    for url in urls:
        place = location_of(url, any_scheme=True)
        if not in_one_bucket(place, location):
            raise UsageError(
                f"extra destination {url!r} is outside {location.scheme}://{location.bucket}; all uploads "
                "of a job are in one bucket; use one job per bucket"
            )
        if not place.key or modes.is_reserved(place.key):
            raise UsageError(
                f"extra destination {url!r} must be a directory in the bucket, and not one where jobs keep "
                "their work or manifests"
            )
        for other in (location.key, *keys):
            if paths.overlap(place.key, other):
                raise UsageError(
                    f"extra destination {url!r} overlaps {location.bucket}/{other}; name only directories "
                    "that are not inside each other or the destination"
                )
        keys.append(place.key)
    return tuple(keys)


def place_in(url: str, location: Location, extra: Sequence[str]) -> tuple[int, str]:
    """Which extra destination a directory lies in, and where in it: a relative path, possibly empty. Raises
    UsageError if it lies in none of them.
    """
    place = location_of(url, any_scheme=True)
    if in_one_bucket(place, location):
        for number, one in enumerate(extra):
            if place.key == one:
                return number, ""
            if paths.is_under(place.key, one):
                return number, paths.relative_to(place.key, one)
    known = ", ".join(f"{location.scheme}://{location.bucket}/{one}" for one in extra) or "none"
    raise UsageError(f"{url!r} is not in an extra destination of the job; it was set up with {known}")


def choose_committer(
    name: str,
    location: paths.Location,
    storage_options: Mapping[str, Any],
    filesystem: AbstractFileSystem | None,
) -> tuple[str, str]:
    """The committer that was asked for; for ``auto`` the best that the store can carry, and why."""
    if name != "auto":
        return name, ""
    check_filesystem(storage_options, filesystem)
    wrapped = filesystem or resolve.filesystem(location.scheme, storage_options)
    best, reason = registry.best_for(resolve.open_store(wrapped, location.bucket))
    logging.getLogger("magicfs").info("%s: committer %s, because %s", location.url, best, reason)
    return best, reason


def destination_of(
    url: str | PathLike[str],
    storage_options: Mapping[str, Any] | None,
    filesystem: AbstractFileSystem | None,
) -> tuple[paths.Location, dict[str, Any]]:
    """Where a job's URL leads, and the options of the filesystem, with those that the URL itself names."""
    plain, named = split(url, storage_options)
    location = location_of(plain, any_scheme=filesystem is not None)
    if filesystem is None:
        return location, named
    resolve.check_leads(location, filesystem)
    return location, dict(storage_options or {})


CONCURRENCY_MAX = 1024


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """What a job was asked for, its id, and its way to the store. Pickles without secrets."""

    location: paths.Location
    job: JobId
    options: JobOptions
    attempt: int = 0  # number of the job attempt
    concurrency: int = 32  # most requests at once
    hadoop: str | None = None  # the release whose job commit must be able to end it; None for none
    file_checks: tuple[ContentCheck, ...] = ()  # what its tasks look for in the content of their files
    committer_options: CommitterOptions = field(default_factory=NoOptions)
    reason: str = ""  # why this committer, for ``auto``
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)  # of the wrapped filesystem
    filesystem: AbstractFileSystem | None = field(default=None, repr=False)  # in place of options
    object_settings: ObjectSettings | None = None
    """What the job's objects bear; None for what its filesystem was given where the job was made."""
    carried: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """What watchers of the driver have for those of tasks."""

    def __post_init__(self) -> None:
        check_filesystem(self.storage_options, self.filesystem)
        check_hadoop(self)
        check_options(self.options, self.committer_options)
        check_file_checks(self.file_checks, self.options)
        if not 1 <= self.concurrency <= CONCURRENCY_MAX:
            raise UsageError(f"concurrency={self.concurrency} is out of range; choose 1 to {CONCURRENCY_MAX}")
        check_destination(self.location)
        check_manifest(self.location.key, self.job)
        context = self.context
        if self.options.tracking == "memory" and not context.uploads_found_by_name:
            raise UsageError(
                "tracking='memory' needs unique_names=True and a job id that contains a UUID: uploads of "
                "lost tasks are not recorded and can only be found by name; use tracking='store'"
            )
        store = self.store()
        registry.check_store(self.options.committer, store)
        check_hadoops_store(self, store)
        if self.options.part_size != DEFAULT_PART_SIZE:
            store.capabilities.parts.check(self.options.part_size)
        settings = object_settings.of_store(store)
        object.__setattr__(self, "object_settings", settings)
        check_storage_class(self.options.committer, settings)

    def __getstate__(self) -> dict[str, Any]:
        if self.filesystem is not None and (found := resolve.secrets_of(options_of(self.filesystem))):
            raise UsageError(
                f"the job's filesystem has inline secrets ({', '.join(sorted(found))}), which would be "
                "pickled with it; take them from the environment or a profile, or give storage_options "
                "instead"
            )
        state = dict(self.__dict__)
        state["storage_options"] = resolve.without_secrets(self.storage_options)
        return state

    @property
    def facts(self) -> dict[str, object]:
        """What watchers hear of the job."""
        asked = self.options
        named = {"url": self.location.url, "job": self.job, "run": asked.run_id, "mode": asked.mode}
        return {**named, "committer": asked.committer, "carried": self.carried}

    @property
    def work_layout(self) -> WorkLayout:
        return WorkLayout(self.location.key, self.job, self.attempt, self.options.hadoop.layout)

    @property
    def context(self) -> JobContext:
        return JobContext(
            url=self.location.url,
            layout=self.work_layout,
            options=self.options,
            committer_options=self.committer_options,
            file_checks=self.file_checks,
        )

    def work_place(self, task: TaskId, attempt: AttemptId, extra: str | None = None) -> WorkPlace:
        """Where an attempt of a task writes: for the destination, or for a directory in an extra destination.
        Raises UsageError if the URL ``extra`` lies in none of them.
        """
        if extra is not None:
            return self._extra_place(task, attempt, extra)
        bucket, scheme = self.location.bucket, self.location.scheme
        options = dict(self.storage_options) if self.filesystem is None else None
        match committer_info(self.options.committer).writes:
            case "delayed uploads":
                path = f"{bucket}/{self.work_layout.work_directory(attempt)}"
                nested = {scheme: options} if options else {}
                chained = None if options is None else self.magic_options() | nested
                return WorkPlace(path, f"magic+{scheme}://", self._magic_filesystem, chained)
            case "local files":
                from magicfs.committers.staging import attempts

                assert isinstance(self.committer_options, StagingOptions)
                work_directory = self.committer_options.work_directory
                path = local_directory(work_directory, self.job, attempt)
                prepare = partial(attempts.begin, work_directory, self.job, attempt)
                return WorkPlace(path, "file://", local_filesystem, {}, prepare, is_local=True)
            case "work files":
                key = self.context.temporary.task_attempt_directory(attempt)
                path = f"{bucket}/{key}"
                if not resolve.scheme_has_buckets(scheme):
                    prepare = partial(make_attempt_directory, key)
                    return WorkPlace(path, f"{scheme}://", self.wrapped, options, prepare, is_local=True)
                if resolve.fsspec_opens(scheme):
                    return WorkPlace(path, f"{scheme}://", self.wrapped, options)
                chained = {scheme: options} if options else options
                return WorkPlace(path, f"magic+{scheme}://", self.wrapped, chained)
            case "final files":
                make = registry.maker_of_places(self.options.committer)
                return make(self.location.path, self.wrapped(), self.context, task, attempt)

    def _extra_place(self, task: TaskId, attempt: AttemptId, url: str) -> WorkPlace:
        keys = self.options.places.extra
        number, relative = place_in(url, self.location, keys)
        place = self.work_place(task, attempt)
        if committer_info(self.options.committer).writes == "local files":
            directory = local_extra(place.path, number)
        else:
            directory = f"{self.location.bucket}/{self.work_layout.work_directory(attempt, keys[number])}"
        return replace(place, path=f"{directory}/{relative}" if relative else directory)

    def wrapped(self) -> AbstractFileSystem:
        """The filesystem of the store, as this process has it."""
        if self.filesystem is None:
            return resolve.filesystem(self.location.scheme, self.storage_options)
        if committer_info(self.options.committer).writes == "delayed uploads":
            return self._magic_filesystem().fs
        return self.filesystem

    def _magic_filesystem(self) -> MagicFileSystem:
        """The filesystem that tasks write through; one instance serves all tasks of a process."""
        from magicfs.filesystem import MagicFileSystem

        if self.filesystem is not None:
            return MagicFileSystem(self.filesystem, **self.magic_options())
        return MagicFileSystem(
            target_protocol=self.location.scheme,
            target_options=dict(self.storage_options),
            **self.magic_options(),
        )

    def tell_filesystem(self, attempt: AttemptId | None = None) -> None:
        """Let filesystems of this process know, without a request, how this job's files are written.

        With ``attempt`` also that this process is the one to commit it.
        """
        if committer_info(self.options.committer).writes != "delayed uploads":
            return
        from magicfs.filesystem.job_settings import WriteSettings, known_jobs
        from magicfs.filesystem.tracking import name_in

        bucket, layout = self.location.bucket, self.work_layout
        job_name = name_in(self.store(), f"{bucket}/{layout.job_directory}")
        settings = WriteSettings(self.options, self.object_settings or {})
        known_jobs().learn(job_name, settings)
        if attempt is not None:
            directory = f"{bucket}/{layout.task_attempt_directory(attempt)}"
            known_jobs().began(job_name, name_in(self.store(), directory))

    def magic_options(self) -> dict[str, Any]:
        """The options of ``MagicFileSystem`` that differ from its defaults."""
        asked = self.options
        options: dict[str, Any] = {"tracking": asked.tracking, "unique_names": asked.unique_names}
        if asked.part_size != DEFAULT_PART_SIZE:
            options["part_size"] = asked.part_size
        if not committer_info(asked.committer).driven:
            options["job_object"] = False
        return options

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return resolve.loop_of(self.wrapped())

    def store(self) -> Store:
        """The store of the destination's bucket, whose requests bear the job's id."""
        store = acting_for(resolve.open_store(self.wrapped(), self.location.bucket), self.job)
        return object_settings.store_with(store, self.object_settings or {})

    def make_committer(self, observer: Observer | None = None) -> Committer:
        """The committer, bound to this process's connection."""
        from magicfs.engine import Engine

        engine = Engine(self.store(), self.concurrency, observer)
        return registry.make(self.options.committer, self.context, engine)
