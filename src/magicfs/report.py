"""What a job did, for people and programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from shlex import quote
from typing import Any, Literal, cast

from magicfs.formats.statistics import MOVED_ASIDE, ROWS, Statistics
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT
from magicfs.protocol import paths


class Report:
    """Base of all reports: plain values for programs, a table for notebooks."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(cast("Any", self))  # each is a dataclass

    def __str__(self) -> str:
        return "\n".join(f"{name:<15} {value}" for name, value in self._rows())

    def _repr_html_(self) -> str:
        return html_table(self._rows())

    def _rows(self) -> Iterable[tuple[str, object]]:
        return [one for one in self.to_dict().items() if one[1] not in (None, "", [], (), {})]


class Advice(str):
    """A warning that leaves nothing to do: commands end with status 0 all the same."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job commit is, or a task commit that uploads.

    Attributes:
        stage: ``complete`` while files become visible, ``cleanup`` afterwards; ``upload`` in a task commit.
        files_done: Files that are visible, or uploaded.
        files_total: Files of the job, or of the task.
        bytes_done: Their size.
        bytes_total: Size of all.
    """

    stage: str
    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int


ProgressCallback = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """What one task wrote.

    Attributes:
        task_id: The task.
        files: How many files.
        bytes: Their size.
        rows: How many rows; None if the task did not count them.
    """

    task_id: str
    files: int
    bytes: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class JobReport(Report):
    """A published job.

    Attributes:
        job_id: The job.
        destination: URL of the dataset.
        committer: Which committer.
        mode: Which mode.
        tasks: Tasks whose output was published.
        files: Files that became visible.
        bytes: Their size.
        seconds: Wall time of the job commit.
        uploads_aborted: Uploads of failed, retried or duplicate attempts that were discarded.
        files_deleted: Old files that were replaced.
        manifest: URL of the list of all files; empty if there is none.
        published_before: Whether an earlier job had already published this run, so this one did nothing.
        filenames: URLs of the first 100 files.
        warnings: Problems after the files were published, such as work objects that could not be removed; and
            partitions that ``overwrite`` deleted without writing new files to them.
        statistics: The counters of tasks and job, under Hadoop's names.
        task_figures: What each task wrote, ordered by task id; empty if you did not pass the commits. Not in
            ``to_dict``.
        skipped: Whether nothing was written because data existed and the caller wanted to keep it.
    """

    job_id: str
    destination: str
    committer: str
    mode: str
    tasks: int
    files: int
    bytes: int
    seconds: float
    uploads_aborted: int = 0
    files_deleted: int = 0
    manifest: str = ""
    published_before: bool = False
    filenames: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    statistics: Statistics = field(default_factory=Statistics, repr=False)
    task_figures: tuple[TaskFigures, ...] = field(default=(), repr=False)
    skipped: bool = False

    @property
    def rows(self) -> int | None:
        """Number of rows that the tasks wrote; None if they did not count them."""
        # Statistics travel with the files, and there may be none.
        known = [one.rows for one in self.task_figures if one.rows is not None]
        return self.statistics.counters.get(ROWS, sum(known) if known else None)

    @property
    def published(self) -> bool:
        """Whether this job commit published its tasks' files."""
        return not (self.skipped or self.published_before)

    @classmethod
    def before(cls, job: str, url: str, committer: str, mode: str) -> JobReport:
        """The report of a commit that found its run published by an earlier job, and did nothing."""
        return cls(job, url, committer, mode, 0, 0, 0, 0.0, published_before=True)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = asdict(replace(self, task_figures=()))
        del plain["task_figures"]
        plain["statistics"] = self.statistics.to_document()
        plain["rows"] = self.rows
        return plain

    def _repr_html_(self) -> str:
        return html_table((line[:11].strip(), line[11:].strip()) for line in str(self).splitlines())

    def __str__(self) -> str:
        if self.skipped:
            return f"skipped     {self.destination} already has data; nothing was written"
        rows = "" if self.rows is None else f"{self.rows} rows, "
        first = f"published   {self.destination}"
        if self.published_before:
            before = f"was already published, by job {self.job_id}; nothing was published now"
            first = f"skipped     {self.destination} {before}"
        lines = [
            first,
            f"files       {self.files} ({rows}{human_bytes(self.bytes)}) from {_count(self.tasks, 'task')}",
            f"job         {self.job_id}, committer {self.committer}, mode {self.mode}",
            f"job commit  {self.seconds:.2f} s",
        ]
        if self.files_deleted:
            lines.append(f"replaced    {_count(self.files_deleted, 'old file')}")
        moved, size, requests = (self.statistics.counters.get(name, 0) for name in MOVED_ASIDE)
        if moved:
            copied = f"{human_bytes(size)} copied in at most {requests:,} requests"
            lines.append(f"kept        {_count(moved, 'old file')} aside, {copied}")
        if self.uploads_aborted:
            lines.append(f"discarded   {_count(self.uploads_aborted, 'upload')} of attempts not published")
        lines += [f"warning     {warning}" for warning in self.warnings]
        return "\n".join(lines)


