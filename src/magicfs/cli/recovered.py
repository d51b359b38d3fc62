"""What ``recover`` and ``abort`` print: one block for each job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from magicfs.cli.printing import human_age, print_fields, print_json, write_line

if TYPE_CHECKING:
    from magicfs.report import RecoveredJob, RecoverReport

__all__ = ["tell"]

_FOUND = 1
_LEFT = "left open: it is not committed, and its driver may be alive"


def tell(report: RecoverReport, nothing: str, *, as_json: bool) -> int:
    """Print a report.

    Args:
        report: What was found and done.
        nothing: What to say if there was no job.
        as_json: Whether to print one line of JSON instead.

    Returns:
        The exit status: 0, or 1 if somebody has to look again.
    """
    if as_json:
        print_json(report.to_dict())
    elif not report.jobs:
        write_line(nothing)
    else:
        for number, job in enumerate(report.jobs):
            if number:
                write_line("")
            _print(report.url, job)
    return _FOUND if report.undecided else 0


def _print(url: str, job: RecoveredJob) -> None:
    ended = job.found == "ended"
    print_fields(
        [
            ("job", job.job_id),
            ("run", job.run_id),
            ("found", job.found if ended else f"{job.found} since {human_age(job.age_s)}, on {job.host}"),
            ("done", _LEFT if job.action == "left" else job.action),
            ("files", job.files if job.action.endswith(("finish", "finished")) else None),
            ("replaced", job.deleted or None),
            ("discarded", f"{job.uploads} upload{'' if job.uploads == 1 else 's'}" if job.uploads else None),
            ("reason", job.reason),
            *(("warning", warning) for warning in job.warnings),
            ("next", _advice(url, job)),
        ]
    )


def _advice(url: str, job: RecoveredJob) -> str:
    if job.action == "left":
        return (
            f"wait for its driver; if that is dead: magicfs commit {url} --job {job.job_id}, or "
            f"magicfs abort {url} --job {job.job_id}"
        )
    if job.action.startswith("would"):
        return "nothing was changed; leave --dry-run out to do it"
    if job.warnings:
        return (
            f"mend what the warnings name, then magicfs recover {url}, and once the job has ended "
            f"magicfs abort {url} --job {job.job_id}, which sweeps what is left"
        )
    return ""
