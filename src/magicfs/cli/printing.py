"""What commands print: one compact JSON line, or text for people."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from magicfs.cli.commands import names
from magicfs.cli.statuses import Status, exit_code, status_of, worst
from magicfs.protocol.period import human_time
from magicfs.report import human_bytes

if TYPE_CHECKING:
    from magicfs.cli.guests import Part
    from magicfs.report import JobReport, RecoveredJob, RecoverReport

AGAIN = "nothing was changed; run again without --dry-run to do it"
_COMMAND = re.compile(
    r"\bmagicfs ([a-z]+)\b(?: (?:--job [\w.-]+|--[a-z-]+|[a-z][a-z0-9+]*://[^\s;,'\")]+|'[^']*'|\"[^\"]*\"|[A-Z]{2,}\b))*"
)
_LEFT_OPEN = "left open: it is not committed, and its driver may still be running"
_LEFT_UNJUDGED = "left open: its audit has not run, and its driver may still be running"
_LEFT_HELD = "left in quarantine: its audit failed, and none of its files is published"


Field: TypeAlias = tuple[str, object]


class Table(NamedTuple):
    """Rows in columns."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


Shown: TypeAlias = Sequence[Sequence[Field] | Table]
"""What is printed, with an empty line between."""


def write_line(text: str) -> None:
    """Write one line to stdout."""
    sys.stdout.write(text + "\n")


def print_json(document: Mapping[str, object]) -> None:
    """Write one compact line of JSON to stdout, in ASCII whatever the terminal's encoding."""
    write_line(json.dumps(document, separators=(",", ":"), allow_nan=False))


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write rows in columns."""
    from magicfs.report import text_table

    for line in text_table(([printable(cell) for cell in row] for row in rows), header):
        write_line(line)


def print_shown(shown: Shown, first: str = "") -> None:
    """Write fields and tables, after a first line if there is one; what is empty is left out."""
    if first:
        write_line(first)
    found = [one for one in shown if (one.rows if isinstance(one, Table) else _filled(one))]
    for number, one in enumerate(found):
        if number or first:
            write_line("")
        (print_table if isinstance(one, Table) else print_fields)(*one)


def print_fields(*fields: Field) -> None:
    """Write one ``name  value`` line each; what is empty or None is left out."""
    shown = [(name, printable(str(value))) for name, value in _filled(fields)]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        write_line(f"{name.ljust(width)}  {value}")


def _filled(fields: Iterable[Field]) -> list[Field]:
    return [(name, value) for name, value in fields if value not in (None, "")]


def printable(text: str) -> str:
    """Text from elsewhere, made harmless for a terminal: control and format characters are escaped."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def print_report(
    arguments: argparse.Namespace,
    report: Any,
    fields: Iterable[Field] = (),
    *,
    nothing: str = "",
    done: bool = True,
) -> int:
    """Write what a command did: its fields, or ``nothing`` if that says that there was nothing to do.

    Returns the exit status. ``done``: whether something was done, or with ``--dry-run`` would be.
    """
    would = done and not nothing and getattr(arguments, "dry_run", False)
    warnings = getattr(report, "warnings", ())
    if arguments.json:
        print_json(report.to_dict())
    elif nothing:
        write_line(printable(nothing))
    else:
        print_fields(*fields, *(("warning", one) for one in warnings), ("next", AGAIN if would else ""))
    return status_of(found=would, unfinished=warnings)


def print_job_report(report: JobReport, *, as_json: bool) -> int:
    """Write what a job did. Returns the exit status."""
    if as_json:
        print_json(report.to_dict())
    else:
        for line in str(report).splitlines():
            write_line(printable(line))
    return status_of(found=False, unfinished=report.warnings)


def print_error(error: BaseException, *, as_json: bool) -> int:
    """Write an error to stderr. Returns the exit status that stands for it."""
    document = error_document(error)
    if as_json:
        said = json.dumps(document, separators=(",", ":"))
    else:
        said = "magicfs: " + "\n  ".join(map(printable, str(document["message"]).splitlines()))
    sys.stderr.write(said + "\n")
    return exit_code(error)


def error_document(error: BaseException) -> dict[str, object]:
    """An error, ready for JSON."""
    said = "\n".join([str(error) or "interrupted", *getattr(error, "__notes__", ())])
    status = int(exit_code(error))
    return {"kind": type(error).__name__, "message": said, "next": _next(said), "exit_status": status}


def _next(message: str) -> str | None:
    """The first command of ours that a message names, whole; None if it names none."""
    found = (one for one in _COMMAND.finditer(message) if one[1] in names())
    return next((one[0].rstrip(".:") for one in found), None)


