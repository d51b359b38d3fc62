"""How ``magicfs show`` shows the log of publications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from magicfs.cli.printing import human_moment, print_fields, print_table, write_line

if TYPE_CHECKING:
    from magicfs.formats.log import Log, LoggedJob, LoggedNames, LoggedPart, LogPart

__all__ = ["show_log", "show_log_names", "show_log_part"]


def show_log(url: str, log: Log) -> None:
    """Print a log: what it tells of, its last jobs, and where the others are."""
    print_fields(
        [
            ("file", url),
            ("kind", "what was published (log)"),
            ("beside", log.job_id),
            ("up to", log.newest),
            ("publications", log.jobs),
            ("runs", log.runs),
            ("names", f"{sum(one.names for one in log.names)} in {len(log.names)} sets"),
            ("outdated files", len(log.outdated) or None),
        ]
    )
    _print_jobs(log.last)
    _print_parts(log.parts)


def show_log_part(url: str, part: LoggedPart) -> None:
    """Print a part of a log: jobs, or where they are."""
    print_fields(
        [
            ("file", url),
            ("kind", "what was published (a part of the log)"),
            ("beside", part.job_id),
            ("publications", len(part.jobs) or sum(one.jobs for one in part.parts)),
        ]
    )
    _print_jobs(part.jobs)
    _print_parts(part.parts)


def show_log_names(url: str, names: LoggedNames) -> None:
    """Print the ids of jobs and runs of one file."""
    print_fields(
        [
            ("file", url),
            ("kind", "ids of published jobs and runs (names of the log)"),
            ("beside", names.job_id),
            ("runs", len(names.runs)),
            ("jobs", len(names.jobs)),
        ]
    )
    if names.runs:
        write_line("")
        print_table(("JOB", "RUN"), ((job, run) for run, job in names.runs))
    if names.jobs:
        write_line("")
        print_table(("JOB",), ((job,) for job in names.jobs))


def _print_jobs(jobs: Sequence[LoggedJob]) -> None:
    from magicfs.report import human_bytes

    if jobs:
        write_line("")
        cells = (
            (
                human_moment(one.committed_ms),
                one.job_id,
                one.mode,
                f"{one.files}",
                human_bytes(one.size),
                one.run_id or "",
            )
            for one in reversed(jobs)
        )
        print_table(("PUBLISHED", "JOB", "MODE", "FILES", "SIZE", "RUN"), cells)


def _print_parts(parts: Sequence[LogPart]) -> None:
    if parts:
        write_line("")
        cells = (
            (f"{one.jobs}", f"since {human_moment(one.oldest_ms)}", f"{one.job_id}/{one.name}")
            for one in reversed(parts)
        )
        print_table(("JOBS", "PUBLISHED", "LISTED IN"), cells)
