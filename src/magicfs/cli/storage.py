"""From a command's arguments to the store behind a URL, and the places of Hadoop's staging committers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from magicfs.errors import FormatError, ObjectNotFound, UsageError

if TYPE_CHECKING:
    from magicfs.datasets import Cluster
    from magicfs.protocol.paths import Location
    from magicfs.stores.port import Store

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


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--cluster-directory",
        metavar="URL",
        help="where Hadoop's staging committers keep task commits, such as hdfs://nn/tmp/staging",
    )
    where.add_argument(
        "--hadoop-conf",
        metavar="FILE",
        action="append",
        help="the same, from a configuration file such as core-site.xml; may be repeated, the last one wins",
    )
    parser.add_argument(
        "--cluster-user", metavar="NAME", help="only jobs of this user; by default those of all users"
    )


def parse_cluster(arguments: argparse.Namespace) -> Cluster | None:
    """What the options say; None without them. Raises UsageError for a file that is no configuration."""
    from magicfs.datasets.finders import Cluster, finder_named

    directory = arguments.cluster_directory
    if arguments.hadoop_conf:
        conf: dict[str, str] = {}
        for name in arguments.hadoop_conf:
            conf |= _read(Path(name))
        directory = finder_named("hadoop").cluster_directory(conf)
    if directory:
        return Cluster(directory, arguments.cluster_user)
    if arguments.cluster_user:
        raise UsageError("--cluster-user needs --cluster-directory or --hadoop-conf; nothing was changed")
    return None


def _read(path: Path) -> dict[str, str]:
    """What a configuration of Hadoop's says: XML, or lines such as ``name value`` and ``name=value``."""
    from xml.etree import ElementTree as ET

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}; nothing was changed") from error
    if not text.lstrip().startswith("<"):
        lines = [line.strip() for line in text.splitlines()]
        pairs = [line.replace("=", " ", 1).split(None, 1) for line in lines if line and line[0] != "#"]
        return {pair[0]: pair[1] if len(pair) > 1 else "" for pair in pairs if pair}
    try:
        root = ET.fromstring(text)  # noqa: S314 - the user's own file
    except (ET.ParseError, LookupError, ValueError) as error:
        raise UsageError(f"{path} is not a Hadoop configuration: {error}; nothing was changed") from error
    found = ((one.findtext("name"), one.findtext("value")) for one in root.iter("property"))
    return {name.strip(): (value or "").strip() for name, value in found if name}
