"""The options of ``df.write.format("magic")``, parsed and checked before any task runs.

Spark hands options over as text, with their names in lower case. Messages show the names as they are
documented.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from magicfs.errors import UsageError
from magicfs.protocol.conflict import CONFLICTS, Conflict

__all__ = ["CODECS", "OPTIONS", "WriteOptions", "parse"]

Codec = Literal["snappy", "zstd", "gzip", "lz4", "none"]
CODECS: Mapping[str, tuple[Codec, str]] = {
    "snappy": ("snappy", ".snappy"),
    "zstd": ("zstd", ".zstd"),
    "gzip": ("gzip", ".gz"),
    "lz4_raw": ("lz4", ".lz4raw"),
    "none": ("none", ""),
    "uncompressed": ("none", ""),
}
"""Spark's name of each codec, with pyarrow's name and what Spark puts into file names."""

_T = TypeVar("_T")
_Tracking = Literal["store", "memory"]


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """What a write was asked to do. Pickles with the credentials in it, as Spark's own options do.

    Attributes:
        path: URL of the destination.
        partition_cols: The partition columns, outermost first.
        conflict: What to do about data that is there already.
        run_id: Name of the run, by which a second one finds the first.
        allow_empty: Whether a frame without rows may replace what is there.
        tracking: Where finished uploads are remembered until their task commits.
        unique_names: Whether final names carry task and job.
        part_size: Bytes of the first parts of every upload; None for the default.
        concurrency: Most requests at once, in tasks and in the job commit.
        file_format: The format of the files.
        compression: Spark's name of the codec.
        max_open_files: Most files that a task has open.
        storage_options: Options of the wrapped filesystem.
    """

    path: str
    partition_cols: tuple[str, ...] = ()
    conflict: Conflict = "append"
    run_id: str | None = None
    allow_empty: bool = False
    tracking: _Tracking = "memory"
    unique_names: bool = True
    part_size: int | None = None
    concurrency: int = 32
    file_format: str = "parquet"
    compression: str = "snappy"
    max_open_files: int = 64
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def codec(self) -> Codec:
        """What pyarrow calls the codec."""
        return CODECS[self.compression][0]

    @property
    def extension(self) -> str:
        """How file names end, such as ``.snappy.parquet``."""
        return f"{CODECS[self.compression][1]}.{self.file_format}"


def parse(given: Mapping[str, str], columns: Sequence[str], *, overwrite: bool = False) -> WriteOptions:
    """Parse and check the options of one write.

    Args:
        given: The options; the case of their names does not matter.
        columns: The columns of the frame.
        overwrite: Whether the mode is ``overwrite``, not ``append``: Spark lets no other mode through.

    Raises:
        UsageError: An option is unknown, missing or cannot be right, or contradicts the mode.
    """
    lowered = {name.lower(): value for name, value in given.items()}
    if unknown := sorted(set(lowered) - set(_PARSERS)):
        raise UsageError(_unknown(unknown))
    path = lowered.get("path", "").strip()
    if not path:
        raise UsageError("the destination is missing; name it in .save('s3://bucket/dataset')")
    parsed: dict[str, Any] = {
        attribute: parser(OPTIONS[name], lowered[name])
        for name, (attribute, parser) in _PARSERS.items()
        if name in lowered
    }
    parsed["conflict"] = _chosen_conflict(
        parsed.get("conflict"), overwrite=overwrite, partitioned="partition_cols" in parsed
    )
    options = WriteOptions(**parsed | {"path": path})
    _check_columns(options.partition_cols, columns)
    if not options.unique_names and options.tracking == "memory":
        raise UsageError(
            "uniqueNames='false' needs tracking='store', because uploads of lost tasks could be told neither "
            "by name nor by record; set both, or neither"
        )
    return options


def _unknown(names: Sequence[str]) -> str:
    known = [shown for name, shown in OPTIONS.items() if name != "path"]
    close = {name: difflib.get_close_matches(name, OPTIONS, n=1) for name in names}
    meant = [f"{name} looks like {OPTIONS[found[0]]}" for name, found in close.items() if found]
    hint = f" ({'; '.join(meant)})" if meant else ""
    noun = "option" if len(names) == 1 else "options"
    return f"unknown {noun} {', '.join(names)}{hint}; format('magic') knows {', '.join(known)}"


def _chosen_conflict(asked: Conflict | None, *, overwrite: bool, partitioned: bool) -> Conflict:
    """What mode and option say together; a job deletes nothing that only one of them speaks of."""
    if not overwrite:
        if asked in {None, "append", "fail"}:
            return asked or "append"
        raise UsageError(
            f"conflict={asked!r} deletes data and mode('append') says to keep it; use mode('overwrite')"
        )
    if asked in {"append", "fail"}:
        raise UsageError(
            f"conflict={asked!r} keeps data and mode('overwrite') says to delete it; use mode('append')"
        )
    if asked is None and partitioned:
        # Spark keeps spark.sql.sources.partitionOverwriteMode from data sources like this one.
        raise UsageError(
            "mode('overwrite') with partitionCols has two meanings: say conflict='replace' to replace the "
            "whole dataset, or conflict='replace_partitions' to replace the partitions that are written"
        )
    return asked or "replace"


def _check_columns(chosen: Sequence[str], columns: Sequence[str]) -> None:
    for name in chosen:
        if name in columns:
            continue
        close = [one for one in columns if one.lower() == name.lower()]
        hint = f" (but {close[0]!r} is)" if close else ""
        raise UsageError(
            f"partitionCols names {name!r}, which is no column of the frame{hint}; "
            f"the columns are {', '.join(columns)}"
        )
    if len(set(chosen)) < len(chosen):
        raise UsageError(f"partitionCols names a column twice: {', '.join(chosen)}; name each once")
    if chosen and len(set(chosen)) == len(set(columns)):
        raise UsageError(
            "partitionCols names every column, so that the files would be empty; leave one column out"
        )


# -- one parser for each kind of value; each gets the option's name for its message ----------------------


def _text(_option: str, value: str) -> str:
    return value


def _name(option: str, value: str) -> str:
    if not value.strip():
        raise UsageError(f"{option} is empty; name the run, or leave it out")
    return value


def _word(option: str, value: str, choices: Sequence[str]) -> str:
    word = value.strip().lower()
    if word not in choices:
        raise UsageError(f"{option}={value!r} is unknown; choose one of {', '.join(choices)}")
    return word


def _columns(option: str, value: str) -> tuple[str, ...]:
    names: list[Any] = [name.strip() for name in value.split(",")]
    if value.lstrip().startswith("["):
        names = _json(option, value, list)
    if not all(isinstance(name, str) and name for name in names):
        raise UsageError(
            f"{option}={value!r} holds an empty name; write the columns as 'year,month', "
            """or as JSON, '["a,b", "c"]'"""
        )
    return tuple(names)


def _conflict(option: str, value: str) -> str:
    return _word(option, value, CONFLICTS)


def _tracking(option: str, value: str) -> str:
    return _word(option, value, ("memory", "store"))


def _format(option: str, value: str) -> str:
    if value.strip().lower() != "parquet":
        raise UsageError(f"{option}={value!r} is not available in this version; use 'parquet'")
    return "parquet"


def _compression(option: str, value: str) -> str:
    return _word(option, value, tuple(CODECS))


def _flag(option: str, value: str) -> bool:
    return _word(option, value, ("true", "false")) == "true"


def _number(option: str, value: str) -> int:
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise UsageError(f"{option}={value!r} is no positive whole number; write it in digits")
    return number


def _mapping(option: str, value: str) -> dict[str, Any]:
    return _json(option, value, dict)


def _json(option: str, value: str, kind: type[_T]) -> _T:
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = None
    if not isinstance(parsed, kind):
        # The value may hold a secret: it is not shown.
        shape = 'an object, such as \'{"endpoint_url": "…"}\'' if kind is dict else "a list of texts"
        raise UsageError(f"{option} is not valid JSON for {shape}; use json.dumps to write it")
    return parsed


_ALL: Mapping[str, tuple[str, Callable[[str, str], object]]] = {
    "path": ("path", _text),
    "partitionCols": ("partition_cols", _columns),
    "conflict": ("conflict", _conflict),
    "tracking": ("tracking", _tracking),
    "uniqueNames": ("unique_names", _flag),
    "runId": ("run_id", _name),
    "allowEmpty": ("allow_empty", _flag),
    "partSize": ("part_size", _number),
    "concurrency": ("concurrency", _number),
    "fileFormat": ("file_format", _format),
    "compression": ("compression", _compression),
    "maxOpenFiles": ("max_open_files", _number),
    "storageOptions": ("storage_options", _mapping),
}
_PARSERS = {shown.lower(): value for shown, value in _ALL.items()}

OPTIONS: Mapping[str, str] = {shown.lower(): shown for shown in _ALL}
"""Every option: its name as Spark hands it over, and as it is documented."""
