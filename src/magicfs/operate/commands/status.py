"""``magicfs status URL``: what a destination owes on one screen; of a bucket, a line for each destination."""

from __future__ import annotations

import argparse
import os
import secrets
from pathlib import Path

from magicfs.cli.printing import print_fields, print_json, print_table, write_line
from magicfs.cli.statuses import status_of
from magicfs.cli.storage import add_destination, check_there
from magicfs.errors import UsageError

HELP = "show the newest publication and everything that is not done, on one screen"
PLACE = ("look", 0)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_destination(parser)
    parser.add_argument("--html", metavar="FILE", help="also write one page that a browser shows")
    parser.add_argument(
        "--price", metavar="DOLLARS", type=float, help="dollars a GiB and month, instead of the list price"
    )


def run(arguments: argparse.Namespace) -> int:
    """Look; nothing is changed. Returns 1 if something needs a decision."""
    from magicfs.operate.page import page_of
    from magicfs.operate.status import BucketStatus, status

    found = status(arguments.url, price=arguments.price, storage_options=arguments.storage_options)
    if found.ok:
        check_there(arguments)
    if arguments.html:
        _write(Path(arguments.html), page_of(found))
    if arguments.json:
        print_json(found.to_dict())
    elif isinstance(found, BucketStatus):
        print_table(found.HEADER, found.table())
        for one in found.uploads:
            print_fields(("uploads", one.sentence), ("end", one.advice))
        if not found.is_whole:
            write_line("there are more directories than were looked at; give a URL further down")
    else:
        print_fields(*((name, str(value)) for name, value in found._rows()))  # noqa: SLF001 - its own screen
    return status_of(found=not found.ok)


def _write(path: Path, page: str) -> None:
    """Write the page at once, so that a browser never loads half of it."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        draft.write_text(page, encoding="utf-8", errors="backslashreplace")
        os.replace(draft, path)  # noqa: PTH105 - says what it does
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror}; give --html another file") from error
