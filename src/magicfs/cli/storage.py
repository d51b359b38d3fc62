"""From a command's arguments to the store behind a URL."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from magicfs.errors import FormatError, ObjectNotFound, UsageError

if TYPE_CHECKING:
    from magicfs.protocol.paths import Location
    from magicfs.stores.port import Store

__all__ = ["add_destination", "add_storage_options", "check_there", "on_store", "parse_storage_options"]

_Result = TypeVar("_Result")


class _Options(argparse.Action):
    """Raises UsageError itself: argparse would repeat the value."""

    def __call__(self, _: object, namespace: argparse.Namespace, values: object, __: object = None) -> None:
        setattr(namespace, self.dest, parse_storage_options(str(values)))


def add_destination(parser: argparse.ArgumentParser, *, dry_run: bool = False) -> None:
    """Add ``URL``, the options of its store, and ``--dry-run``."""
    parser.add_argument("url", metavar="URL", help="the destination, such as s3://bucket/sales")
    add_storage_options(parser, dry_run=dry_run)


def add_storage_options(parser: argparse.ArgumentParser, *, dry_run: bool = False) -> None:
    """Add ``--storage-options``, and ``--dry-run``."""
    if dry_run:
        parser.add_argument("--dry-run", action="store_true", help="change nothing; show what would be done")
    parser.add_argument(
        "--storage-options",
        metavar="JSON",
        action=_Options,
        default={},
        help='options of the store\'s fsspec filesystem, such as \'{"endpoint_url": "http://…"}\'; no '
        "secrets: set those in the environment",
    )


def check_there(arguments: argparse.Namespace) -> None:
    """Raise ObjectNotFound if a command can find nothing at its URL, such as one with a typo."""
    from magicfs.datasets.connection import is_nothing, open_destination

    place = open_destination(arguments.url, arguments.storage_options, for_reading=True)
    if place.run(is_nothing):
        key = f"{place.location.bucket}/{place.location.key}"
        problem = "nothing is there: no object, and no upload"
        raise ObjectNotFound("list", key, problem, hint="nothing was changed; check the URL")


def parse_storage_options(text: str) -> dict[str, Any]:
    """Read the value of ``--storage-options``. Raises UsageError if it is not a JSON object, or an option
    carries a secret; the message quotes no value.
    """
    from magicfs.formats.document import parse, too_large
    from magicfs.formats.limits import ROOM
    from magicfs.stores import resolve

    try:
        options = parse("--storage-options", text.encode("utf-8", "surrogatepass"), size_limit=ROOM)
    except FormatError:
        options = None
    if options is None or too_large(options) is not None:
        raise UsageError(
            '--storage-options is not a JSON object; write it like \'{"endpoint_url": "http://localhost:9000"}\''
        )
    if secrets := sorted(resolve.secrets_of(options)):
        raise UsageError(
            f"--storage-options holds {', '.join(map(repr, secrets))}, and other users of this machine can "
            f"read a command line; leave it out and {resolve.advice_for(secrets)}"
        )
    return options


def on_store(
    location: Location,
    options: dict[str, Any],
    work: Callable[[Store], Coroutine[Any, Any, _Result]],
) -> _Result:
    """Run a coroutine on the store of a location and return what it returns."""
    from magicfs.runtime.interrupt import run_on
    from magicfs.stores import resolve

    filesystem = resolve.filesystem(location.scheme, options)
    store = resolve.open_store(filesystem, location.bucket)
    result: _Result = run_on(resolve.loop_of(filesystem), work, store)
    return result
