"""``magicfs pending URL``: which uploads are pending under a destination."""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from magicfs.cli.printing import print_json, print_table, printable, write_line
from magicfs.cli.storage import add_storage_options, on_store, parse_storage_options
from magicfs.protocol.period import human_age

if TYPE_CHECKING:
    from magicfs.datasets.open_uploads import OpenUpload, Survey
    from magicfs.protocol.paths import Location

__all__ = ["HELP", "configure", "run"]

HELP = "list the uploads that are pending under a destination"
_FOUND = 1
_UNKNOWN = "unknown"
_ENDS_MAX = 10
_NOBODYS = "uploads of no known job with the program that began them, or by a lifecycle rule of the bucket"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    add_storage_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """List what is pending; nothing is changed. Returns 0 if nothing is pending, else 1."""
    from magicfs.datasets.open_uploads import survey
    from magicfs.stores import resolve

    url, options = resolve.split(arguments.url, parse_storage_options(arguments.storage_options))
    location = resolve.location_of(url)
    found = on_store(location, options, lambda store: survey(store, location.key))
    for error in found.unreadable:
        sys.stderr.write(f"magicfs: {printable(str(error))}\n")
    if arguments.json:
        print_json(_document(location, found, time.time()))
    else:
        _print(location, found, time.time())
    return _FOUND if found.uploads else 0


def _document(location: Location, found: Survey, now: float) -> dict[str, object]:
    from magicfs.datasets.open_uploads import ends

    return {
        "destination": location.url,
        "count": len(found.uploads),
        "bytes": found.bytes_known,
        "bytes_unknown": found.sizes_unknown,
        "pending": [
            {
                "key": upload.key,
                "upload_id": upload.upload_id,
                "initiated": datetime.fromtimestamp(upload.initiated, UTC).isoformat(timespec="seconds"),
                "age_seconds": max(0, round(now - upload.initiated)),
                "bytes": upload.length,
                "job_id": upload.job_id,
                "quarantined": upload.quarantined,
                "unjudged": upload.unjudged,
                "end": list(ends(location, upload)),
            }
            for upload in found.uploads
        ],
        "unreadable": [str(error) for error in found.unreadable],
    }


def _print(location: Location, found: Survey, now: float) -> None:
    from magicfs.report import human_bytes

    if not found.uploads:
        write_line(f"nothing is pending under {location.url}")
        return
    print_table(
        ("AGE", "SIZE", "JOB", "KEY"),
        (
            (
                human_age(now - upload.initiated),
                _UNKNOWN if upload.length is None else human_bytes(upload.length),
                f"{upload.job_id or _UNKNOWN}{_audited(upload)}",
                upload.key,
            )
            for upload in found.uploads
        ),
    )
    oldest = human_age(now - min(upload.initiated for upload in found.uploads))
    count, unknown = len(found.uploads), found.sizes_unknown
    write_line(
        f"{count} pending upload{'' if count == 1 else 's'} under {location.url}, the oldest {oldest} old; "
        f"{human_bytes(found.bytes_known)}" + (f" and {unknown} of unknown size" if unknown else "")
    )
    _print_ends(location, found)


def _audited(upload: OpenUpload) -> str:
    if upload.quarantined:
        return ", in quarantine"
    return ", not judged yet" if upload.unjudged else ""


def _print_ends(location: Location, found: Survey) -> None:
    """Name the commands that end what was listed, each once."""
    from magicfs.datasets.open_uploads import ends

    ways = dict.fromkeys(ends(location, upload) for upload in found.uploads)
    for commands in list(ways)[:_ENDS_MAX]:
        write_line("to end: " + (", or ".join(map(printable, commands)) or _NOBODYS))
    if len(ways) > _ENDS_MAX:
        write_line(f"to end {len(ways) - _ENDS_MAX} more: --json names the commands for each")
