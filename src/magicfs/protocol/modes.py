"""What a job finds at its destination, and what each mode makes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final, Literal
from urllib.parse import unquote

from magicfs.errors import UsageError
from magicfs.protocol import paths
from magicfs.protocol.layout import SUCCESS
from magicfs.protocol.magic import MAGIC
from magicfs.protocol.temporary import TEMPORARY

WriteMode = Literal["error", "append", "overwrite", "overwrite_partitions"]
WRITE_MODES: Final = ("error", "append", "overwrite", "overwrite_partitions")

Mode = WriteMode | Literal["drop", "rewrite"]
REMOVALS: Final = ("drop", "rewrite")
"""The modes of jobs of one call that replace exactly the files that they name: by nothing, or by others with
the same rows."""

MANIFESTS: Final = "_magicfs"
"""The directory of manifests and pointer."""

_RESERVED: Final = (MAGIC, TEMPORARY, MANIFESTS)
"""Where committers keep the work of jobs, Hadoop's included, and manifests: how such an element begins."""

WORK: Final = (MAGIC, TEMPORARY)
"""Of these, how the elements begin below which jobs work."""

_SUMMARIES: Final = frozenset({"_metadata", "_common_metadata"})

TABLE_DIRECTORIES: Final = ("_delta_log", "metadata")
"""Directories by which table formats are recognised."""

_ICEBERG: Final = ".metadata.json"
_DELTA: Final = "_delta_log"


def is_by_partition(mode: str, committer: str) -> bool:
    """Whether a mode is about touched partitions only, not about the destination as a whole.

    ``partitioned`` looks only at these, in every mode (Hadoop's ``PartitionedStagingCommitter``).
    """
    if mode == "overwrite_partitions" or mode in REMOVALS:
        return True
    return mode == "error" and committer == "partitioned"


def is_data(key: str, directory: str) -> bool:
    """Whether a key counts as data that is there already: visible, and no directory that some tool marked."""
    return paths.is_visible(key, directory) and not key.endswith("/")


def is_reserved(relative: str) -> bool:
    """Whether a path relative to a destination has an element that is kept for committers.

    Such a key is never data: no task may publish it, and no mode deletes it. Any element counts, for another
    job may have its destination in a directory of this one: ``a/_temporary/b`` is reserved, too. Readers look
    into ``_temporary_id=1``, the directory of a partition, and so it is not.
    """
    return any(one.startswith(_RESERVED) and paths.is_hidden(one) for one in relative.split("/"))


def is_work(relative: str) -> bool:
    """Whether a path has an element below which jobs keep their work: only they delete there."""
    return any(element.startswith(WORK) for element in relative.split("/"))


def is_plain(relative: str) -> bool:
    """Whether a path relative to a destination is data at first sight, as most are.

    Nothing in it may be hidden, reserved, or the mark of a directory. What is not plain may be data, too.
    """
    return not (
        relative.startswith((".", "_")) or "/." in relative or "/_" in relative or relative.endswith("/")
    )


def is_replaced(key: str, directory: str) -> bool:
    """Whether ``overwrite`` removes a key: data, and Parquet's summaries of data that will be gone.

    What ``is_reserved`` is never removed, whatever the mode.
    """
    prefix = paths.prefix_of(directory)
    if not key.startswith(prefix) or len(key) == len(prefix):
        return False
    relative = key[len(prefix) :]
    if is_plain(relative):
        return True
    *parents, last = relative.split("/")
    if is_reserved(relative):
        return False
    if last in _SUMMARIES:
        return all(is_data(parent, "") for parent in parents)
    return is_data(key, directory)


def is_hidden_output(key: str, directory: str) -> bool:
    """Whether a key may be a file that a job published and readers skip, such as ``.part-0.crc``.

    ``_SUCCESS`` of the destination is none: it comes and goes with jobs.
    """
    if not paths.is_under(key, directory) or key == paths.join(directory, SUCCESS):
        return False
    hidden = not paths.is_visible(key, directory) and not key.endswith("/")
    return hidden and not is_reserved(paths.relative_to(key, directory))


def delta_mark(directory: str) -> str:
    """The key that says that magicfs itself keeps the log of Delta Lake at a destination."""
    return paths.join(directory, _DELTA, ".magicfs")


def table_format_of(key: str, directory: str) -> str | None:
    """The table format that a key belongs to: its catalogue would not know plain files written beside it."""
    if not paths.is_under(key, directory):
        return None
    first, _, rest = paths.relative_to(key, directory).partition("/")
    if first == _DELTA and rest and key != delta_mark(directory):
        return "Delta Lake"
    if first == "metadata" and (rest.endswith(_ICEBERG) or rest == "version-hint.text"):
        return "Apache Iceberg"
    return None


def touched_partitions(keys: Iterable[str], directory: str) -> tuple[str, ...]:
    """The partitions that files lie in: their directories, relative to the destination, sorted.

    Raises UsageError for a file at the root, and for directories of different depths: then it is not clear
    which files a partition replaces.
    """
    found = set()
    for key in keys:
        relative = paths.relative_to(key, directory)
        partition, slash, _ = relative.rpartition("/")
        if not slash:
            raise UsageError(
                f"{relative} is at the root of the destination, not in a partition; overwrite_partitions "
                "needs every file in a partition directory; partition the data, or use mode='overwrite'"
            )
        found.add(partition)
    if len({partition.count("/") for partition in found}) > 1:
        shown = " and ".join(sorted(found, key=lambda one: one.count("/"))[:: max(1, len(found) - 1)])
        raise UsageError(
            f"files are in partitions of different depths, such as {shown}; overwrite_partitions needs one "
            "depth; partition all files by the same columns"
        )
    return tuple(sorted(found))


def partition_of(key: str) -> dict[str, str]:
    """The values in the names of a file's directories: ``{"day": "2026-01-01"}`` of ``day=2026-01-01/…``."""
    named = (one.partition("=") for one in key.split("/")[:-1])
    return {unquote(name): unquote(value) for name, mark, value in named if mark}


def lies_in(key: str, partitions: Collection[str]) -> bool:
    """Whether a key lies in one of the directories, or below one; all are relative to the destination."""
    return any(one in partitions for one in paths.parents(key))


def partitions_to_check(keys: Iterable[str], directory: str) -> tuple[str, ...] | None:
    """The partitions that must be free of data for ``error``, relative to the destination, sorted.

    Partitions of any depth may be mixed: nothing is deleted. A file at the root lies in the partition that
    is the whole destination, so then all of it must be free. (Hadoop's ``PartitionedStagingCommitter`` probes
    a directory ``table_root`` in that case, which is never there.)

    None is the whole destination.
    """
    found = set()
    for key in keys:
        partition, slash, _ = paths.relative_to(key, directory).rpartition("/")
        if not slash:
            return None
        found.add(partition)
    return tuple(sorted(found))


def overlap(first: tuple[str, ...] | None, second: tuple[str, ...] | None) -> bool:
    """Whether two scopes have a file in common.

    They are partitions relative to the destination; None is the whole of it.
    """
    if first is None or second is None:
        return True
    return _any_within(first, set(second)) or _any_within(second, set(first))


def _any_within(partitions: tuple[str, ...], others: set[str]) -> bool:
    """Whether a partition is one of the others, or lies in one; looked up by its parents, not one by one."""
    for one in partitions:
        if one in others:
            return True
        end = one.rfind("/")
        while end >= 0:
            if one[:end] in others:
                return True
            end = one.rfind("/", 0, end)
    return False
