"""The options of ``spark.read.format("magic")``, parsed and checked on the driver."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from magicfs.errors import UsageError
from magicfs.spark import options as written
from magicfs.tables.formats import FORMATS

_BYTES_PER_TASK = 128 * 2**20


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What a read was asked to do. Pickles with the credentials in it, as Spark's own options do."""

    path: str
    file_format: str | None = None  # None: as the name of each file ends
    columns: tuple[str, ...] = ()  # those to read, in this order; none for all
    partitioning: str = "hive"
    job: str | None = None  # as of this job; None for now
    release: str | None = None  # URL of a release: as of the job that it names
    time_zone: str | None = None  # of the moments in directories' names
    bytes_per_task: int = _BYTES_PER_TASK
    on_replace: str = "error"  # what a stream does about a job that takes rows away
    start_from: str = "all"  # what a new stream begins with
    files_per_trigger: int | None = None  # most files of a batch; None for no limit
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)


def parse(given: Mapping[str, str], *, streaming: bool | None = False) -> ReadOptions:
    """Parse and check the options of one read, all of them text. Raises UsageError.

    ``streaming``: whether a stream is read, which has options of its own; None where that is not known.
    """
    lowered = {name.lower(): value for name, value in given.items()}
    if unknown := sorted(set(lowered) - set(_PARSERS)):
        raise UsageError(_unknown(unknown))
    if not lowered.get("path", "").strip():
        raise UsageError("the dataset is missing; name it in .load('s3://bucket/dataset')")
    chosen: dict[str, Any] = {}
    for name, value in lowered.items():
        attribute, parser = _PARSERS[name]
        chosen[attribute] = parser(OPTIONS[name], value)
    options = ReadOptions(**chosen | {"path": lowered["path"].strip()})
    if streaming is False and (wrong := [name for name in _OF_STREAMS if name.lower() in lowered]):
        raise UsageError(f"{wrong[0]} is an option of streams; leave it out, or use spark.readStream")
    if streaming and (options.job or options.release) is not None:
        one = "release" if options.job is None else "job"
        raise UsageError(f"{one} fixes one version, and a stream reads later ones, too; leave it out")
    if options.job is not None and options.release is not None:
        raise UsageError("a release names the job itself; give job or release, not both")
    return options


def _unknown(names: list[str]) -> str:
    close = {name: difflib.get_close_matches(name, OPTIONS, n=1) for name in names}
    meant = [f"{name} looks like {OPTIONS[found[0]]}" for name, found in close.items() if found]
    hint = f" ({'; '.join(meant)})" if meant else ""
    noun = "option" if len(names) == 1 else "options"
    known = ", ".join(shown for shown in _ALL if shown != "path")
    return f"unknown {noun} {', '.join(names)}{hint}; a read of format('magic') knows {known}"


def _choice(*choices: str) -> Callable[[str, str], str]:
    return lambda option, value: written.word_of(option, value, choices)


_ALL: Mapping[str, tuple[str, Callable[[str, str], object]]] = {
    "path": ("path", written.text_of),
    "columns": ("columns", written.columns_of),
    "fileFormat": ("file_format", _choice(*FORMATS)),
    "partitioning": ("partitioning", _choice("hive", "none")),
    "job": ("job", written.name_of),
    "release": ("release", written.name_of),
    "timeZone": ("time_zone", written.name_of),
    "maxPartitionBytes": ("bytes_per_task", written.number_of),
    "onReplace": ("on_replace", _choice("error", "read", "skip")),
    "startFrom": ("start_from", _choice("all", "new")),
    "maxFilesPerTrigger": ("files_per_trigger", written.number_of),
    "storageOptions": ("storage_options", written.mapping_of),
}
_OF_STREAMS = ("onReplace", "startFrom", "maxFilesPerTrigger")
_PARSERS = {shown.lower(): value for shown, value in _ALL.items()}

OPTIONS: Mapping[str, str] = {shown.lower(): shown for shown in _ALL}
"""Every option of a read: its name as Spark hands it over, and as it is documented."""