def human_moment(milliseconds: float) -> str:
    """A moment since the epoch as age and time of day; empty for 0, which stands for no moment."""
    return human_time(milliseconds / 1000, time.time()) if milliseconds else ""


def print_recovered(report: RecoverReport, nothing: str, parts: Sequence[Part] = (), *, as_json: bool) -> int:
    """Print what ``recover`` found and did, a block for each job and each thing that guests did, or
    ``nothing``. Returns the exit status.
    """
    from magicfs.transaction.context import crowded

    if as_json:
        print_json({**report.to_dict(), **{one.name: one.document for one in parts if one.document}})
    else:
        first = printable(crowded(report.url, len(report.jobs))) if report.jobs else nothing
        failed = [((one.name, one.line),) for one in parts if one.status > Status.FOUND]
        blocks = [block for one in parts for block in one.blocks]
        print_shown([*(_fields(report.url, job) for job in report.jobs), *failed, *blocks], first)
    own = status_of(found=report.undecided, unfinished=[one for job in report.jobs for one in job.warnings])
    return worst([own, *(one.status for one in parts)])


def _fields(url: str, job: RecoveredJob) -> list[Field]:
    return [
        ("job", job.job_id),
        ("run", job.run_id),
        ("label", job.label),
        ("found", _found(job)),
        ("done", _done(job)),
        *_come_to(job),
        ("files", job.files if job.action.endswith(("finish", "finished")) else None),
        ("replaced", job.deleted or None),
        (
            "discards" if job.action.startswith("would") else "discarded",
            f"{job.uploads} upload{'' if job.uploads == 1 else 's'}" if job.uploads else None,
        ),
        ("reason", job.reason),
        *(("warning", warning) for warning in job.warnings),
        ("next", _advice(url, job)),
    ]


def _found(job: RecoveredJob) -> str:
    moved = human_moment((time.time() - job.age_s) * 1000)
    if job.foreign is not None:
        return f"a job of Hadoop's {job.foreign.committer} committer, last written {moved}"
    return job.found if job.found == "ended" else f"{job.found}, last moved {moved}, on {job.host}"


def _come_to(job: RecoveredJob) -> list[Field]:
    """What a job of Hadoop's has come to."""
    if (one := job.foreign) is None:
        return []
    what = "files to be renamed" if one.committer == "manifest" else "uploads that are open"
    return [
        ("attempt", one.attempt),
        ("committed", f"{one.tasks} tasks, {one.files} files ({human_bytes(one.bytes)})"),
        ("published", f"{one.published} of the files, by its driver" if one.published else None),
        (
            "doubtful",
            f"{one.doubtful} files may have been published by its driver" if one.doubtful else None,
        ),
        ("gone", f"{one.gone} files can no longer be published" if one.gone else None),
        ("waiting", f"{one.uploads} {what}" if one.uploads and job.is_left else None),
        ("problem", one.problem),
    ]


def _done(job: RecoveredJob) -> str:
    if job.action != "left":
        return job.action
    return {"quarantined": _LEFT_HELD, "unjudged": _LEFT_UNJUDGED}.get(job.found, _LEFT_OPEN)


def _advice(url: str, job: RecoveredJob) -> str:
    line = f"magicfs recover {quote(url)} --job {quote(job.job_id)}"
    if job.action == "left":
        if job.found == "quarantined":
            return f"{line} --commit --accept REASON publishes it anyway, {line} --abort discards it"
        if job.found == "unjudged":
            return (
                "wait for its driver; if that is dead, create its Job again with the same job_id, attempt "
                f"and rules, and commit; or {line} --commit --accept REASON publishes it without the audit, "
                f"{line} --abort discards it"
            )
        if job.foreign is not None:
            return (
                f"wait for its driver; if no process of the job is running: {line} --commit --driver-is-dead "
                f"publishes it as append, {line} --abort --driver-is-dead discards it, if nothing was "
                "published"
            )
        discard = f"wait for its driver; if that is dead: {line} --abort discards it"
        commit = f"{line} --commit publishes what its tasks have committed, maybe a part of all"
        commit = f"{commit} (--dry-run counts, --tasks N sets the number)"
        return f"{discard}; then run it again" if job.reason else f"{discard}, {commit}"
    if job.action.startswith("would"):
        return AGAIN
    if job.warnings:
        return (
            f"fix what the warnings name, then run magicfs recover {quote(url)}; once the job and all of its "
            f"tasks have ended, {line} --abort --driver-is-dead cleans up the rest"
        )
    return ""