def html_table(rows: Iterable[Sequence[object]], header: Sequence[str] = ()) -> str:
    """A table for notebooks. The first cell of each row names it."""
    from html import escape

    def line(cells: Sequence[object], names: int) -> str:
        kinds = ["th"] * names + ["td"] * (len(cells) - names)
        both = zip(kinds, cells, strict=True)
        shown = (f"<{kind} style='text-align:left'>{escape(str(cell))}</{kind}>" for kind, cell in both)
        return f"<tr>{''.join(shown)}</tr>"

    head = line(header, len(header)) if header else ""
    return f"<table>{head}{''.join(line(row, 1) for row in rows)}</table>"


def text_table(rows: Iterable[Sequence[str]], header: Sequence[str]) -> list[str]:
    """Lines with rows in columns; the last column is not padded."""
    table = [header, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(header) - 1)]
    return ["  ".join([*map(str.ljust, row, widths), row[-1]]) for row in table]


def job_report(
    job: str,
    url: str,
    committer: str,
    mode: str,
    *,
    started: float,
    tasks: int,
    files: int,
    size: int,
    keys: Iterable[str],
    warnings: Iterable[str] = (),
    statistics: Statistics | None = None,
    manifest_key: str = "",
    uploads_aborted: int = 0,
    files_deleted: int = 0,
) -> JobReport:
    """The report of a job commit that began at ``started``, as ``time.monotonic()`` has it.

    Of the keys, which are of the destination's bucket, only as many are drawn as a report names.
    """
    place = paths.parse_url(url)
    return JobReport(
        job_id=job,
        destination=url,
        committer=committer,
        mode=mode,
        tasks=tasks,
        files=files,
        bytes=size,
        seconds=time.monotonic() - started,
        uploads_aborted=uploads_aborted,
        files_deleted=files_deleted,
        manifest=replace(place, key=manifest_key).url if manifest_key else "",
        filenames=tuple(replace(place, key=key).url for key in islice(keys, SUCCESS_MARKER_FILE_LIMIT)),
        warnings=tuple(warnings),
        statistics=statistics or Statistics(),
    )


Action = Literal[
    "finished",
    "not finished",
    "reverted",
    "aborted",
    "left",
    "ended elsewhere",
    "swept",
    "would finish",
    "would revert",
    "would abort",
    "would sweep",
]


@dataclass(frozen=True, slots=True)
class ForeignJob:
    """The state of a Hadoop job, whose driver is a JVM.

    Attributes:
        committer: Its committer: ``magic``, ``staging`` or ``manifest``.
        attempt: Number of its last job attempt.
        tasks: Tasks of this attempt that have committed.
        files: Files of these tasks.
        bytes: Size of the files.
        published: How many of them its driver has already published.
        uploads: Open uploads that the job's own files name; for the manifest committer, files that wait to be
            renamed.
        gone: Files that can no longer be published: neither they nor their uploads exist.
        doubtful: Files that the driver may or may not have published.
        problem: Why it cannot be committed; empty if no reason is known.
    """

    committer: str
    attempt: int = 0
    tasks: int = 0
    files: int = 0
    bytes: int = 0
    published: int = 0
    uploads: int = 0
    gone: int = 0
    doubtful: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RecoveredJob:
    """What ``recover`` found and did about one job.

    Attributes:
        job_id: The job.
        found: The state of the job: ``quarantined`` if its audit failed, ``unjudged`` if it is open and its
            audit has not run, ``ended`` if there are only leftovers, ``hadoop`` if it is a Hadoop job, which
            has no state.
        action: What was done, or with ``dry_run`` would be done. ``not finished``: every file is visible, but
            the job has not ended, and ``warnings`` say why.
        age_s: Seconds since the job last changed its state.
        host: The host that changed it.
        files: Files that it publishes; 0 as long as that is not decided.
        deleted: Old files that it replaces.
        uploads: Uploads of it that were discarded, or with ``dry_run`` would be.
        run_id: Name of its run; None if it has none.
        reason: Why it is or was rolled back, or is left unpublished; empty otherwise.
        warnings: What could not be done; another call finishes it.
        foreign: The state of a Hadoop job; None for jobs of magicfs.
        label: What it was called; empty if it was not.
    """

    job_id: str
    found: str
    action: Action
    age_s: float
    host: str
    files: int = 0
    deleted: int = 0
    uploads: int = 0
    run_id: str | None = None
    reason: str = ""
    warnings: tuple[str, ...] = ()
    foreign: ForeignJob | None = None
    label: str = ""

    @property
    def is_left(self) -> bool:
        """Whether nothing was done about it yet."""
        return self.action.startswith(("left", "would"))


