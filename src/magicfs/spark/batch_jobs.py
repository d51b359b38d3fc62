"""The jobs of a stream's batches: named after sink and batch, so that a replay finds what there is of them.

Spark runs a batch again, with the same rows and the same number, until its commit has returned. Such a replay
must publish nothing twice, wherever the one before it stopped. So the run of a batch is named
``stream/<sink>/<batch>``, and where tasks write before anybody has set a job up, the job's id is a hash of
destination and run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from uuid import NAMESPACE_URL, UUID, uuid5

from magicfs.datasets.abort import abort_job
from magicfs.datasets.connection import context_of
from magicfs.datasets.recover import finish_job
from magicfs.engine import Engine
from magicfs.errors import CommitOutcomeUnknown, CommitUnfinished, MagicError, ProtocolViolation, UsageError
from magicfs.formats.pending import Pending
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.checks import RUN_ID_MAX
from magicfs.job.job import Job
from magicfs.job.spec import JobSpec
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.manifests.log import job_of_run_by
from magicfs.protocol import ids
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import Wish
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.paths import Location
from magicfs.protocol.steps import Abort, Batch
from magicfs.report import JobReport
from magicfs.runtime.interrupt import run_on
from magicfs.runtime.parallel import raise_first
from magicfs.stores.resolve import location_of
from magicfs.transaction import output
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.others import find_unfinished_jobs
from magicfs.transaction.sweep import plan_sweep


def log_report(report: JobReport) -> None:
    """Log what a job did, and each trouble that it had after its files were published as a warning."""
    _LOG.info("%s", report)
    for warning in report.warnings:
        _LOG.warning("job %s of %s: %s", report.job_id, report.destination, warning)


_COMMIT_TRIES = 3
_STREAM = "stream/"
_BATCH_DIGITS = 19
_LOG = logging.getLogger(__name__)


def check_sink(sink_id: str) -> str:
    """Return the name of a stream's sink; raises UsageError if it is none."""
    length_max = RUN_ID_MAX - len(_STREAM) - 1 - _BATCH_DIGITS
    if not sink_id.strip() or not sink_id.isprintable() or len(sink_id) > length_max:
        raise UsageError(
            f"sink_id={sink_id!r} is not a valid sink name; use at most {length_max} printable "
            "characters, and a different name for each query"
        )
    return sink_id


def run_of(sink_id: str, batch_id: int) -> str:
    """The run of a batch."""
    return f"{_STREAM}{check_sink(sink_id)}/{batch_id}"


def batch_of(run_id: str, sink_id: str) -> int | None:
    """The batch that a run was of; None if it is no run of this sink."""
    start = f"{_STREAM}{sink_id}/"
    number = run_id.removeprefix(start)
    return int(number) if run_id.startswith(start) and number.isascii() and number.isdecimal() else None


def job_id_of(url: str, sink_id: str, batch_id: int) -> UUID:
    """The id of the job of a batch, for processes that cannot be given it: the same in all of them."""
    place = location_of(url)
    return uuid5(NAMESPACE_URL, f"magicfs-{place.scheme}://{place.path}\n{run_of(sink_id, batch_id)}")


async def published_batch(engine: Engine, location: Location, *, sink_id: str, batch_id: int) -> str | None:
    """The job that has published a batch; None if none has.

    The batches of a sink are published in order. So the pointer, which names the last runs, nearly always
    knows; only for a batch that is older than those the log or the chain is asked.
    """
    store, run = engine.store, run_of(sink_id, batch_id)
    seen = await chain.read_pointer(store, location.key, READING)
    if seen is None:
        return None
    known = [found for name, _ in seen[0].runs if (found := batch_of(name, sink_id)) is not None]
    if known and batch_id > max(known):
        return None
    return await job_of_run_by(store, location.key, READING, seen[0], run)


def commit_batch(
    job: Job,
    sink_id: str,
    batch_id: int,
    commits: Sequence[TaskCommit],
    check: Callable[[Job], None] | None = None,
) -> JobReport:
    """Publish a batch, or discard what a replay of it has written.

    What an earlier commit of the batch has left is brought to its end first: past its commit point it is
    finished, and this call publishes nothing. The job is of ``job_id_of`` and ``run_of``, and not set up yet;
    the commits are those that the engine accepted. ``check`` raises where their rows may not be published
    here; it is not asked about a replay. After an error Spark runs the batch again.
    """
    spec = job.spec
    before = run_on(spec.loop, _settled, spec, sink_id, batch_id, commits)
    if before is None:
        job.setup()
        if check is not None:
            check(job)
        for _ in range(_COMMIT_TRIES - 1):
            try:
                return _told(job.commit(commits), sink_id, batch_id)
            except (CommitOutcomeUnknown, CommitUnfinished):
                continue
        return _told(job.commit(commits), sink_id, batch_id)
    try:
        run_on(spec.loop, _discarded, spec, commits)
    except MagicError as error:
        # The batch is published: nobody has to run it again because of what a replay has left.
        _LOG.warning(
            "the files of a replay of batch %s of %s were not fully discarded: %s", batch_id, sink_id, error
        )
    return _told(
        JobReport.before(before, job.url, spec.options.committer, spec.options.mode), sink_id, batch_id
    )


