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

from magicfs.cli.printing import (
    human_moment,
    print_fields,
    print_json,
    print_recovered,
    print_table,
    printable,
    write_line,
)
from magicfs.cli.show_footers import show_footers
from magicfs.cli.show_job import (
    audit_fields,
    show_deletions,
    show_job,
    show_job_location,
)
from magicfs.cli.show_log import show_log, show_log_names, show_log_part
from magicfs.cli.show_manifest_committer import show_manifest_success, show_task_manifest
from magicfs.cli.storage import add_storage_options, on_store, parse_storage_options
from magicfs.errors import UsageError

if TYPE_CHECKING:
    from magicfs.formats.manifest import Manifest, ManifestFile, ManifestFiles
    from magicfs.formats.pending import Pending
    from magicfs.formats.pendingset import PendingSet
    from magicfs.formats.pointer import Pointer
    from magicfs.formats.registration import Registration
    from magicfs.formats.statistics import Statistics
    from magicfs.formats.success import SuccessData
    from magicfs.formats.tag import Tag

__all__ = ["HELP", "configure", "run"]

_JOB_DIRECTORY = re.compile(
    r"(?P<destination>.+?)/(?:__magic_job-(?P<job>[^/]+)(?:/job-[^/]+)?|__magic/job-(?P<older>[^/]+)"
    r"|_temporary/(?P<renaming>[^/]+))/?"
)
HELP = "show one of the files of a job: .pending, .pendingset, _SUCCESS, manifests, job.json and all others"


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

    options = parse_storage_options(arguments.storage_options)
    if (whole := job_directory(arguments.url)) is not None:
        from magicfs.datasets import recover

        url, job = whole
        report = recover(url, job=job, dry_run=True, storage_options=options)
        print_recovered(report, f"nothing of job {job} is left under {url}", as_json=arguments.json)
        return 0
    raw = _read(arguments.url, options)
    content = kinds.load(arguments.url, raw)
    kind = kinds.detect(arguments.url, raw)
    if arguments.json:
        print_json({"path": arguments.url, "kind": kind, "document": json.loads(raw)})
    else:
        _SHOW[kind](arguments.url, content)
    return 0


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
                raise UsageError(f"{path} is no file; give the path or the URL of a file")
            return file.read(size_max)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror}; give the path or the URL of a file"
        ) from error


def _show_pending(url: str, pending: Pending) -> None:
    from magicfs.report import human_bytes

    parts = len(pending.parts)
    print_fields(
        [
            ("file", url),
            ("kind", "a pending upload (.pending)"),
            ("becomes", f"{pending.bucket}/{pending.destination_key}"),
            ("upload id", pending.upload_id),
            ("size", f"{human_bytes(pending.length)} in {parts} part{'' if parts == 1 else 's'}"),
            ("job", pending.job_id),
            ("task", pending.task_id),
            ("written as", pending.uri),
            ("closed", human_moment(pending.saved_ms or pending.created_ms)),
            ("text", pending.text),
            *((f"extra {name}", value) for name, value in pending.extra_data.items()),
        ]
    )


def _show_pending_set(url: str, pending_set: PendingSet) -> None:
    from magicfs.report import human_bytes

    commits = pending_set.commits
    print_fields(
        [
            ("file", url),
            ("kind", "the files of a committed task (.pendingset)"),
            ("job", pending_set.job_id),
            ("files", len(commits)),
            ("size", human_bytes(sum(commit.length for commit in commits))),
            *((f"extra {name}", value) for name, value in pending_set.extra_data.items()),
        ]
    )
    if commits:
        write_line("")
        print_table(
            ("SIZE", "PARTS", "TASK ATTEMPT", "BECOMES"),
            (
                (
                    human_bytes(commit.length),
                    str(len(commit.parts)),
                    commit.task_id or "unknown",
                    f"{commit.bucket}/{commit.destination_key}",
                )
                for commit in commits
            ),
        )


def _show_success(url: str, success: SuccessData) -> None:
    from magicfs.formats.success import MANIFEST_COMMITTERS

    if success.committer in MANIFEST_COMMITTERS:
        show_manifest_success(url, success)
        return
    print_fields(
        [
            ("file", url),
            ("kind", "the end of a job (_SUCCESS)"),
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
            *((f"counted {name}", value) for name, value in _counters(success.statistics)),
            ("files named", len(success.filenames)),
        ]
    )
    for name in success.filenames:
        write_line(f"  {printable(name)}")


