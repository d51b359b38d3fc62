"""``magicfs show URL``: one of the JSON files of a job, readable."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from magicfs.commands.printing import print_fields, print_json, print_table, printable, write_line
from magicfs.commands.storage import add_storage_options, on_store, parse_storage_options
from magicfs.errors import UsageError

if TYPE_CHECKING:
    from magicfs.formats.pending import Pending
    from magicfs.formats.pendingset import PendingSet
    from magicfs.formats.statistics import Statistics
    from magicfs.formats.success import SuccessData

__all__ = ["HELP", "configure", "run"]

HELP = "show a .pending file, a .pendingset file or _SUCCESS"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "url", metavar="URL", help="the file: a URL such as s3://bucket/sales/_SUCCESS, or a path"
    )
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read one file and show it.

    Returns:
        0.

    Raises:
        FormatError: It is none of these files, or cannot be believed.
    """
    from magicfs.formats import kinds
    from magicfs.formats.pending import Pending
    from magicfs.formats.pendingset import PendingSet

    options = parse_storage_options(arguments.storage_options)
    raw = _read(arguments.url, options)
    content = kinds.load(arguments.url, raw)
    kind = kinds.detect(arguments.url, raw)
    if arguments.json:
        print_json({"path": arguments.url, "kind": kind, "document": json.loads(raw)})
    elif isinstance(content, Pending):
        _show_pending(arguments.url, content)
    elif isinstance(content, PendingSet):
        _show_pending_set(arguments.url, content)
    else:
        _show_success(arguments.url, content)
    return 0


def _read(url: str, options: dict[str, object]) -> bytes:
    from magicfs.formats.pendingset import PENDINGSET_SIZE_LIMIT
    from magicfs.protocol import paths

    if "://" not in url or url.startswith("file://"):
        return _read_local(Path(url.removeprefix("file://")), PENDINGSET_SIZE_LIMIT + 1)
    location = paths.parse_url(url)
    if not location.key:
        raise UsageError(f"{url} is a bucket; give the URL of a file in it")
    return on_store(
        location, options, lambda store: store.get(location.key, size_max=PENDINGSET_SIZE_LIMIT + 1)
    )


def _read_local(path: Path, size_max: int) -> bytes:
    try:
        with path.open("rb") as file:
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
            ("closed", _moment(pending.saved_ms or pending.created_ms)),
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
    print_fields(
        [
            ("file", url),
            ("kind", "the end of a job (_SUCCESS)"),
            ("success", "yes" if success.success else "no"),
            ("job", success.job_id),
            ("job id from", success.job_id_source),
            ("committer", success.committer),
            ("description", success.description),
            ("ended", _moment(success.timestamp_ms) or success.date),
            ("host", success.hostname),
            ("state", success.state),
            ("stage", success.stage),
            *((f"diagnostic {name}", value) for name, value in success.diagnostics.items()),
            *((f"metric {name}", value) for name, value in success.metrics.items()),
            *((f"counted {name}", value) for name, value in _counters(success.statistics)),
            ("files named", len(success.filenames)),
        ]
    )
    for name in success.filenames:
        write_line(f"  {printable(name)}")


def _counters(statistics: Statistics) -> list[tuple[str, int]]:
    return [(name, value) for name, value in sorted(statistics.counters.items()) if value]


def _moment(milliseconds: int) -> str:
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds} ms since the epoch"
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else ""
