"""Undoing a job commit that failed: what became visible goes, what waited is discarded."""

from __future__ import annotations

from collections.abc import Sequence

from magicfs.committers import job_output, task_output
from magicfs.committers.base import JobContext
from magicfs.committers.job_output import JobOutput
from magicfs.committers.sweep import sweep
from magicfs.engine import Engine, StageResult, drained
from magicfs.errors import (
    CommitFailed,
    CommitOutcomeUnknown,
    FormatError,
    MagicError,
    ObjectNotFound,
    PermissionDenied,
    ProtocolViolation,
    StoreError,
    Unsupported,
)
from magicfs.formats.pending import Pending
from magicfs.formats.success import SUCCESS_SIZE_LIMIT, SuccessData
from magicfs.protocol import paths
from magicfs.protocol.plan import Complete, Stage
from magicfs.protocol.readback import WRITE_ID, Outcome

__all__ = ["job_failed", "no_longer_pending", "remove"]


async def job_failed(
    engine: Engine, context: JobContext, output: JobOutput, result: StageResult
) -> CommitFailed | CommitOutcomeUnknown:
    """Undo what can be undone, and return the error to raise. After an unknown outcome nothing is undone.

    Args:
        engine: One that gives a silent store up.
        context: The job.
        output: Its files.
        result: What became of completing them, completed steps included.
    """
    done = [step.key for step in result.completed]
    failed = [failure.step.key for failure in result.failures]
    tried = {*done, *failed}
    lists = {
        "done": done,
        "failed": failed,
        "not_started": [p.destination_key for p in output.pendings() if p.destination_key not in tried],
    }
    unknown = next((f for f in result.failures if f.outcome is Outcome.UNKNOWN), None)
    if unknown is not None:
        silent = CommitOutcomeUnknown(
            f"{len(done)} of {output.files} files are published, and the store did not say what became of "
            f"{unknown.step.key}; nothing was removed; call job.commit again: {unknown.error}",
            **lists,
        )
        silent.__cause__ = unknown.error
        return silent
    problems = await _revert(engine, context, output, result)
    first = result.failures[0].error
    whole = (
        f"the {len(done)} files that had become visible were removed again and the rest discarded; run the "
        "job again"
        if not problems
        else f"{len(done)} files had become visible and not all could be undone; call job.abort, then look "
        "at what is left"
    )
    error = CommitFailed(f"{failed[0]} could not be published; {whole}: {first}", **lists)
    for problem in problems:
        error.add_note(f"and undoing it failed: {problem}")
    error.__cause__ = first
    return error


async def _revert(
    engine: Engine, context: JobContext, output: JobOutput, result: StageResult
) -> list[MagicError]:
    """Delete completed files that bear our write id, abort every other upload, and sweep."""
    problems = await remove(engine, result.completed)
    completed = {step.upload_id for step in result.completed}
    rest = [step for step in job_output.aborts(output) if step.upload_id not in completed]
    aborted = await engine.run(Stage("abort", rest), stop_on_failure=False)
    problems += [f.error for f in aborted.failures if isinstance(f.error, MagicError)]
    if problems:
        return problems
    settled = completed | {step.upload_id for step in rest}
    try:
        return (await sweep(engine, context, settled=settled, read_documents=True)).problems
    except StoreError as error:
        return [error]


async def remove(engine: Engine, files: Sequence[Complete]) -> list[MagicError]:
    """Delete those of the files that are visible and bear the write id of their upload; returns problems."""
    problems: list[MagicError] = []
    ours: list[str] = []

    async def look(step: Complete) -> bool:
        try:
            info = await engine.store.head(step.key)
        except ObjectNotFound:
            return True
        except StoreError as error:
            problems.append(error)
            return True
        if step.write_id is not None and info.metadata.get(WRITE_ID) == step.write_id:
            ours.append(step.key)
        elif step.write_id is None:
            problems.append(
                CommitFailed(
                    f"{step.key} stays: its upload carries no write id, so the file cannot be told from "
                    "somebody else's; look at it and remove it by hand"
                )
            )
        return True

    await drained(files, look, engine.concurrency)
    return problems + await task_output.delete_keys(engine, sorted(ours))


async def no_longer_pending(
    engine: Engine, context: JobContext, pendings: Sequence[Pending]
) -> list[Pending]:
    """Those of a job's uploads that are aborted, or visible because a job commit died half-way.

    Raises:
        ProtocolViolation: The job commit had reached ``_SUCCESS``: the job is published.
        StoreError: The store failed.
    """
    if not pendings:
        return []
    try:
        listing = engine.store.list_uploads(paths.prefix_of(context.layout.destination))
        waiting = {upload.upload_id async for upload in listing}
    except (PermissionDenied, Unsupported):
        waiting = set()  # not everybody may list uploads; then every file is looked at
    gone = [pending for pending in pendings if pending.upload_id not in waiting]
    if gone and await _is_published(engine, context):
        raise ProtocolViolation(
            f"job {context.job} is published, as {context.layout.success_key} tells; nothing was removed"
        )
    return gone


async def _is_published(engine: Engine, context: JobContext) -> bool:
    key = context.layout.success_key
    try:
        raw = await engine.store.get(key, size_max=SUCCESS_SIZE_LIMIT + 1)
        return SuccessData.from_bytes(f"{engine.store.bucket}/{key}", raw).job_id == context.job
    except (ObjectNotFound, FormatError):
        return False
