"""What each field of all records but the job object is compared with before anything is done by its word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from magicfs.formats.deletions import OldObject
from magicfs.formats.job_location import JobLocation
from magicfs.formats.manifest_rows import MANIFEST_FILES_ROWS, MANIFEST_ROWS, POINTER_ROWS
from magicfs.formats.rows import (
    ANOTHER,
    BYTES,
    ITSELF,
    SHOWN,
    Place,
    Row,
    moment,
    old_problem,
    same,
)
from magicfs.formats.tag import Tag
from magicfs.protocol import paths
from magicfs.protocol.modes import is_reserved

__all__ = ["RECORD_ROWS"]

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
        by="formats.footer_texts.footers_in",
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
