"""``magicfs show URL``: one of the JSON files of a job, readable."""

from __future__ import annotations

import argparse
import json
import os
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from magicfs.cli.printing import Field, Shown, Table, human_moment, print_json, print_recovered, print_shown
from magicfs.cli.statuses import Status
from magicfs.cli.storage import add_storage_options, on_store
from magicfs.errors import UsageError
from magicfs.operate.commands import show_guests
from magicfs.operate.commands.show_job import audit_fields, show_deletions, show_job, show_job_location
from magicfs.operate.commands.show_lists import show_footers, show_log, show_log_names, show_log_part
from magicfs.operate.commands.show_manifest_committer import show_manifest_success, show_task_manifest
from magicfs.report import human_bytes

if TYPE_CHECKING:
    from magicfs.formats.manifest import KeptFiles, Manifest, ManifestFile, ManifestFiles
    from magicfs.formats.pending import Pending
    from magicfs.formats.pendingset import PendingSet
    from magicfs.formats.pointer import Pointer
    from magicfs.formats.registration import Registration
    from magicfs.formats.success import SuccessData
    from magicfs.formats.tag import Tag

_JOB_DIRECTORY = re.compile(
    r"(?P<destination>.+?)/(?:__magic_job-(?P<job>[^/]+)(?:/job-[^/]+)?|__magic/job-(?P<older>[^/]+)"
    r"|_temporary/(?P<renaming>[^/]+))/?"
)
HELP = "show a file of a job: _SUCCESS, a manifest, job.json, .pending and all others"
PLACE = ("look", 3)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "url",
        metavar="URL",
        help="the file: a URL such as s3://bucket/sales/_SUCCESS, or a path; or the directory of a job",
    )
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read one file and show it, or the job whose directory is given, such as ``__magic_job-<id>``.

    Raises FormatError for other files, and malformed or inconsistent ones.
    """
    from magicfs.formats import kinds

    options = arguments.storage_options
    if (whole := job_directory(arguments.url)) is not None:
        from magicfs.datasets import recover

        url, job = whole
        report = recover(url, job=job, dry_run=True, storage_options=options)
        print_recovered(report, f"job {job} left nothing under {url}", as_json=arguments.json)
        return Status.FINE
    raw = _read(arguments.url, options)
    guests = show_guests.kinds_of_guests()
    content = kinds.load(arguments.url, raw, guests)
    kind = kinds.detect(arguments.url, raw, guests)
    if arguments.json:
        print_json({"path": arguments.url, "kind": kind, "document": json.loads(raw)})
    else:
        _print(arguments.url, kind, content)
    return Status.FINE


def _print(url: str, kind: str, content: Any) -> None:
    from magicfs.formats.success import MANIFEST_COMMITTERS

    if kind == "success" and content.committer in MANIFEST_COMMITTERS:
        show_manifest_success(url, content)
        return
    title, show = _SHOW[kind]
    fields, *more = show(content)
    print_shown(((("file", url), ("kind", title), *fields), *more))


def job_directory(url: str) -> tuple[str, str] | None:
    """The destination and the id of the job whose directory a URL is; None for any other."""
    match = _JOB_DIRECTORY.fullmatch(url)
    return (
        None if match is None else (match["destination"], match["job"] or match["older"] or match["renaming"])
    )


def _read(url: str, options: dict[str, object]) -> bytes:
    from magicfs.formats.kinds import SIZE_LIMIT
    from magicfs.stores import resolve

    if "://" not in url or url.startswith("file://"):
        return _read_local(Path(url.removeprefix("file://")), SIZE_LIMIT + 1)
    url, options = resolve.split(url, options)
    location = resolve.location_of(url)
    if not location.key:
        raise UsageError(f"{url} is a bucket; give the URL of a file in it")
    return on_store(location, options, lambda store: store.get(location.key, size_max=SIZE_LIMIT + 1))


def _read_local(path: Path, size_max: int) -> bytes:
    try:
        at_once = getattr(os, "O_NONBLOCK", 0)  # nobody may ever write into a named pipe
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | at_once)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is not a file; give the path or the URL of a file")
            return file.read(size_max)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}; give the path or the URL of a file"
        ) from error


def _pending(pending: Pending) -> Shown:
    parts = len(pending.parts)
    fields = (
        ("becomes", f"{pending.bucket}/{pending.destination_key}"),
        ("upload id", pending.upload_id),
        ("size", f"{human_bytes(pending.length)} in {parts} part{'' if parts == 1 else 's'}"),
        ("job", pending.job_id),
        ("task", pending.task_id),
        ("written as", pending.uri),
        ("closed", human_moment(pending.saved_ms or pending.created_ms)),
        ("text", pending.text),
        *((f"extra {name}", value) for name, value in pending.extra_data.items()),
    )
    return (fields,)


def _pending_set(pending_set: PendingSet) -> Shown:
    commits = pending_set.commits
    fields = (
        ("job", pending_set.job_id),
        ("files", len(commits)),
        ("size", human_bytes(sum(commit.length for commit in commits))),
        *((f"extra {name}", value) for name, value in pending_set.extra_data.items()),
    )
    rows = [
        (
            human_bytes(commit.length),
            str(len(commit.parts)),
            commit.task_id or "unknown",
            f"{commit.bucket}/{commit.destination_key}",
        )
        for commit in commits
    ]
    return fields, Table(("SIZE", "PARTS", "TASK ATTEMPT", "BECOMES"), rows)


def _success(success: SuccessData) -> Shown:
    fields = (
        ("success", "yes" if success.success else "no"),
        ("job", success.job_id),
        ("job id from", success.job_id_source),
        ("committer", success.committer),
        ("description", success.description),
        ("ended", human_moment(success.timestamp_ms) or success.date),
        ("host", success.hostname),
        ("state", success.state),
        ("stage", success.stage),
        *((f"diagnostic {name}", value) for name, value in success.diagnostics.items()),
        *((f"metric {name}", value) for name, value in success.metrics.items() if value),
        ("metrics of 0", sum(not value for value in success.metrics.values()) or None),
        *((f"counted {name}", value) for name, value in sorted(success.statistics.counters.items()) if value),
        ("files named", len(success.filenames)),
    )
    return fields, Table(("FILE",), [*zip(success.filenames, strict=True)])


def _manifest(manifest: Manifest) -> Shown:
    hides = {"nothing": "nothing", "all": "everything that was there", "keys": "the deleted files"}
    fields = (
        ("job", manifest.job_id),
        ("run", manifest.run_id),
        ("destination", f"{manifest.bucket}/{manifest.destination}"),
        ("mode", manifest.mode),
        ("published", human_moment(manifest.committed_ms)),
        ("previous job", manifest.previous or "none"),
        ("hides", hides[manifest.hides]),
        ("replaced job", manifest.replaced),
        ("deleted files", len(manifest.deleted) or None),
        ("partitions", ", ".join(manifest.partitions or ())),
        ("older files", "existed, in no manifest" if manifest.older_files else None),
        ("files", manifest.count),
        ("size", human_bytes(manifest.size)),
        ("shows again", manifest.restores and f"the state published by job {manifest.restores}"),
        *(_kept(manifest.kept) if manifest.kept else ()),
        ("log of its jobs", manifest.log and f"{manifest.log.job_id}/{manifest.log.name}"),
        *_footers(manifest),
        *audit_fields(manifest.audit),
    )
    parts = [(str(part.files), human_bytes(part.size), part.name) for part in manifest.parts]
    return fields, _files(manifest.files), Table(("FILES", "SIZE", "LISTED IN"), parts)


def _kept(kept: KeptFiles) -> list[Field]:
    files = sum(one.files for one in kept.lists)
    return [("keeps", f"{files} replaced files"), ("keeps until", human_moment(kept.until_ms))]


def _footers(manifest: Manifest) -> list[Field]:
    found = manifest.footers
    if found is None:
        return []
    names = ", ".join(one.name for one in found.lists)
    return [
        ("rows", "not known for all files" if found.rows is None else f"{found.rows}"),
        ("schemas", ", ".join(found.schemas)),
        ("footers", names and f"of {sum(one.files for one in found.lists)} files, in {names}"),
    ]


def _manifest_files(listed: ManifestFiles) -> Shown:
    return (("job", listed.job_id), ("files", len(listed.files))), _files(listed.files)


def _files(files: Sequence[ManifestFile]) -> Table:
    if all(one.rows is None for one in files):
        return Table(("SIZE", "ETAG", "KEY"), [(human_bytes(one.size), one.etag, one.key) for one in files])
    rows = ["" if one.rows is None else f"{one.rows}" for one in files]
    cells = [(human_bytes(one.size), row, one.etag, one.key) for one, row in zip(files, rows, strict=True)]
    return Table(("SIZE", "ROWS", "ETAG", "KEY"), cells)


def _pointer(pointer: Pointer) -> Shown:
    fields = (
        ("job", pointer.job_id),
        ("changed", human_moment(pointer.changed_ms)),
        ("runs", len(pointer.runs)),
        ("log of older jobs", pointer.log and f"{pointer.log.job_id}/{pointer.log.name}"),
    )
    keeping = [
        (human_moment(one.until_ms), "yes" if one.expires else "no", one.job_id) for one in pointer.keeping
    ]
    runs = [(job, run) for run, job in reversed(pointer.runs)]
    return fields, Table(("KEEPS UNTIL", "EXPIRES", "JOB"), keeping), Table(("JOB", "RUN"), runs)


def _tag(tag: Tag) -> Shown:
    return ((("tag", tag.name), ("job", tag.job_id), ("set", human_moment(tag.created_ms))),)


def _registration(one: Registration) -> Shown:
    fields = (
        ("job", one.job_id),
        ("catalog", one.catalog),
        ("table", one.table),
        *sorted((one.options or {}).items()),
        ("line, according to the record", one.line),
    )
    return (fields,)


_SHOW: dict[str, tuple[str, Callable[[Any], Shown]]] = {
    "pending": ("a pending upload (.pending)", _pending),
    "pendingset": ("the files of a committed task (.pendingset)", _pending_set),
    "success": ("the end of a job (_SUCCESS)", _success),
    "manifest": ("what a job published (manifest)", _manifest),
    "manifest files": ("files that a job published (a part of its manifest)", _manifest_files),
    "task manifest": ("the files of a committed task (task manifest)", show_task_manifest),
    "pointer": ("the newest published job (manifest pointer)", _pointer),
    "tag": ("a name for a publication (tag)", _tag),
    "registration": ("a table that is behind the dataset (registration)", _registration),
    "log": ("what was published (log)", show_log),
    "log part": ("what was published (a part of the log)", show_log_part),
    "log names": ("ids of published jobs and runs (names of the log)", show_log_names),
    "footers": ("file statistics (footers)", show_footers),
    "job": ("the state of a job (job object)", show_job),
    "deletions": ("old files that a job deletes once its own are visible (deletions)", show_deletions),
    "job location": ("where a job's object is, for an extra destination (job location)", show_job_location),
    "alias": ("the alias of a dataset (alias)", show_guests.show_alias),
    "alias claim": ("whose alias it is (alias claim)", show_guests.show_claim),
    "operation": ("a decision that was carried out (operation)", show_guests.show_operation),
    "release": ("datasets that are released together (release)", show_guests.show_release),
}
