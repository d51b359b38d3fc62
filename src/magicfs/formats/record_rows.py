"""What each field of all records but the job object is compared with before anything is done by its word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from magicfs.formats.deletions import OldObject
from magicfs.formats.job_location import JobLocation
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
    old_problem,
    same,
)
from magicfs.formats.tag import Tag
from magicfs.protocol import paths
from magicfs.protocol.modes import is_reserved

_FILE: Final = "a key below the destination, without `.` and `..`: read, and shown to readers"
_LIST: Final = "the name of a file beside the manifest, without a slash"
_COUNTED: Final = "nothing: only shown, and counted again by `magicfs verify`"
_FOLLOWS: Final = "an installed extension that says that it follows; it looks at the dataset for itself"


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
    Row("follows[]", "nothing: only copied to the pointer"),
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
    Row("follows[]", _FOLLOWS, by="transaction.extension.warnings_at_end"),
    Row("log.jobId", ANOTHER),
    Row("log.name", "the name of a file of a log"),
    Row("log.sha256", BYTES, by="manifests.log_files.read_log"),
)


_STATISTICS: Final = "nothing: only added up and shown"


def _old_keys(objects: Iterable[OldObject], place: Place) -> str | None:
    problems = (old_problem(one.key, place.destination, place.also_overwrite) for one in objects)
    return next((one for one in problems if one is not None), None)


def _location(one: JobLocation, _: Place) -> str | None:
    key = one.destination
    fits = not key or (paths.can_be_a_file(key) and not is_reserved(key))
    return None if fits else f"{key!a} is not a data directory"


def _location_of(one: JobLocation, place: Place) -> str | None:
    return None if one.job == place.whose else f"belongs to job {one.job}, not {place.whose}"


def _tag(one: Tag, place: Place) -> str | None:
    return None if one.name == place.whose else f"{one.name!a}, another one's"


_STEP: Final = "keys of data below the destination, or below an extra one that confirms the job"

_PENDING: Final = (
    Row(
        "filename",
        "the path of the job's own magic path, where it is deleted",
        by="transaction.sweep.delete_records",
    ),
    Row("uri", SHOWN),
    Row("uploadId", "the uploads of the store: it has to be one of that key"),
    Row("bucket", "the bucket of the job", by="protocol.winners.KeyCheck"),
    Row("destinationKey", _STEP, by="protocol.winners.KeyCheck"),
    Row("created", "nothing: how old the oldest upload is; decides a refusal alone"),
    *same(SHOWN, "saved", "date"),
    Row("jobId", "the job that reads it, or empty", by="transaction.output.load_listed"),
    Row("taskId", "nothing: names the attempt; which attempt counts is decided by the record's name"),
    Row("text", SHOWN),
    Row("etags[].etag", "the parts that the store has"),
    Row("etags[].checksumAlgorithm", "the parts that the store has"),
    Row("etags[].checksum", "the parts that the store has"),
    Row(
        "extraData.*",
        "schema, footer, checksum and audit: read within limits, or left out",
        by="formats.footer.footers_in",
    ),
    Row("length", "the size of the object once it is complete", by="protocol.readback.write_id_shown"),
    Row("iostatistics.*", _STATISTICS),
)

_SUCCESS: Final = tuple(
    Row(field, compared)
    for field, compared in {
        "name": "the name of the format",
        "success": SHOWN,
        "timestamp": SHOWN,
        "date": SHOWN,
        "hostname": SHOWN,
        "committer": SHOWN,
        "description": SHOWN,
        "jobId": "the job that asks whether a JVM, or itself, has committed it",
        "jobIdSource": SHOWN,
        "metrics.*": SHOWN,
        "diagnostics.*": SHOWN,
        "filenames[]": SHOWN,
        "iostatistics.*": _STATISTICS,
        "state": SHOWN,
        "stage": SHOWN,
    }.items()
)

_LOGGED: Final = (
    Row("publications[].jobId", ANOTHER),
    Row("publications[].runId", "the run that a later job names"),
    *same(
        SHOWN,
        "publications[].mode",
        "publications[].committed",
        "publications[].files",
        "publications[].size",
        "publications[].restores",
        "publications[].keptUntil",
    ),
    Row("parts[].jobId", ANOTHER),
    Row("parts[].name", "the name of a file of a log, each once", by="manifests.log_files.read_part"),
    Row("parts[].sha256", BYTES, by="manifests.log_files.read_part"),
    Row(
        "parts[].level",
        "less than that of the part that names it",
        by="manifests.log_files.read_part",
    ),
    Row("parts[].jobs", "the publications that the part has", by="manifests.log_files.read_part"),
    Row("parts[].oldest", "nothing: chooses which parts are read for a moment"),
)


RECORD_ROWS: Final[Mapping[str, tuple[Row, ...]]] = {
    "manifest": MANIFEST_ROWS,
    "manifest files": MANIFEST_FILES_ROWS,
    "pending": (
        *_PENDING,
        Row("body", "none: only an entry of a set has one"),
        Row("source", "none: only an entry of a set has one"),
    ),
    "pendingset": (
        Row("jobId", "the job that reads it, or empty", by="transaction.output.load_listed"),
        *(row._replace(field=f"commits[].{row.field}") for row in _PENDING),
        Row("commits[].body.bundle", "a bundle of the job", by="transaction.output.load_listed"),
        Row("commits[].body.offset", "the bytes of the bundle", by="transaction.visible.Bundles"),
        Row("commits[].body.sha256", "the bytes that are put", by="transaction.visible.Bundles"),
        Row("commits[].source.key", "a work file of the job", by="transaction.output.load_listed"),
        Row("commits[].source.etag", "the file that is renamed", by="transaction.visible.is_there"),
        Row("iostatistics.*", _STATISTICS),
        Row("extraData.*", "nothing: names the attempt"),
    ),
    "success": _SUCCESS,
    "pointer": POINTER_ROWS,
    "deletions": (
        Row("objects[].key", "data below the destination, or kept aside there; no `.` and `..`", _old_keys),
        Row(
            "objects[].etag",
            "the ETag of the object: only that version is deleted",
            by="stores.conditions.remove_matching",
        ),
        Row("objects[].size", SHOWN),
        Row("objects[].version", "a version of that key: only read, or deleted by `magicfs maintain`"),
        Row("objects[].aside", "a file of that key below `_magicfs/kept/` and the job: as `version`"),
    ),
    "job location": (
        Row("jobId", "the job of the directory that it lies in", _location_of),
        Row(
            "destination",
            "a directory of data in the same bucket; its job object has to name this one",
            _location,
        ),
    ),
    "tag": (
        Row("tag", "the name of the file", _tag),
        Row("jobId", ANOTHER),
        Row("nonce", ITSELF),
        Row("created", "a moment before the year 10000", moment(lambda one: one.created_ms)),
        Row("keeps", "what the pointer says is kept", by="past.held.held"),
    ),
    "registration": (
        *(
            Row(field, "what `magicfs maintain` can have written", by="catalogs.recorded.differs")
            for field in ("jobId", "catalog", "table")
        ),
        Row(
            "options.*",
            "what `magicfs maintain` can have written; and the catalogs that this process is configured for",
            by="catalogs.recorded.differs",
        ),
        Row("line", "nothing: only shown, as what the record says"),
    ),
    "log": (
        Row("jobId", "the job that is named with it", by="manifests.log_files.read_log"),
        Row("newest", ANOTHER),
        *same(SHOWN, "jobs", "runs"),
        *_LOGGED,
        Row("names[].jobId", ANOTHER),
        Row("names[].names", SHOWN),
        Row("names[].sha256[]", BYTES, by="manifests.log_files.read_names"),
        Row("outdated[]", "names of files of logs, which are deleted"),
    ),
    "log part": (
        Row("jobId", "the job that is named with it", by="manifests.log_files.read_log"),
        *_LOGGED,
    ),
    "log names": (
        Row("jobId", "the job that is named with it", by="manifests.log_files.read_names"),
        Row(
            "runs[]",
            "a run that a later job names, and a job id",
            by="manifests.log_files.checked_job",
        ),
        Row("jobs[]", "nothing: only compared with the id of a job"),
    ),
    "footers": (
        Row("jobId", SHOWN),
        Row("schemas[].fingerprint", "nothing: only compared with each other"),
        Row("schemas[].fields[]", "names and types: only shown, and judged by audits"),
        Row("files[].key", "the keys of the manifest: others are left out"),
        *same(SHOWN, "files[].rows", "files[].format"),
        Row("files[].schema", "a schema of the same record, or none"),
        Row("files[].columns[]", "values of that type, or none: only shown, and judged by audits"),
        Row("files[].metadata.*", SHOWN),
    ),
    "task manifest": (
        Row("type", "the name of the format"),
        Row("jobId", "the job that reads it", by="transaction.output.load_listed"),
        *same(SHOWN, "jobAttemptNumber", "taskID"),
        Row("taskAttemptID", "an attempt id", by="transaction.task_manifests.TaskManifests"),
        Row("taskAttemptDir", SHOWN),
        Row("files[].s", "a work file of the job", by="transaction.output.load_listed"),
        Row("files[].d", "data below the destination", by="transaction.task_manifests.Places"),
        Row("files[].z", "the file that is renamed"),
        Row("files[].e", "the file that is renamed", by="transaction.visible.is_there"),
        Row("directories[].d", "data below the destination", by="transaction.task_manifests.Places"),
        Row("directories[].t", "the statuses that Hadoop has"),
        Row("directories[].l", SHOWN),
        Row("iostatistics.*", _STATISTICS),
        Row("extraData.*", SHOWN),
    ),
}
"""By the names that ``magicfs.formats.kinds`` has for formats."""
