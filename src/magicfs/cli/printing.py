"""What commands print: one compact JSON line, or text for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from magicfs.protocol.period import human_age

if TYPE_CHECKING:
    from magicfs.cli.guests import Mended
    from magicfs.report import ForeignJob, JobReport, RecoveredJob, RecoverReport

__all__ = [
    "human_moment",
    "print_fields",
    "print_job_report",
    "print_json",
    "print_recovered",
    "print_table",
    "printable",
    "write_line",
]

_LEFT_OPEN = "left open: it is not committed, and its driver may be alive"
_LEFT_UNJUDGED = "left open: its audit is still to come, and its driver may be alive"
_LEFT_HELD = "left in quarantine: its audit failed, and nothing of it is published"


def write_line(text: str) -> None:
    """Write one line to stdout."""
    sys.stdout.write(text + "\n")


def print_json(document: Mapping[str, object]) -> None:
    """Write one compact line of JSON to stdout, in ASCII whatever the terminal's encoding."""
    write_line(json.dumps(document, separators=(",", ":"), allow_nan=False))


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write rows in columns; the last column is not padded."""
    table = [header, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header) - 1)]
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        write_line("  ".join([*cells, row[-1]]))


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Write one ``name  value`` line each; what is empty or None is left out."""
    shown = [(name, printable(str(value))) for name, value in fields if value not in (None, "")]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        write_line(f"{name.ljust(width)}  {value}")


def printable(text: str) -> str:
    """Text from elsewhere, made harmless for a terminal: control and format characters are escaped."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def print_job_report(report: JobReport, *, as_json: bool) -> None:
    """Write what a job did."""
    if as_json:
        print_json(report.to_dict())
        return
    for line in str(report).splitlines():
        write_line(printable(line))


def human_moment(milliseconds: int) -> str:
    """A moment since the epoch as date and time; empty for 0, which stands for no moment."""
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms since the epoch"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else ""


def print_recovered(
    report: RecoverReport, nothing: str, mended: Sequence[Mended] = (), *, as_json: bool
) -> int:
    """Print what ``recover`` or ``abort`` found and did, a block for each job and each thing that guests have
    mended, or ``nothing``. Returns the exit status: 0, or 1 if somebody has to look again.
    """
    from magicfs.transaction.context import crowded

    if as_json:
        print_json({**report.to_dict(), **{one.member: one.documents for one in mended if one.documents}})
    elif not report.jobs:
        write_line(nothing)
    else:
        if many := crowded(report.url, len(report.jobs)):
            write_line(f"{printable(many)}\n")
        for number, job in enumerate(report.jobs):
            if number:
                write_line("")
            _print_job(report.url, job)
    for block in () if as_json else (block for one in mended for block in one.blocks):
        write_line("")
        print_fields(block)
    undecided = report.undecided or any(one.undecided for one in mended)
    return 1 if undecided else 0


def _print_job(url: str, job: RecoveredJob) -> None:
    print_fields(
        [
            ("job", job.job_id),
            ("run", job.run_id),
            ("found", _found(job)),
            ("done", _done(job)),
            *_come_to(job.foreign),
            ("files", job.files if job.action.endswith(("finish", "finished")) else None),
            ("replaced", job.deleted or None),
            ("discarded", f"{job.uploads} upload{'' if job.uploads == 1 else 's'}" if job.uploads else None),
            ("reason", job.reason),
            *(("warning", warning) for warning in job.warnings),
            ("next", _advice(url, job)),
        ]
    )


def _found(job: RecoveredJob) -> str:
    if job.foreign is not None:
        age = human_age(job.age_s)
        return f"a job of Hadoop's {job.foreign.committer} committer, last written {age} ago"
    return job.found if job.found == "ended" else f"{job.found} since {human_age(job.age_s)}, on {job.host}"


def _come_to(one: ForeignJob | None) -> list[tuple[str, object]]:
    """What a job of Hadoop's has come to."""
    from magicfs.report import human_bytes

    if one is None:
        return []
    what = "files to be renamed" if one.committer == "manifest" else "uploads that are open"
    return [
        ("attempt", one.attempt),
        ("committed", f"{one.tasks} tasks, {one.files} files ({human_bytes(one.bytes)})"),
        ("published", f"{one.published} of the files, by its driver" if one.published else None),
        (
            "doubtful",
            f"{one.doubtful} files: perhaps its driver has published them" if one.doubtful else None,
        ),
        ("gone", f"{one.gone} files: nobody can publish them any more" if one.gone else None),
        ("waiting", f"{one.uploads} {what}" if one.uploads else None),
        ("problem", one.problem),
    ]


def _done(job: RecoveredJob) -> str:
    if job.action != "left":
        return job.action
    return {"quarantined": _LEFT_HELD, "unjudged": _LEFT_UNJUDGED}.get(job.found, _LEFT_OPEN)


def _advice(url: str, job: RecoveredJob) -> str:
    if job.action == "left" and job.found == "quarantined":
        return (
            f"magicfs commit {url} --job {job.job_id} --accept REASON publishes it all the same, magicfs "
            f"abort {url} --job {job.job_id} discards it"
        )
    if job.action == "left" and job.found == "unjudged":
        return (
            "wait for its driver; if that is dead, make its Job again with the same job_id, attempt and "
            f"rules, and commit; or magicfs commit {url} --job {job.job_id} --accept REASON publishes it "
            f"unjudged, magicfs abort {url} --job {job.job_id} discards it"
        )
    if job.action == "left" and job.foreign is not None:
        return (
            "wait for its driver; if no process of the job lives: "
            f"magicfs commit {url} --job {job.job_id} --driver-is-dead publishes all of it, "
            f"magicfs abort {url} --job {job.job_id} --driver-is-dead discards it, if nothing is published"
        )
    if job.action == "left":
        return (
            f"wait for its driver; if that is dead: magicfs commit {url} --job {job.job_id}, or "
            f"magicfs abort {url} --job {job.job_id}"
        )
    if job.action.startswith("would"):
        return "nothing was changed; leave --dry-run out to do it"
    if job.warnings:
        return (
            f"fix what the warnings name, then magicfs recover {url}, and once the job has ended and none of "
            f"its tasks runs any more, magicfs abort {url} --job {job.job_id} --driver-is-dead, which sweeps "
            "what is left"
        )
    return ""