@dataclass(frozen=True, slots=True)
class RecoverReport(Report):
    """What ``recover`` found and did.

    Attributes:
        url: The destination.
        jobs: Every job that had not ended, the oldest first.
        below: If there was none, URLs of directories below that have unfinished jobs.
    """

    url: str
    jobs: tuple[RecoveredJob, ...] = ()
    below: tuple[str, ...] = ()

    @property
    def undecided(self) -> bool:
        """Whether a job is left that needs your decision."""
        warnings = [one for job in self.jobs for one in job.warnings if not isinstance(one, Advice)]
        return bool(warnings or self.below or any(job.is_left for job in self.jobs))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "destination": self.url,
            "undecided": self.undecided,
            "jobs": [asdict(job) for job in self.jobs],
            **({"below": list(self.below)} if self.below else {}),
        }


@dataclass(frozen=True, slots=True)
class VerifyReport(Report):
    """A dataset compared with its bucket. Keys are relative to the destination, sorted.

    Attributes:
        url: The dataset.
        job_id: The newest published job.
        files: How many files the dataset has.
        bytes: Their size.
        missing: Files that do not exist.
        altered: Files with a different size, or a different ETag and write id.
        foreign: Visible objects that are not files of the dataset, and that no job keeps.
        kept: How many visible files jobs have replaced and keep for a time.
        unfinished: Jobs that have not ended. Foreign files may belong to one that is being published.
        damaged: With ``deep``, files whose bytes are not the written ones or that cannot be read in their
            format, with what is wrong with each.
        by_store: With ``deep``, how many files were not read, because the store reports the checksum that
            their tasks recorded.
        read: With ``deep``, how many files were read.
        confirmed: How many of these match the checksum of their tasks or of the store, or the MD5 in their
            ETag. There is nothing to compare the others with.
        unlinked: Published jobs that readers do not see, because somebody put an older pointer back: those
            published right after it, and those to which foreign files belong.
    """

    url: str
    job_id: str
    files: int
    bytes: int
    missing: tuple[str, ...] = ()
    altered: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    kept: int = 0
    damaged: Mapping[str, str] = field(default_factory=dict)
    by_store: int = 0
    read: int = 0
    confirmed: int = 0
    unlinked: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the bucket has exactly the files of the dataset, and none that was read is damaged."""
        return not (self.missing or self.altered or self.foreign or self.damaged or self.unlinked)

    @property
    def advice(self) -> tuple[str, ...]:
        """What to do about the findings, one sentence each."""
        found = []
        if self.unlinked:
            found.append(
                "somebody put an older copy of the pointer back: readers do not see the jobs that were "
                f"published after it; magicfs adopt {self.url} brings them back; then verify again"
            )
        elif lost := sorted({*self.missing, *self.altered, *self.damaged}):
            found.append(
                "restore missing, altered and damaged files from older object versions or a backup; if they "
                f"are lost, remove them from the dataset: magicfs drop {quote(self.url)} --where "
                f"{_where_keys(lost)}; then publish their rows again, the same run with rerun='overwrite'"
            )
            found.append(
                f"or return to an earlier publication whose files still exist: magicfs rollback {self.url} "
                f"--to WHICH; magicfs log {self.url} lists them"
            )
        if self.foreign and self.unfinished:
            found.append(
                f"foreign files may come from a half published job: magicfs recover {self.url} --dry-run"
            )
        elif self.unfinished:
            found.append(
                "jobs that have not ended may hold uploads that are paid for; if none of their drivers is "
                f"running: magicfs recover {self.url} --dry-run"
            )
        elif self.foreign and not self.unlinked:
            found.append(
                "foreign files are not part of the dataset: remove them if nobody needs them, or add them: "
                f"magicfs adopt {self.url}"
            )
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**asdict(self), "ok": self.ok, "advice": list(self.advice)}


def _where_keys(keys: Sequence[str]) -> str:
    """A condition on the first of some files, for a command line."""
    named = ", ".join("'" + one.replace("'", "''") + "'" for one in keys[:20])
    where = f"file.key in ({named}{', …' if len(keys) > 20 else ''})"
    return quote(where) if set(where) & set('"$`\\!') else f'"{where}"'


PathAction = Literal["published", "published before", "would publish", "discarded", "would discard"]


@dataclass(frozen=True, slots=True)
class PathReport(Report):
    """What became of the files below a user's own magic path.

    Attributes:
        path: URL of the path.
        destination: URL of the directory above its magic element.
        action: ``published``, ``would publish``, ``discarded`` or ``would discard``; ``published before`` if
            another call had published all files already, and this one only tidied up.
        files: How many files.
        bytes: Their size.
        filenames: URLs of the first 100, as they are or would be visible.
        manifest: URL of the manifest that lists them; empty if there is none.
        warnings: Problems after the files were published.
    """

    path: str
    destination: str
    action: PathAction
    files: int
    bytes: int
    filenames: tuple[str, ...] = ()
    manifest: str = ""
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        files = f"{self.files} file{'' if self.files == 1 else 's'}"
        files = f"{files} ({human_bytes(self.bytes)}) of {self.path}"
        told = f"{self.action} {files}"
        if self.action == "published before":
            told = f"{files} had already been published; nothing was replaced"
        return "\n".join([told, *(f"warning: {one}" for one in self.warnings)])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def human_bytes(size: float) -> str:
    """A size with a binary unit, such as ``12.3 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
