"""What follows once a job's files are visible: ``_SUCCESS``, cleaning up, the report."""

from __future__ import annotations

import socket
import time

from magicfs.committers.base import JobContext
from magicfs.committers.job_output import JobOutput
from magicfs.committers.sweep import Swept, sweep
from magicfs.engine import Engine, StageResult
from magicfs.formats.statistics import Statistics
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT, SuccessData
from magicfs.protocol import paths
from magicfs.report import JobReport
from magicfs.version import __version__

__all__ = ["finish"]


async def finish(
    engine: Engine,
    context: JobContext,
    committer: str,
    output: JobOutput,
    result: StageResult,
    started: float,
) -> JobReport:
    """Write ``_SUCCESS``, remove what the job left, and tell. No trouble raises: the files are published.

    Args:
        engine: One that gives a silent store up.
        context: The job.
        committer: Its name.
        output: Its files.
        result: The steps that completed them.
        started: When the job commit began, by ``time.monotonic``.
    """
    statistics = output.statistics + Statistics(
        counters={
            "committer_bytes_committed": output.bytes,
            "committer_commits_completed": output.files,
            "committer_jobs_completed": 1,
        }
    )
    keys = [step.key for step in result.completed[:SUCCESS_MARKER_FILE_LIMIT]]
    warnings = []
    try:
        success = _success(context, committer, engine.concurrency, keys, statistics)
        await engine.store.put(context.layout.success_key, success)
    except Exception as error:  # noqa: BLE001 - see above
        warnings.append(
            f"the files are published but {context.layout.success_key} could not be written: {error}"
        )
    try:
        swept = await sweep(engine, context, settled=[step.upload_id for step in result.completed])
        troubles: list[Exception] = [*swept.problems]
    except Exception as error:  # noqa: BLE001 - see above
        swept, troubles = Swept(), [error]
    warnings += [f"the files are published but cleaning up failed: {trouble}" for trouble in troubles]
    scheme = paths.parse_url(context.url).scheme
    return JobReport(
        job_id=context.job,
        destination=context.url,
        committer=committer,
        conflict=context.conflict,
        tasks=len(output.sets),
        files=output.files,
        bytes=output.bytes,
        seconds=time.monotonic() - started,
        uploads_aborted=swept.aborted,
        filenames=tuple(paths.Location(scheme, engine.store.bucket, key).url for key in keys),
        warnings=tuple(warnings),
        statistics=statistics,
    )


def _success(
    context: JobContext, committer: str, concurrency: int, keys: list[str], statistics: Statistics
) -> bytes:
    diagnostics = {
        "magicfs.concurrency": str(concurrency),
        "magicfs.conflict": context.conflict,
        "magicfs.version": __version__,
    }
    success = SuccessData(
        hostname=socket.gethostname(),
        committer=committer,
        description=f"magicfs job {context.job}",
        job_id=context.job,
        job_id_source="magicfs",
        diagnostics=diagnostics,
        filenames=tuple(f"/{key}" for key in keys),
        statistics=statistics,
    )
    return success.touched(int(time.time() * 1000)).to_bytes()
