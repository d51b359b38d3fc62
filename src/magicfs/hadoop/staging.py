"""Jobs of Hadoop's staging committers, whose tasks hand their pending sets over in the cluster's filesystem.

At the destination only open uploads show them. In the cluster directory each has
``<user>/<job>/staging-uploads/_temporary/<N>/<task>``, and the sets there say where their files belong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, Final

from fsspec.core import url_to_fs

from magicfs.committers.registry import StagingOptions
from magicfs.committers.staging.cluster import ClusterFiles, ClusterLayout, ClusterSets
from magicfs.datasets.connection import was_published
from magicfs.datasets.finders import Cluster
from magicfs.engine import Engine
from magicfs.errors import CommitFailed, FormatError, MagicError, UsageError
from magicfs.filesystem.tracking import write_id_of
from magicfs.formats.document import parse
from magicfs.formats.fields import Fields
from magicfs.formats.limits import PENDINGSET_SIZE_LIMIT
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.hadoop.fates import OpenUploads, fates_of, open_uploads
from magicfs.hadoop.job import HadoopJob, context_begun
from magicfs.hadoop.options import HadoopOptions, cluster_url
from magicfs.protocol import ids
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.paths import Location, is_under
from magicfs.report import ForeignJob
from magicfs.transaction import output as job_output
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput

BEGUN_BY: Final = "hadoop-staging"
_PARTITION: Final = "partition: "
_PLACE: Final = "fs.s3a.committer.staging.tmp.path"


def cluster_directory(conf: Mapping[str, str]) -> str:
    """The URL where a configuration puts it: without ``fs.s3a.committer.staging.tmp.path``, as Hadoop does,
    ``tmp/staging`` in the user's home of ``fs.defaultFS``.
    """
    options = HadoopOptions(conf)
    return cluster_url(options, options.get(_PLACE) or "tmp/staging")


async def find_all(engine: Engine, location: Location, cluster: Cluster) -> list[HadoopJob]:
    """Every job in a cluster directory with files of a destination. UsageError if it cannot be read."""
    found, there = list[HadoopJob](), None
    for user, job in await _jobs(cluster):
        there = there or await open_uploads(engine, location.key)
        one = await _examined(engine, location, cluster, user, job, there)
        if one is not None and one.report.files and not await was_published(engine, location, job):
            found.append(one)
    return found


async def find_one(engine: Engine, location: Location, cluster: Cluster, job: JobId) -> HadoopJob | None:
    """A job in a cluster directory; None if it is not there, is ours, or is published."""
    for user, name in await _jobs(cluster):
        if name == job and not await was_published(engine, location, job):
            there = await open_uploads(engine, location.key)
            return await _examined(engine, location, cluster, user, job, there)
    return None


async def sets_of(engine: Engine, context: JobContext, cluster: Cluster | None) -> ClusterSets:
    """The sets of a job that a command has begun to finish. Raises UsageError if they are not to be found."""
    for user, name in [] if cluster is None else await _jobs(cluster):
        if name == context.job and cluster is not None:
            return _sets(engine, context, cluster, user)
    raise UsageError(
        f"job {context.job} belongs to Hadoop's staging committer, which keeps task commits in the "
        "cluster's filesystem; nothing was changed; give that directory with cluster= (--cluster-directory "
        "or --hadoop-conf)"
    )


async def clear(cluster: Cluster, job: JobId) -> None:
    """Remove the directory of a job that has ended. A second call does nothing."""

    def work(place: ClusterFiles) -> None:
        for user in _users(place, cluster):
            place.remove(ClusterLayout(user, job).job_directory)

    await _in_thread(cluster, work)


async def _jobs(cluster: Cluster) -> list[tuple[str, JobId]]:
    def work(place: ClusterFiles) -> list[tuple[str, JobId]]:
        found = []
        if not place.is_there(""):
            raise FileNotFoundError(cluster.directory)
        for user in _users(place, cluster):
            for name in place.names(user):
                with suppress(UsageError):
                    job = ids.job_id(name)
                    if place.is_there(ClusterLayout(user, job).attempts_directory):
                        found.append((user, job))
        return found

    found: list[tuple[str, JobId]] = await _in_thread(cluster, work)
    return found


def _users(place: ClusterFiles, cluster: Cluster) -> list[str]:
    if cluster.user is not None:
        return [cluster.user]
    return [name for name in place.names("") if not name.startswith(".")]


async def _in_thread(cluster: Cluster, work: Any) -> Any:
    def call() -> Any:
        return work(ClusterFiles(*url_to_fs(cluster.directory, **cluster.storage_options)))

    try:
        return await asyncio.to_thread(call)
    except Exception as error:
        raise UsageError(
            f"the cluster directory {cluster.directory!r} cannot be used: {error!r}; nothing was changed; "
            "check the URL, and that this machine reaches it"
        ) from error


def _sets(engine: Engine, context: JobContext, cluster: Cluster, user: str) -> ClusterSets:
    options = StagingOptions(
        cluster_directory=cluster.directory,
        cluster_storage_options=cluster.storage_options,
        cluster_user=user,
    )
    return ClusterSets(engine, context, options)


async def _examined(
    engine: Engine, location: Location, cluster: Cluster, user: str, job: JobId, there: OpenUploads
) -> HadoopJob | None:
    directory = ClusterLayout(user, job).attempts_directory
    numbers = map(int, filter(str.isdecimal, await _in_thread(cluster, lambda place: place.names(directory))))
    layout = WorkLayout(location.key, job, max(numbers, default=0))
    context = context_begun(location, layout, BEGUN_BY, "directory")
    sets = _sets(engine, context, cluster, user)
    pendings, silent = await _recorded(sets)
    elsewhere = [one for one in pendings if _place_of(one) != location.path]
    if any(write_id_of(one) is not None for one in pendings) or not _may_be_here(elsewhere, silent, location):
        return None  # it is one of ours, or publishes elsewhere
    output, problem = JobOutput(), ""
    try:
        output = await job_output.load_listed(engine, context, sets)
    except MagicError as error:
        problem = str(error)
    if elsewhere:
        problem = (
            f"nobody knows the destination of {len(elsewhere)} files, such as "
            f"{elsewhere[0].destination_key}: the sets of their tasks have no field text"
        )
    fates = await fates_of(engine, pendings, there)
    seen = ForeignJob("staging", uploads=len(fates.open), problem=problem)
    modified = max((one.created_ms / 1000 for one in pendings), default=0.0)
    return replace(HadoopJob.of(engine, context, seen, output, fates, modified), cluster=sets)


def _may_be_here(elsewhere: Sequence[Pending], silent: set[str], location: Location) -> bool:
    """Whether all that lies further down does not say where its destination is."""
    at = {one.bucket for one in elsewhere} <= {location.bucket}
    keys = {one.destination_key for one in elsewhere}
    return at and keys <= silent and all(is_under(key, location.key) for key in keys)


async def _recorded(sets: ClusterSets) -> tuple[list[Pending], set[str]]:
    """The uploads that committed tasks name, and the keys of those that do not note their directories. A
    malformed set names none.
    """
    found, silent = list[Pending](), set[str]()
    with suppress(CommitFailed):  # a file that is called like no task
        keys = [one.key for one in await sets.listed()]
        async with aclosing(sets.read_ahead(keys)) as read:
            async for key, raw in read:
                with suppress(FormatError):
                    path = sets.where(key)
                    found += PendingSet.from_bytes(path, raw).commits
                    fields = Fields(path, parse(path, raw, size_limit=PENDINGSET_SIZE_LIMIT))
                    nameless = (one for one in fields.objects("commits") if not one.has("text"))
                    silent |= {one.required_text("destinationKey") for one in nameless}
    return found, silent


def _place_of(pending: Pending) -> str:
    """The destination of a file's job: Hadoop notes in which directory below it the file lies."""
    directory, _, _ = pending.destination_key.rpartition("/")
    below = pending.text.removeprefix(_PARTITION)
    if below != pending.text and directory.endswith(below):
        directory = directory.removesuffix(below).rstrip("/")
    return f"{pending.bucket}/{directory}".rstrip("/")