def abort_batch(job: Job, sink_id: str, batch_id: int, commits: Sequence[TaskCommit]) -> None:
    """Discard what a batch wrote, unless it is published. What cannot be discarded is logged.

    The job is of ``job_id_of`` and ``run_of``, and not set up.
    """
    # Raised, an error would hide from the user why the batch failed.
    spec = job.spec
    try:
        try:
            run_on(spec.loop, spec.make_committer().abort_job, commits, None)
        except ProtocolViolation as error:
            _LOG.warning("Spark aborted batch %s of %s, but it is published: %s", batch_id, sink_id, error)
            run_on(spec.loop, _discarded, spec, commits)
    except MagicError as error:
        _LOG.warning("batch %s of %s could not be fully discarded: %s", batch_id, sink_id, error)


def _told(report: JobReport, sink_id: str, batch_id: int) -> JobReport:
    log_report(report)
    if report.published_before:
        text = "batch %s of sink %s was already published, by job %s; the files written now were discarded"
        _LOG.warning(text, batch_id, sink_id, report.job_id)
    return report


async def settled_batch(engine: Engine, location: Location, *, sink_id: str, batch_id: int) -> str | None:
    """Bring to an end what earlier runs of a batch left; returns the job that has published it, if any.

    For ``foreachBatch``, whose jobs have ids of their own and settle each other once they are set up. That
    does not reach a job that died when all was published but not all cleaned up, for then nobody sets one up
    again; nor what tasks of ``writeStream`` uploaded for a job that was never set up, or in a replay that
    died. After a StoreError call again.
    """
    published = await published_batch(engine, location, sink_id=sink_id, batch_id=batch_id)
    unset = ids.job_id(job_id_of(location.url, sink_id, batch_id))
    if published is None:
        await _swept(engine, location, unset)
        return None
    await _cleaned_up(engine, location, published, run_of(sink_id, batch_id))
    try:
        await _swept(engine, location, unset)
    except MagicError as error:
        # The batch is published: nobody has to run it again because of what a replay has left.
        _log_left((f"the uploads of a replay were not fully discarded: {error}",), unset)
    return published


async def _swept(engine: Engine, location: Location, unset: JobId) -> None:
    """Discard what tasks of ``writeStream`` have left, unless their job is set up."""
    plan = await plan_sweep(engine, context_of(location, WorkLayout(location.key, unset)))
    if (plan.uploads or plan.keys) and all(
        one.job_id != unset for one in await find_unfinished_jobs(engine, location.key)
    ):
        # Its id is that of the batch, so it is none of Hadoop's, and Spark runs a batch once at a time.
        await abort_job(engine, location, job=unset, driver_is_dead=True)


async def _cleaned_up(engine: Engine, location: Location, published: str, run: str) -> None:
    """Clean up after a published run: its job, if that could not do so itself, and jobs of other tries.

    Such a job has died when it had learned, in its setup, that the run is published. What could not be done
    is logged.
    """
    for other in await find_unfinished_jobs(engine, location.key):
        if other.job_id == published:
            _log_left((await finish_job(engine, location, other)).warnings, published)
        elif other.job is not None and other.job.options.run_id == run:
            context = context_of(location, other.layout).of(other.job)
            reason = f"the run was published by job {published}"
            try:
                await JobTransaction(engine, context).finish(Wish.SUPERSEDE, reason=reason)
            except MagicError as error:
                _log_left((str(error),), other.job_id)


def _log_left(warnings: Iterable[str], job: str) -> None:
    for warning in warnings:
        _LOG.warning("job %s, which an earlier run of this batch began: %s", job, warning)


async def _settled(spec: JobSpec, sink_id: str, batch_id: int, commits: Iterable[TaskCommit]) -> str | None:
    """Bring an earlier commit of a batch to its end; returns the job that has published the batch."""
    engine = Engine(spec.store(), spec.concurrency)
    # An earlier attempt that is taken back takes what this one has written along only by mistake.
    ours = [one.upload_id for one in _uploads(spec, engine, commits)]
    done = await JobTransaction(engine, spec.context).finish(settled=ours)
    if done is not None:
        _log_left(done.warnings, spec.job)
    published: str | None = spec.job
    if await chain.read(engine.store, spec.location.key, spec.job, READING) is None:
        published = await published_batch(engine, spec.location, sink_id=sink_id, batch_id=batch_id)
    if published is not None:
        await _cleaned_up(engine, spec.location, published, run_of(sink_id, batch_id))
    return published


async def _discarded(spec: JobSpec, commits: Sequence[TaskCommit]) -> None:
    """Abort the uploads of a published batch's replay: those that are known, and all that have its id."""
    engine = Engine(spec.store(), spec.concurrency).for_cleanup()
    steps = [Abort(one.destination_key, one.upload_id) for one in _uploads(spec, engine, commits)]
    result = await engine.run(Batch("abort", steps), stop_on_failure=False)
    await spec.make_committer().abort_job((), None)
    raise_first([failure.error for failure in result.failures])


def _uploads(spec: JobSpec, engine: Engine, commits: Iterable[TaskCommit]) -> list[Pending]:
    carried = output.carried(engine, spec.context, tuple(commits))
    return [one for one in carried if one.is_upload]
