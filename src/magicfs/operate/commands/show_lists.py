"""How ``magicfs show`` shows lists: the log of publications, and what files say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from magicfs.cli.printing import Shown, Table, human_moment
from magicfs.report import human_bytes

if TYPE_CHECKING:
    from magicfs.formats.footer import Column, FileFooters, Footer
    from magicfs.formats.log import Log, LoggedJob, LoggedNames, LoggedPart, LogPart


def show_log(log: Log) -> Shown:
    """A log: what it covers, its last jobs, and where the others are."""
    fields = (
        ("next to", log.job_id),
        ("up to", log.newest),
        ("publications", log.jobs),
        ("runs", log.runs),
        ("names", f"{sum(one.names for one in log.names)} in {len(log.names)} sets"),
        ("outdated files", len(log.outdated) or None),
    )
    return fields, _jobs(log.last), _parts(log.parts)


def show_log_part(part: LoggedPart) -> Shown:
    """A part of a log: jobs, or where they are."""
    jobs = len(part.jobs) or sum(one.jobs for one in part.parts)
    return (("next to", part.job_id), ("publications", jobs)), _jobs(part.jobs), _parts(part.parts)


def show_log_names(names: LoggedNames) -> Shown:
    """The ids of jobs and runs of one file."""
    return (
        (("next to", names.job_id), ("runs", len(names.runs)), ("jobs", len(names.jobs))),
        Table(("JOB", "RUN"), [(job, run) for run, job in names.runs]),
        Table(("JOB",), [(job,) for job in names.jobs]),
    )


def _jobs(jobs: Sequence[LoggedJob]) -> Table:
    cells = [
        (
            human_moment(one.committed_ms),
            one.job_id,
            one.mode,
            f"{one.files}",
            human_bytes(one.size),
            one.run_id or "",
        )
        for one in reversed(jobs)
    ]
    return Table(("PUBLISHED", "JOB", "MODE", "FILES", "SIZE", "RUN"), cells)


def _parts(parts: Sequence[LogPart]) -> Table:
    cells = [
        (f"{one.jobs}", human_moment(one.oldest_ms), f"{one.job_id}/{one.name}") for one in reversed(parts)
    ]
    return Table(("JOBS", "THE OLDEST", "LISTED IN"), cells)


def show_footers(listed: FileFooters) -> Shown:
    """A list of footers: the files, and the columns of each."""
    schemas = {one.schema.fingerprint for one in listed.files.values() if one.schema is not None}
    fields = (
        ("job", listed.job_id),
        ("files", len(listed.files)),
        ("rows", sum(one.rows for one in listed.files.values())),
        ("schemas", ", ".join(sorted(schemas))),
    )
    return fields, *(one for key, footer in listed.files.items() for one in _file(key, footer))


def _file(key: str, footer: Footer) -> Shown:
    schema = footer.schema
    kind = f"{footer.format}, schema {schema.fingerprint}" if schema is not None else footer.format
    cells = [] if schema is None else schema.fields
    return (
        (("key", key), ("rows", footer.rows), ("format", kind)),
        Table(
            ("COLUMN", "TYPE", "NULLS", "MIN", "MAX"),
            [(one.name, one.type, *_cells(footer.columns.get(one.name))) for one in cells],
        ),
    )


def _cells(column: Column | None) -> tuple[str, str, str]:
    if column is None:
        return "", "", ""
    least, greatest = ("" if one is None else f"{one}" for one in (column.min, column.max))
    about = "" if column.exact or not least else " (bound)"
    return "" if column.nulls is None else f"{column.nulls}", f"{least}{about}", f"{greatest}{about}"