def _show_manifest(url: str, manifest: Manifest) -> None:
    from magicfs.report import human_bytes

    hides = {"nothing": "nothing", "all": "everything that was there", "keys": "the deleted files"}
    print_fields(
        [
            ("file", url),
            ("kind", "what a job published (manifest)"),
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
            ("older files", "were there, in no manifest" if manifest.older_files else None),
            ("files", manifest.count),
            ("size", human_bytes(manifest.size)),
            ("shows again", manifest.restores and f"what was published with job {manifest.restores}"),
            ("keeps", manifest.kept and f"{sum(one.files for one in manifest.kept.lists)} replaced files"),
            ("keeps until", manifest.kept and human_moment(manifest.kept.until_ms)),
            ("log of its jobs", manifest.log and f"{manifest.log.job_id}/{manifest.log.name}"),
            *_footers_fields(manifest),
            *audit_fields(manifest.audit),
        ]
    )
    _print_files(manifest.files)
    if manifest.parts:
        write_line("")
        rows = ((str(part.files), human_bytes(part.size), part.name) for part in manifest.parts)
        print_table(("FILES", "SIZE", "LISTED IN"), rows)


def _footers_fields(manifest: Manifest) -> list[tuple[str, object]]:
    told = manifest.footers
    if told is None:
        return []
    names = ", ".join(one.name for one in told.lists)
    return [
        ("rows", "not known of all files" if told.rows is None else f"{told.rows}"),
        ("schemas", ", ".join(told.schemas)),
        ("footers", names and f"of {sum(one.files for one in told.lists)} files, in {names}"),
    ]


def _show_manifest_files(url: str, listed: ManifestFiles) -> None:
    print_fields(
        [
            ("file", url),
            ("kind", "files that a job published (a part of its manifest)"),
            ("job", listed.job_id),
            ("files", len(listed.files)),
        ]
    )
    _print_files(listed.files)


def _print_files(files: Sequence[ManifestFile]) -> None:
    from magicfs.report import human_bytes

    if files:
        write_line("")
        if any(file.rows is not None for file in files):
            counted = (("" if one.rows is None else f"{one.rows}") for one in files)
            cells = (
                (human_bytes(one.size), rows, one.etag, one.key)
                for one, rows in zip(files, counted, strict=True)
            )
            print_table(("SIZE", "ROWS", "ETAG", "KEY"), cells)
            return
        rows = ((human_bytes(file.size), file.etag, file.key) for file in files)
        print_table(("SIZE", "ETAG", "KEY"), rows)


def _show_pointer(url: str, pointer: Pointer) -> None:
    print_fields(
        [
            ("file", url),
            ("kind", "the newest published job (manifest pointer)"),
            ("job", pointer.job_id),
            ("changed", human_moment(pointer.changed_ms)),
            ("runs", len(pointer.runs)),
            ("log of older jobs", pointer.log and f"{pointer.log.job_id}/{pointer.log.name}"),
        ]
    )
    if pointer.keeping:
        write_line("")
        rows = (
            (human_moment(one.until_ms), "yes" if one.expires else "no", one.job_id)
            for one in pointer.keeping
        )
        print_table(("KEEPS UNTIL", "EXPIRES", "JOB"), rows)
    if pointer.runs:
        write_line("")
        print_table(("JOB", "RUN"), ((job, run) for run, job in reversed(pointer.runs)))


def _show_tag(url: str, tag: Tag) -> None:
    print_fields(
        [
            ("file", url),
            ("kind", "a name for a publication (tag)"),
            ("tag", tag.name),
            ("job", tag.job_id),
            ("set", human_moment(tag.created_ms)),
        ]
    )


def _show_registration(url: str, one: Registration) -> None:
    print_fields(
        [
            ("file", url),
            ("kind", "a table that does not show a publication yet (registration)"),
            ("job", one.job_id),
            ("catalog", one.catalog),
            ("table", one.table),
            *sorted((one.options or {}).items()),
            ("line, as the record says", one.line),
        ]
    )


def _counters(statistics: Statistics) -> list[tuple[str, int]]:
    return [(name, value) for name, value in sorted(statistics.counters.items()) if value]


_SHOW: dict[str, Callable[[str, Any], None]] = {
    "pending": _show_pending,
    "pendingset": _show_pending_set,
    "success": _show_success,
    "manifest": _show_manifest,
    "manifest files": _show_manifest_files,
    "task manifest": show_task_manifest,
    "pointer": _show_pointer,
    "tag": _show_tag,
    "registration": _show_registration,
    "log": show_log,
    "log part": show_log_part,
    "log names": show_log_names,
    "footers": show_footers,
    "job": show_job,
    "deletions": show_deletions,
    "job location": show_job_location,
}
