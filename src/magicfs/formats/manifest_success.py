"""``_SUCCESS`` and reports as Hadoop's manifest committer writes them: its ``ManifestSuccessData``.

The content is ``SuccessData``, which reads them too; the order of the fields, the blanks and the date differ.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from magicfs.errors import UsageError
from magicfs.formats.document import with_unknown
from magicfs.formats.indented import render_indented
from magicfs.formats.success import SUCCESS_MARKER_FILE_LIMIT, SUCCESS_NAME, SuccessData

__all__ = ["MANIFEST_COMMITTERS", "iso_text", "manifest_success"]

MANIFEST_COMMITTERS: Final = frozenset(
    {"manifest", "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitter"}
)
"""What ``committer`` says in the files of a manifest committer: ours by its name, Hadoop's by its class."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def manifest_success(success: SuccessData) -> bytes:
    """The whole file, fields in the order in which Hadoop emits them, without those that are None.

    Raises:
        UsageError: Text that UTF-8 cannot hold.
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
    return render_indented(with_unknown(known, success.unknown))


def iso_text(milliseconds: int) -> str:
    """A moment in UTC as ``java.time`` says it: ``2023-11-14T22:13:20.007Z``, without a fraction of zero.

    Args:
        milliseconds: Since the epoch.

    Raises:
        UsageError: Outside the years 1 to 9999.
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise UsageError(
            f"{milliseconds} ms is no time within the years 1 to 9999; pass milliseconds since the epoch"
        ) from None
    how = "milliseconds" if milliseconds % 1000 else "seconds"
    return moment.isoformat(timespec=how).removesuffix("+00:00") + "Z"
