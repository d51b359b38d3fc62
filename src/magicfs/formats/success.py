"""The ``_SUCCESS`` file and the reports of jobs. Hadoop's ``SuccessData`` and ``ManifestSuccessData``.

Both classes carry the same name and read each other's files. S3A's is one line with nulls written out, which
is what we write; the manifest committer's is indented, in another order and without nulls: see
``manifest_success``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from magicfs.errors import FormatError
from magicfs.formats.document import java_text, parse, render, render_indented, shown
from magicfs.formats.fields import Fields
from magicfs.formats.limits import SUCCESS_SIZE_LIMIT, within
from magicfs.formats.record import FLAG, Record, member, record
from magicfs.formats.statistics import Statistics
from magicfs.version import __version__

SUCCESS_FILE: Final = "_SUCCESS"
SUCCESS_NAME: Final = "org.apache.hadoop.fs.s3a.commit.files.SuccessData/1"

SUCCESS_MARKER_FILE_LIMIT: Final = 100
"""How many file names are written."""

MANIFEST_COMMITTERS: Final = frozenset(
    {"manifest", "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitter"}
)
"""What ``committer`` says in the files of a manifest committer: ours by its name, Hadoop's by its class."""


@record
class SuccessData(Record):
    """How a job ended. A value, as ``Pending`` is."""

    success: bool = member(FLAG, default=True)  # False in the report of a failed job
    timestamp_ms: int = member(partial(Fields.integer, minimum=0), default=0)  # when it ended
    date: str = member(Fields.text, default="")
    """The same as text: ``java.util.Date``'s from S3A, ISO 8601 from the manifest committer."""
    hostname: str = member(Fields.text, default="")  # where the job was committed
    committer: str = member(Fields.text, default="")
    """A short name from S3A (``magic``), a class from the manifest committer."""
    description: str | None = member(Fields.nullable_text, default=None)  # the role of the one who wrote it
    job_id: str = member(Fields.text, default="")
    job_id_source: str = member(Fields.text, default="")  # where the job's id came from
    metrics: Mapping[str, int] = member(Fields.integer_map, default_factory=dict)
    """Counts of the whole process."""
    diagnostics: Mapping[str, str] = member(partial(Fields.text_map, null=""), default_factory=dict)
    """Free text by name; one that is null reads as empty."""
    filenames: tuple[str, ...] = member(Fields.texts, default=())
    """Some of the files: ``/`` and the raw key from S3A, URIs from the manifest committer. Only the first
    ``SUCCESS_MARKER_FILE_LIMIT`` are written.
    """
    statistics: Statistics = member(Statistics.at, default_factory=Statistics, key="iostatistics")
    """Of the job."""
    state: str | None = member(Fields.nullable_text, default=None)  # where a report says so
    stage: str | None = member(Fields.nullable_text, default=None)  # where a report says so

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
    def check(cls, fields: Fields) -> None:
        name = fields.nullable_text("name")
        if name is None:
            raise fields.error("name", "Incompatible file format: no 'name' field")
        if name != SUCCESS_NAME:
            raise fields.error(
                "name", f"Incompatible file format: {shown(name)}, where {SUCCESS_NAME} is understood"
            )

    def to_document(self) -> dict[str, object]:
        """The JSON object as S3A writes it, fields in the order in which Hadoop emits them."""
        few = replace(self, filenames=self.filenames[:SUCCESS_MARKER_FILE_LIMIT])
        return {"name": SUCCESS_NAME, **Record.to_document(few)}

    def to_bytes(self) -> bytes:
        return _small_enough(render(self.to_document()), self.job_id)


def manifest_success(success: SuccessData) -> bytes:
    """The file as Hadoop's manifest committer writes it (``ManifestSuccessData``).

    Fields stand in the order in which Hadoop emits them, without those that are None.
    """
    found = success.to_document()
    document = {name: found.pop(name) for name in ("name", "timestamp")} | found
    document["metrics"] = dict(sorted(success.metrics.items()))
    document["diagnostics"] = dict(sorted(success.diagnostics.items()))
    for name in ("description", "state", "stage"):
        if document[name] is None:
            del document[name]
    return _small_enough(render_indented(document), success.job_id)


def _small_enough(raw: bytes, job: str) -> bytes:
    return within(raw, SUCCESS_SIZE_LIMIT, f"_SUCCESS of job {job}", "use fewer counters in its tasks")
