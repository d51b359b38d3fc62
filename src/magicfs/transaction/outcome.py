"""What became of a job that somebody brought to its end, and how its driver hears of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from magicfs.engine import BatchLists, Failure
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitOutcomeUnknown,
    MagicError,
    OutputExists,
    ProtocolViolation,
    StoreError,
    UploadNotFound,
    UsageError,
)
from magicfs.protocol.job_state import JobState
from magicfs.transaction.context import JobContext
from magicfs.transaction.output import JobOutput

ENDED_ELSEWHERE = "another process finished the job"
"""The warning of a driver that came late."""


class JobEnd(Enum):
    """How a job ended."""

    PUBLISHED = "published"
    REVERTED = "reverted"
    ABORTED = "aborted"
    LEFT = "left to its driver"
    ELSEWHERE = "ended by another process"


_PURGED = (
    "its upload is gone: it was aborted by a lifecycle rule, or by a Hadoop S3A job that ended at the same "
    "destination with fs.s3a.committer.abort.pending.uploads=true, its default; "
)


@dataclass(slots=True)
class JobOutcome:
    """What was done to bring a job to its end."""

    end: JobEnd = JobEnd.ELSEWHERE
    output: JobOutput = field(default_factory=JobOutput)  # its files, if they were read
    aborted: int = 0  # uploads that were discarded
    unlisted: MagicError | None = None  # why uploads that nothing records could not be looked for
    deleted: int = 0  # old files that were removed
    warnings: list[str] = field(default_factory=list)  # after the files were published; recover finishes
    is_unfinished: bool = False  # whether it is published, and its object is still there for recover
    unsettled: Exception | None = None  # why manifest, pointer or _SUCCESS could not be written
    failure: Exception | None = None  # why a job that could not be published was taken back
    lists: BatchLists = field(
        default_factory=lambda: BatchLists(done=[], failed=[], not_started=[])
    )  # keys done, failed and not started then


def refusal(job: str, state: JobState) -> CommitDenied:
    """A job that is past its commit point is neither aborted nor, at the end, rolled back."""
    if state is not JobState.COMMITTING:
        advice = "every file of it is visible; run recover to finish it"
    else:
        advice = (
            "some of its files may be visible; run recover to finish it, or recover --rollback to undo it"
        )
    return CommitDenied(f"job {job} is {state} and stays so: {advice}; nothing was changed")


def ended(url: str, job: str) -> CommitDenied:
    """Nothing is ever published for a job that has ended, whatever its tasks have left since."""
    return CommitDenied(
        f"job {job} has already been published or aborted and cannot be committed again; nothing was "
        f"changed; after its last task has ended, remove leftovers with magicfs recover {url} --job {job} "
        "--abort --driver-is-dead"
    )


def run_is_published(context: JobContext, job: str) -> OutputExists:
    """The error for ``rerun="error"``."""
    return OutputExists(
        f"the run {context.options.run_id!a} was already published at {context.url} by job {job}, and "
        "rerun='error' publishes no run twice; nothing was changed; use another run_id for other data, "
        "rerun='skip', or rerun='overwrite'"
    )


def has_no_files(context: JobContext) -> UsageError:
    """A job without files replaces nothing, unless ``allow_empty`` was given."""
    would = "would only delete existing data"
    if context.options.mode == "overwrite_partitions":
        would = "would have no partition to replace"
    return UsageError(
        f"job {context.job} has no files, and mode={context.options.mode!r} {would}; nothing was "
        "changed; pass options={'allow_empty': True} if you mean it"
    )


def published(context: JobContext) -> ProtocolViolation:
    """A published job is not aborted."""
    return ProtocolViolation(
        f"job {context.job} is published; nothing was removed; run magicfs recover {context.url} if its "
        "driver died before it had cleaned up"
    )


def published_by_jvm(url: str, job: str) -> ProtocolViolation:
    """A job of ours that a JVM has committed, as ``_SUCCESS`` says."""
    return ProtocolViolation(
        f"job {job} is published: a committer of Hadoop's has committed it, as {url}/_SUCCESS says; nothing "
        "was removed; commit it in its driver, which adds its manifest, or run "
        f"magicfs.Dataset({url!r}).adopt() while no job writes there; do not run the job again"
    )


def unfinished(context: JobContext, error: Exception) -> str:
    """Every file is visible, but manifest, pointer or ``_SUCCESS`` could not be written."""
    return (
        f"the files are published but the job could not be finished: {error}; readers of manifests may not "
        f"see those of job {context.job}, and _SUCCESS may be missing; nothing is lost; fix the cause, then "
        f"run magicfs recover {context.url}"
    )


def undecided(context: JobContext, error: StoreError) -> CommitOutcomeUnknown:
    """The store did not answer after the commit point."""
    return CommitOutcomeUnknown(
        f"the store did not answer while job {context.job} was being committed; nothing was removed; commit "
        f"again, or run magicfs recover {context.url}: {error}"
    )


def undecided_file(
    context: JobContext, failure: Failure, files: int, lists: BatchLists
) -> CommitOutcomeUnknown:
    """The store did not say what became of a file."""
    return CommitOutcomeUnknown(
        f"{len(lists['done'])} of {files} files are published, and the state of {failure.step.key} is "
        f"unknown; nothing was removed; commit again, or run magicfs recover {context.url}: {failure.error}",
        **lists,
    )


def not_published(context: JobContext, outcome: JobOutcome) -> CommitFailed | CommitDenied:
    """The job ended, and not by being published."""
    if outcome.failure is None:
        return CommitDenied(
            f"job {context.job} was {outcome.end.value} by another process; run the job again"
        )
    done, failed = outcome.lists["done"], outcome.lists["failed"]
    why = _PURGED if isinstance(outcome.failure, UploadNotFound) else ""
    error = CommitFailed(
        f"{failed[0]} could not be published; the {len(done)} visible files were removed again and the rest "
        f"discarded; {why}run the job again: {outcome.failure}",
        **outcome.lists,
    )
    error.__cause__ = outcome.failure
    return error


def stuck(context: JobContext, no_way_back: str, error: Exception, lists: BatchLists) -> CommitFailed:
    """A file could not be published, and the job cannot be taken back."""
    advice = f"fix the cause and run magicfs recover {context.url}"
    if isinstance(error, UploadNotFound):
        advice = (
            f"{_PURGED}so nothing can finish the job: check the files, remove everything under "
            f"{context.layout.job_directory}, and publish the data again"
        )
    return CommitFailed(
        f"{lists['failed'][0]} could not be published, and job {context.job} can no longer be rolled back: "
        f"{no_way_back}; nothing was removed; {advice}: {error}",
        **lists,
    )


def not_undone(context: JobContext, outcome: JobOutcome, error: MagicError) -> CommitFailed:
    """The job could neither be published nor taken back whole."""
    why = outcome.failure or "another process is rolling it back"
    failed = CommitFailed(
        f"job {context.job} is not published, and could not be fully undone: {why}; call job.abort, or run "
        f"magicfs recover {context.url}",
        **outcome.lists,
    )
    failed.add_note(f"and undoing it failed: {error}")
    return failed
