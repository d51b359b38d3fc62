"""What each field of a manifest, and of the pointer to it, is compared with first."""

from __future__ import annotations

from typing import Final

from magicfs.formats.manifest import Manifest, ManifestFiles
from magicfs.formats.pointer import Pointer
from magicfs.formats.rows import (
    ANOTHER,
    BYTES,
    ITSELF,
    MOMENT_MAX_MS,
    SHOWN,
    Place,
    Row,
    has_dots,
    moment,
    same,
)

__all__ = ["MANIFEST_FILES_ROWS", "MANIFEST_ROWS", "POINTER_ROWS"]

_FILE: Final = "a key below the destination, without `.` and `..`: read, and shown to readers"
_LIST: Final = "the name of a file beside the manifest, without a slash"
_COUNTED: Final = "nothing: only shown, and counted again by `magicfs verify`"


def _whose(one: Manifest | ManifestFiles, place: Place) -> str | None:
    return None if one.job_id == place.whose else f"belongs to job {one.job_id}, not {place.whose}"


def _kept_until(one: Manifest, _: Place) -> str | None:
    late = one.kept is not None and one.kept.until_ms > MOMENT_MAX_MS
    return "is a moment after the year 9999" if late else None


def _deleted(one: Manifest, _: Place) -> str | None:
    wrong = next((key for key in one.deleted if has_dots(key)), None)
    return None if wrong is None else f"{wrong!a} is not a key below the destination"


def _partitions(one: Manifest, _: Place) -> str | None:
    wrong = next((key for key in one.partitions or () if has_dots(key)), None)
    return None if wrong is None else f"{wrong!a} is not a directory below the destination"


def _restores(one: Manifest, _: Place) -> str | None:
    return "the job itself" if one.restores == one.job_id else None


def _until(one: Pointer, _: Place) -> str | None:
    late = any(each.until_ms > MOMENT_MAX_MS for each in one.keeping)
    return "is a moment after the year 9999" if late else None


MANIFEST_ROWS: Final = (
    Row("jobId", "the job that the file is named after", _whose),
    Row("runId", "the run that a later job names"),
    Row("bucket", "nothing: a dataset may be copied to another bucket, and keys are relative"),
    Row("destination", "nothing: a dataset may be moved; older lists of kept files are taken relative to it"),
    Row("mode", SHOWN),
    Row("committed", "a moment before the year 10000", moment(lambda one: one.committed_ms)),
    Row("previous", f"{ANOTHER}; no circle", by="manifests.chain.chain"),
    Row("hides", "`nothing`, `all` or `keys`"),
    Row("replaced", "a job id: hides the files of that job and of those before it"),
    Row("deleted[]", "keys below the destination: hides them from readers, and deletes nothing", _deleted),
    Row("partitions[]", "directories below the destination; only shown", _partitions),
    Row("olderFiles", "nothing: a warning to readers"),
    Row("parts[].name", _LIST),
    Row("parts[].sha256", BYTES, by="manifests.parts.read_lists"),
    *same(_COUNTED, "parts[].files", "parts[].size"),
    Row("files[].key", _FILE),
    Row("files[].size", "the size of the file", by="manifests.comparison.compare"),
    Row("files[].etag", "the ETag of the file", by="manifests.comparison.compare"),
    Row("files[].version", "the version of the file: only read, or copied to a name of the rollback"),
    Row("files[].checksum", "the bytes of the file, with `magicfs verify --deep`"),
    Row("files[].writeId", "the metadata of the file; only `magicfs adopt` reads it"),
    Row("files[].rows", SHOWN),
    Row("log.jobId", ANOTHER),
    Row("log.name", "the name of a file of a log"),
    Row("log.sha256", BYTES, by="manifests.log_files.read_log"),
    Row(
        "objectSettings.*",
        "an ACL, a grant or the ARN of a key counts only where this process was given the same",
        by="stores.object_settings.check_recorded",
    ),
    Row("kept.until", "a moment before the year 10000", _kept_until),
    Row("kept.lists[].name", _LIST),
    Row("kept.lists[].sha256", BYTES, by="manifests.parts.read_lists"),
    *same(_COUNTED, "kept.lists[].files", "kept.lists[].size"),
    Row("restores", "another job", _restores),
    Row("footers.rows", SHOWN),
    Row("footers.schemas[]", "nothing: only compared with each other"),
    Row("footers.lists[].name", _LIST),
    Row("footers.lists[].sha256", BYTES, by="manifests.parts.read_lists"),
    *same(_COUNTED, "footers.lists[].files", "footers.lists[].size"),
    *same(
        SHOWN,
        "audit.verdicts[].rule",
        "audit.verdicts[].passed",
        "audit.verdicts[].told",
        "audit.against",
        "audit.audited",
        "audit.accepted",
    ),
)

MANIFEST_FILES_ROWS: Final = (
    Row("jobId", "the job of the manifest that names it", _whose),
    *(row for row in MANIFEST_ROWS if row.field.startswith("files[].")),
)

POINTER_ROWS: Final = (
    Row("jobId", ANOTHER),
    Row("nonce", ITSELF),
    Row("changed", "a moment before the year 10000", moment(lambda one: one.changed_ms)),
    Row("runs[]", "a run that a later job names, and a job id"),
    Row("forgottenRuns", "digests of runs that a later job names"),
    Row("keeping[].jobId", ANOTHER, by="manifests.kept.kept_by"),
    Row("keeping[].until", "a moment before the year 10000", _until),
    Row("keeping[].expires", "true or false"),
    Row("keeping[].lists[]", BYTES, by="manifests.kept.kept_by"),
    Row("log.jobId", ANOTHER),
    Row("log.name", "the name of a file of a log"),
    Row("log.sha256", BYTES, by="manifests.log_files.read_log"),
)
