"""The ``_SUCCESS`` file and the reports of jobs. Hadoop's ``SuccessData`` and ``ManifestSuccessData``.

Both classes carry the same name and read each other's files. S3A's is one line with nulls written out, which
is what we write; the manifest committer's is indented, in another order and without nulls: see
``manifest_success``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from magicfs.errors import FormatError
from magicfs.formats.document import java_text, parse, render, render_indented, shown, with_unknown
from magicfs.formats.fields import Fields
from magicfs.formats.limits import SUCCESS_SIZE_LIMIT, within
from magicfs.formats.statistics import Statistics
from magicfs.version import __version__

__all__ = [
    "MANIFEST_COMMITTERS",
    "SUCCESS_FILE",
    "SUCCESS_MARKER_FILE_LIMIT",
    "SUCCESS_NAME",
    "SUCCESS_SIZE_LIMIT",
    "SuccessData",
    "manifest_success",
]

SUCCESS_FILE: Final = "_SUCCESS"
SUCCESS_NAME: Final = "org.apache.hadoop.fs.s3a.commit.files.SuccessData/1"

SUCCESS_MARKER_FILE_LIMIT: Final = 100
"""How many file names are written."""

MANIFEST_COMMITTERS: Final = frozenset(
    {"manifest", "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitter"}
)
"""What ``committer`` says in the files of a manifest committer: ours by its name, Hadoop's by its class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuccessData:
    """How a job ended. A value, as ``Pending`` is."""

    success: bool = True  # False in the report of a failed job
    timestamp_ms: int = 0  # when it ended
    date: str = ""  # the same as text: ``java.util.Date``'s from S3A, ISO 8601 from the manifest committer
    hostname: str = ""  # where the job was committed
    committer: str = ""  # a short name from S3A (``magic``), a class from the manifest committer
    description: str | None = None  # the role of the one who wrote it
    job_id: str = ""
    job_id_source: str = ""  # where the job's id came from
    metrics: Mapping[str, int] = field(default_factory=dict)  # counts of the whole process
    diagnostics: Mapping[str, str] = field(default_factory=dict)  # free text by name
    filenames: tuple[str, ...] = ()
    """Some of the files: ``/`` and the raw key from S3A, URIs from the manifest committer. Only the first
    ``SUCCESS_MARKER_FILE_LIMIT`` are written.
    """
    statistics: Statistics = field(default_factory=Statistics)  # of the job
    state: str | None = None  # where a report says so
    stage: str | None = None  # where a report says so
    unknown: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of_job(
        cls,
        job: str,
        committer: str,
        mode: str,
        *,
        hostname: str,
        ended_ms: int,
        filenames: Iterable[str],
        statistics: Statistics,
        diagnostics: Mapping[str, str],
    ) -> SuccessData:
        """What magicfs says of a job that it has published; of the file names only the first are drawn."""
        ours = {"magicfs.mode": mode, "magicfs.version": __version__}
        success = cls(
            hostname=hostname,
            committer=committer,
            description=f"magicfs job {job}",
            job_id=job,
            job_id_source="magicfs",
            diagnostics=dict(sorted({**ours, **diagnostics}.items())),
            filenames=tuple(islice(filenames, SUCCESS_MARKER_FILE_LIMIT)),
            statistics=statistics,
        )
        return success.touched(ended_ms)

    def touched(self, now_ms: int) -> SuccessData:
        """The same at this moment, ``date`` included."""
        return replace(self, timestamp_ms=now_ms, date=java_text(now_ms))

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = SUCCESS_SIZE_LIMIT) -> SuccessData:
        """Read what either of Hadoop's committers, or magicfs, wrote. An empty file is a FormatError."""
        if not raw:
            raise FormatError(
                path,
                "",
                "No data: the classic FileOutputCommitter wrote it, which only marks the end of the job",
            )
        return cls.from_fields(Fields(path, parse(path, raw, size_limit=size_limit)))

    @classmethod
    def from_fields(cls, fields: Fields) -> SuccessData:
        """Read the JSON object. A diagnostic that is null reads as empty."""
        name = fields.nullable_text("name")
        if name is None:
            raise fields.error("name", "Incompatible file format: no 'name' field")
        if name != SUCCESS_NAME:
            raise fields.error(
                "name", f"Incompatible file format: {shown(name)}, where {SUCCESS_NAME} is understood"
            )
        return cls(
            success=fields.flag("success", default=True),
            timestamp_ms=fields.integer("timestamp", minimum=0),
            date=fields.text("date"),
            hostname=fields.text("hostname"),
            committer=fields.text("committer"),
            description=fields.nullable_text("description"),
            job_id=fields.text("jobId"),
            job_id_source=fields.text("jobIdSource"),
            metrics=fields.integer_map("metrics"),
            diagnostics=fields.text_map("diagnostics", null=""),
            filenames=fields.texts("filenames"),
            statistics=Statistics.from_fields(fields.child("iostatistics")),
            state=fields.nullable_text("state"),
            stage=fields.nullable_text("stage"),
            unknown=fields.rest(),
        )

    def to_bytes(self) -> bytes:
        """The whole file as S3A writes it, fields in the order in which Hadoop emits them."""
        document: dict[str, object] = {
            "name": SUCCESS_NAME,
            "success": self.success,
            "timestamp": self.timestamp_ms,
            "date": self.date,
            "hostname": self.hostname,
            "committer": self.committer,
            "description": self.description,
            "jobId": self.job_id,
            "jobIdSource": self.job_id_source,
            "metrics": self.metrics,
            "diagnostics": self.diagnostics,
            "filenames": self.filenames[:SUCCESS_MARKER_FILE_LIMIT],
            "iostatistics": self.statistics.to_document(),
            "state": self.state,
            "stage": self.stage,
        }
        what, advice = f"_SUCCESS of job {self.job_id}", "use fewer counters in its tasks"
        return within(render(with_unknown(document, self.unknown)), SUCCESS_SIZE_LIMIT, what, advice)


def manifest_success(success: SuccessData) -> bytes:
    """The file as Hadoop's manifest committer writes it (``ManifestSuccessData``).

    Fields stand in the order in which Hadoop emits them, without those that are None.
    """
    document: dict[str, object] = {
        "name": SUCCESS_NAME,
        "timestamp": success.timestamp_ms,
        "success": success.success,
        "date": success.date,
        "hostname": success.hostname,
        "committer": success.committer,
        "description": success.description,
        "jobId": success.job_id,
        "jobIdSource": success.job_id_source,
        "metrics": dict(sorted(success.metrics.items())),
        "diagnostics": dict(sorted(success.diagnostics.items())),
        "filenames": success.filenames[:SUCCESS_MARKER_FILE_LIMIT],
        "iostatistics": success.statistics.to_document(),
        "state": success.state,
        "stage": success.stage,
    }
    known = {name: value for name, value in document.items() if value is not None}
    return _small_enough(render_indented(with_unknown(known, success.unknown)), success.job_id)


def _small_enough(raw: bytes, job: str) -> bytes:
    return within(raw, SUCCESS_SIZE_LIMIT, f"_SUCCESS of job {job}", "use fewer counters in its tasks")
