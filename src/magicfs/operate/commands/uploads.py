"""``magicfs uploads URL``: the uploads that are pending under a destination."""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from magicfs.cli.printing import human_moment, print_error, print_json, print_table, printable, write_line
from magicfs.cli.statuses import status_of
from magicfs.cli.storage import add_destination, on_store
from magicfs.report import human_bytes

if TYPE_CHECKING:
    from magicfs.operate.open_uploads import OpenUpload, Survey
    from magicfs.protocol.paths import Location

__all__ = ["HELP", "PLACE", "configure", "run"]

HELP = "list pending uploads, with the command to end each"
PLACE = ("look", 2)
_ENDS_MAX = 10
_NOBODYS = "use the program that started the uploads, or a lifecycle rule of the bucket"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_destination(parser)


def run(arguments: argparse.Namespace) -> int:
    """List what is pending; nothing is changed. Returns 0 if nothing is pending."""
    from magicfs.operate.open_uploads import survey
    from magicfs.stores import resolve

    url, options = resolve.split(arguments.url, arguments.storage_options)
    location = resolve.location_of(url)
    found = on_store(location, options, lambda store: survey(store, location.key))
    for error in found.unreadable:
        print_error(error, as_json=arguments.json)
    if arguments.json:
        print_json(_document(location, found, time.time()))
    else:
        _print(location, found)
    return status_of(found=found.uploads)


def _document(location: Location, found: Survey, now: float) -> dict[str, object]:
    from magicfs.operate.open_uploads import ends

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


def _print(location: Location, found: Survey) -> None:
    """Print what is pending, and the commands that end it, each once."""
    from magicfs.operate.open_uploads import ends

    if not found.uploads:
        write_line(f"nothing is pending under {location.url}")
        return
    print_table(("BEGUN", "SIZE", "JOB", "KEY"), map(_row, found.uploads))
    oldest = human_moment(min(one.initiated for one in found.uploads) * 1000)
    unknown = f" and {found.sizes_unknown} of unknown size" if found.sizes_unknown else ""
    size = f"{human_bytes(found.bytes_known)}{unknown}"
    write_line(f"{len(found.uploads)} pending under {location.url}, the oldest started {oldest}; {size}")
    ways = dict.fromkeys(ends(location, upload) for upload in found.uploads)
    for commands in list(ways)[:_ENDS_MAX]:
        write_line("to end: " + (", or ".join(map(printable, commands)) or _NOBODYS))
    if len(ways) > _ENDS_MAX:
        write_line(f"to end {len(ways) - _ENDS_MAX} more: --json names the commands for each")


def _row(upload: OpenUpload) -> tuple[str, ...]:
    state = ", in quarantine" if upload.quarantined else ", not judged yet" if upload.unjudged else ""
    size = "unknown" if upload.length is None else human_bytes(upload.length)
    return human_moment(upload.initiated * 1000), size, f"{upload.job_id or 'unknown'}{state}", upload.key
