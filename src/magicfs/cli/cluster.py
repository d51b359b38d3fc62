"""``--cluster-directory``, ``--cluster-user``, ``--hadoop-conf``: where staging committers keep sets."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from magicfs.errors import UsageError

if TYPE_CHECKING:
    from magicfs.datasets import Cluster

__all__ = ["add_cluster", "parse_cluster"]


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
