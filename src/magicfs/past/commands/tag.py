"""``magicfs tag URL NAME``: give a publication a name."""

from __future__ import annotations

import argparse

from magicfs.cli.printing import print_fields, print_json, write_line
from magicfs.cli.statuses import Status
from magicfs.cli.storage import add_destination
from magicfs.errors import UsageError

HELP = "name a publication, to read it or roll back to it by this name"
PLACE = ("past", 3)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_destination(parser)
    parser.add_argument("name", metavar="NAME", help="the tag: letters, digits, '.', '_' and '-'")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--as-of",
        metavar="WHICH",
        help="the publication: a job id, a run id, another tag, or a time such as 2026-03-31T12:00Z; by "
        "default the newest",
    )
    which.add_argument("--delete", action="store_true", help="remove the tag; the publication stays")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep its files as long as the tag names it, whatever replaces them",
    )
    parser.add_argument("--move", action="store_true", help="move the tag if it names another publication")


def run(arguments: argparse.Namespace) -> int:
    """Set or remove it. Raises UsageError if there was none to remove."""
    from magicfs.past.tags import tag, untag

    options = arguments.storage_options
    if arguments.delete:
        removed = untag(arguments.url, arguments.name, storage_options=options)
        if not removed:
            raise UsageError(
                f"{arguments.url} has no tag {arguments.name}; nothing was changed; magicfs log "
                f"{arguments.url} lists the tags"
            )
        if arguments.json:
            print_json({"url": arguments.url, "tag": arguments.name, "removed": True})
        else:
            write_line(f"tag {arguments.name} was removed; no file was changed")
        return Status.FINE
    how = {"move": arguments.move, "keep": arguments.keep}
    job = tag(arguments.url, arguments.name, arguments.as_of, **how, storage_options=options)
    if arguments.json:
        print_json({"url": arguments.url, "tag": arguments.name, "job_id": job})
    else:
        print_fields(("dataset", arguments.url), ("tag", arguments.name), ("job", job))
    return Status.FINE
