"""The finder of Hadoop's jobs, whichever committer began them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from magicfs.datasets.connection import context_of
from magicfs.datasets.finders import Cluster, DeadJob, Finder
from magicfs.engine import Engine
from magicfs.errors import CommitFailed, UsageError
from magicfs.filesystem.tracking import write_id_of
from magicfs.hadoop import magic, manifest, staging
from magicfs.hadoop.fates import fates_of, open_uploads, refuse_gone, refuse_published
from magicfs.hadoop.job import remove_marker
from magicfs.protocol import paths
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import BEFORE_COMMIT
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.paths import Location
from magicfs.transaction import output as job_output
from magicfs.transaction.context import JobContext
from magicfs.transaction.others import OtherJob
from magicfs.transaction.output import JobOutput


class HadoopFinder(Finder):
    """Finds jobs of Hadoop's magic, manifest and staging committers."""

    async def find_all(self, engine: Engine, location: Location, cluster: Cluster | None) -> list[DeadJob]:
        found: list[DeadJob] = [*await magic.find_all(engine, location)]
        found += await manifest.find_all(engine, location)
        found += [] if cluster is None else await staging.find_all(engine, location, cluster)
        return sorted(found, key=lambda one: (one.modified, one.context.job))

    async def find_one(
        self, engine: Engine, location: Location, job: JobId, cluster: Cluster | None
    ) -> DeadJob | None:
        found = await magic.find_one(engine, location, job) or await manifest.find_one(engine, location, job)
        if found is None and cluster is not None:
            found = await staging.find_one(engine, location, cluster, job)
        return found

    async def find_begun(
        self, engine: Engine, location: Location, begun: OtherJob, cluster: Cluster | None
    ) -> DeadJob | None:
        """One of a staging committer: nothing in the store records its uploads."""
        job = begun.job
        if job is None or job.state not in BEFORE_COMMIT or job.options.hadoop.begun_by != staging.BEGUN_BY:
            return None
        # or it says what to give
        await staging.sets_of(engine, context_of(location, begun.layout).of(job), cluster)
        return None if cluster is None else await staging.find_one(engine, location, cluster, begun.job_id)

    def writes(self, layout: WorkLayout, key: str) -> bool:
        return layout.is_hadoops(key)

    def refuse_sweep(self, job: JobId, works: Sequence[tuple[WorkLayout, Sequence[str]]]) -> None:
        for key in (key for layout, keys in works for key in keys if self.writes(layout, key)):
            raise UsageError(
                f"job {job} belongs to Hadoop's S3A committer, as {key} shows; nothing was changed; magicfs "
                "cannot stop its driver from committing at the same time, so make sure that no process of "
                "the job is running, then pass driver_is_dead=True (--driver-is-dead)"
            )

    async def refuse_abort(self, engine: Engine, context: JobContext) -> None:
        """A command may have begun to finish the job, or it is one of ours that a JVM was to commit."""
        begun_by, layout, url = context.options.hadoop.begun_by, context.layout, context.url
        if not begun_by and context.options.committer != "magic":
            return
        keys = [info.key async for info in engine.store.list(paths.prefix_of(layout.job_directory))]
        if begun_by == manifest.BEGUN_BY:
            refuse_published(url, context.job, (await manifest.examined(engine, context)).fates)
        if any(magic.is_set(layout, key) for key in keys):
            there = await open_uploads(engine, layout.destination)
            refuse_published(url, context.job, await magic.fates_of_sets(engine, layout, keys, there))

    async def refuse_gone(self, engine: Engine, context: JobContext, output: JobOutput) -> None:
        """Uploads of Hadoop's bear no write id."""
        theirs = (one for one in output.pendings() if write_id_of(one) is None)
        fates = await fates_of(engine, theirs, await open_uploads(engine, context.layout.destination))
        refuse_gone(context.url, context.job, fates)

    async def load(self, engine: Engine, context: JobContext, cluster: Cluster | None) -> JobOutput:
        begun_by, sets = context.options.hadoop.begun_by, None
        if begun_by == manifest.BEGUN_BY:
            one = await manifest.examined(engine, context)
            if one.report.problem:
                raise CommitFailed(f"job {context.job} cannot be committed: {one.report.problem}")
            refuse_gone(context.url, context.job, one.fates)
            return one.listed
        if begun_by == staging.BEGUN_BY:
            sets = await staging.sets_of(engine, context, cluster)
        return await job_output.load_listed(engine, context, sets)

    async def clean_up(self, engine: Engine, context: JobContext, cluster: Cluster | None) -> None:
        """The marker of its setup, and its directory in the cluster's filesystem."""
        begun_by = context.options.hadoop.begun_by
        if begun_by:
            await remove_marker(engine, context.layout)
        if cluster is not None and begun_by in {"", staging.BEGUN_BY}:
            await staging.clear(cluster, context.job)

    def cluster_directory(self, conf: Mapping[str, str]) -> str:
        return staging.cluster_directory(conf)
