"""The options of ``df.write.format("magic")``, parsed and checked before any task runs.

Spark hands options over as text, with their names in lower case. Messages show the names as they are
documented.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

from magicfs.errors import UsageError
from magicfs.protocol.modes import WRITE_MODES, WriteMode
from magicfs.tables.formats import FORMATS

LateWriters: TypeAlias = Literal["wait", "background", "leave"]
_Tracking = Literal["store", "memory"]
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """What a write was asked to do. Pickles with the credentials in it, as Spark's own options do."""

    path: str
    partition_cols: tuple[str, ...] = ()
    mode: WriteMode = "append"  # what to do about data that is there already
    run_id: str | None = None  # name of the run, by which a second one finds the first
    allow_empty: bool = False  # whether a frame without rows may replace what is there
    check_schema: bool = True  # whether rows must fit those that stay
    also_overwrite: tuple[str, ...] = ()  # URLs of other datasets whose files may be deleted
    keep: str | None = None  # for how long replaced files stay; None if they are deleted
    keep_in_place: bool = False  # whether they stay where they are in a bucket with versions, too
    tracking: _Tracking = "memory"  # where finished uploads are remembered until their task commits
    unique_names: bool = True  # whether final names carry task and job
    part_size: int | None = None  # bytes of the first parts of every upload; None for the default
    concurrency: int = 32  # most requests at once, in tasks and in the job commit
    file_format: str = "parquet"
    compression: str | None = None  # Spark's name of the codec; None for the format's default
    row_group_size: int | None = None  # most rows of a row group; None for pyarrow's default
    max_records_per_file: int | None = None  # most rows of a file; None for no limit
    max_open_files: int = 64  # most files that a task has open
    input_sorted: bool = False
    """Whether rows come sorted by the partition columns, as no text can say."""
    committer: str = "magic"
    committer_options: Mapping[str, Any] = field(default_factory=dict)
    late_writers: LateWriters = "background"
    """What is done about tasks that go on after their job has ended."""
    sink_id: str | None = None
    checkpoint: str | None = None
    """Where Spark keeps the state of a stream, if it was said as an option."""
    query_name: str | None = None  # the name of a stream's query
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def codec(self) -> str:
        """What pyarrow calls the codec."""
        kind = FORMATS[self.file_format]
        return kind.codecs[self.compression or kind.default][0]

    @property
    def extension(self) -> str:
        """How file names end, such as ``.zstd.parquet``."""
        return FORMATS[self.file_format].extension(self.compression)


def parse(
    given: Mapping[str, str], columns: Sequence[str], *, overwrite: bool = False, streaming: bool = False
) -> WriteOptions:
    """Parse and check the options of one write, all of them text. Raises UsageError.

    ``given``: the options; the case of their names does not matter. ``overwrite``: whether the mode is
    ``overwrite``, not ``append``: Spark lets no other mode through. ``streaming``: whether a stream is
    written, which has options of its own.
    """
    lowered = {name.lower(): value for name, value in given.items()}
    if unknown := sorted(set(lowered) - set(_PARSERS)):
        raise UsageError(_unknown(unknown))
    attributes = {_PARSERS[name][0]: value for name, value in lowered.items()}
    if "partition_cols" in attributes:
        listed = columns_of(OPTIONS["partitioncols"], attributes["partition_cols"])
        return build(
            columns, overwrite=overwrite, streaming=streaming, **attributes | {"partition_cols": listed}
        )
    return build(columns, overwrite=overwrite, streaming=streaming, **attributes)


def build(
    columns: Sequence[str], *, overwrite: bool = False, streaming: bool = False, **attributes: Any
) -> WriteOptions:
    """Check the options of one write, named as ``WriteOptions`` names them. Raises UsageError.

    ``overwrite``: whether what is there may be deleted. ``attributes``: values, or their text; None stands
    for the default. ``partition_cols`` may be one name.
    """
    parsed = {
        attribute: _value(attribute, value) for attribute, value in attributes.items() if value is not None
    }
    path = parsed.get("path", "").strip()
    if not path:
        raise UsageError(
            "the destination is missing; name it in .save('s3://bucket/dataset'), or in SQL in "
            "INSERT INTO … WITH (path 's3://bucket/dataset')"
        )
    parsed["mode"] = _chosen_mode(
        parsed.get("mode"), overwrite=overwrite, partitioned=bool(parsed.get("partition_cols"))
    )
    options = WriteOptions(**parsed | {"path": path})
    _check_columns(options.partition_cols, columns)
    _check_stream(options, streaming=streaming)
    _check_format(options)
    if not options.unique_names and options.tracking == "memory":
        raise UsageError(
            "uniqueNames='false' needs tracking='store', because uploads of lost tasks could not be found "
            "by name or by record; set both, or neither"
        )
    return options


def _value(attribute: str, value: Any) -> Any:
    if attribute not in _SHOWN:
        return value
    shown, parser = _SHOWN[attribute]
    if attribute == "partition_cols":
        return (value,) if isinstance(value, str) else tuple(value)
    if isinstance(value, str) or parser is number_of:
        return parser(shown, value)
    return value


def _check_stream(options: WriteOptions, *, streaming: bool) -> None:
    if streaming:
        if options.run_id is not None:
            raise UsageError(
                "runId is for batch writes, and every batch of a stream is a run of its own; leave it out, "
                "or use sinkId"
            )
        return
    for shown in _OF_STREAMS:
        if getattr(options, _ALL[shown][0]) is not None:
            raise UsageError(
                f"{shown} is an option of streams; leave it out, or name a batch write with runId"
            )


def _check_format(options: WriteOptions) -> None:
    kind = FORMATS[options.file_format]
    if options.compression is not None and options.compression not in kind.codecs:
        raise UsageError(
            f"compression={options.compression!r} is not a codec of {kind.name}; "
            f"choose one of {', '.join(kind.codecs)}"
        )
    if options.row_group_size is not None and not kind.row_groups:
        able = [name for name, one in FORMATS.items() if one.row_groups]
        raise UsageError(
            f"rowGroupSize does not apply to {kind.name}; leave it out, or choose {' or '.join(able)}"
        )


def _unknown(names: Sequence[str]) -> str:
    known = [shown for shown in _ALL if shown != "path" and shown not in _OF_STREAMS]
    close = {name: difflib.get_close_matches(name, OPTIONS, n=1) for name in names}
    meant = [f"{name} looks like {OPTIONS[found[0]]}" for name, found in close.items() if found]
    hint = f" ({'; '.join(meant)})" if meant else ""
    noun = "option" if len(names) == 1 else "options"
    return f"unknown {noun} {', '.join(names)}{hint}; format('magic') supports {', '.join(known)}"


def _chosen_mode(asked: WriteMode | None, *, overwrite: bool, partitioned: bool) -> WriteMode:
    """What mode and option say together; a job deletes nothing that only one of them speaks of."""
    if not overwrite:
        if asked in {None, "append", "error"}:
            return asked or "append"
        raise UsageError(
            f"option mode={asked!r} deletes data and mode('append') keeps it; use mode('overwrite')"
        )
    if asked in {"append", "error"}:
        raise UsageError(
            f"option mode={asked!r} keeps data and mode('overwrite') deletes it; use mode('append')"
        )
    if asked is None and partitioned:
        # Spark keeps spark.sql.sources.partitionOverwriteMode from data sources like this one.
        raise UsageError(
            "mode('overwrite') with partitionCols is ambiguous: write option('mode', 'overwrite') to "
            "replace the whole dataset, or option('mode', 'overwrite_partitions') to replace only the "
            "partitions that you write"
        )
    return asked or "overwrite"


def _check_columns(chosen: Sequence[str], columns: Sequence[str]) -> None:
    for name in chosen:
        if name in columns:
            continue
        close = [one for one in columns if one.lower() == name.lower()]
        hint = f" (but {close[0]!r} is)" if close else ""
        raise UsageError(
            f"partitionCols names {name!r}, which is not a column of the frame{hint}; "
            f"the columns are {', '.join(columns)}"
        )
    if len(set(chosen)) < len(chosen):
        raise UsageError(f"partitionCols names a column twice: {', '.join(chosen)}; name each once")
    if chosen and len(set(chosen)) == len(set(columns)):
        raise UsageError("partitionCols names every column, so the files would be empty; leave one out")


# One parser for each kind of value; each gets the documented name of the option, for its message.


def text_of(_option: str, value: str) -> str:
    """Any text."""
    return value


def name_of(option: str, value: str) -> str:
    """Text that is not empty."""
    if not value.strip():
        raise UsageError(f"{option} is empty; give it a name, or leave it out")
    return value


def word_of(option: str, value: str, choices: Sequence[str]) -> str:
    """One of some words, in whatever case."""
    found = value.strip().lower()
    if found not in choices:
        raise UsageError(f"{option}={value!r} is unknown; choose one of {', '.join(choices)}")
    return found


def columns_of(option: str, value: str) -> tuple[str, ...]:
    """Names of columns, separated by commas, or as a JSON list."""
    names: list[Any] = [one.strip() for one in value.split(",")]
    if value.lstrip().startswith("["):
        names = _json_of(option, value, list)
    if not _are_texts(names):
        raise UsageError(
            f"{option}={value!r} holds an empty name; write the columns as 'year,month', "
            """or as JSON, '["a,b", "c"]'"""
        )
    return tuple(names)


def _urls_of(option: str, value: str) -> tuple[str, ...]:
    """URLs as a JSON list, or one URL."""
    urls = _json_of(option, value, list) if value.lstrip().startswith("[") else [value.strip()]
    if not _are_texts(urls):
        raise UsageError(f"{option}={value!r} holds an empty URL; write a JSON list, '[\"s3://bucket/a/b\"]'")
    return tuple(urls)


def _are_texts(values: Sequence[object]) -> bool:
    return all(isinstance(one, str) and one for one in values)


def _mode_of(option: str, value: str) -> str:
    """A mode."""
    return word_of(option, value, WRITE_MODES)


def _tracking_of(option: str, value: str) -> str:
    """Where uploads are remembered."""
    return word_of(option, value, ("memory", "store"))


def _late_writers_of(option: str, value: str) -> str:
    """What is done about late writers."""
    return word_of(option, value, get_args(LateWriters))


def _file_format_of(option: str, value: str) -> str:
    """A format of files."""
    return word_of(option, value, tuple(FORMATS))


def _flag_of(option: str, value: str) -> bool:
    """A truth value."""
    return word_of(option, value, ("true", "false")) == "true"


def number_of(option: str, value: str | int) -> int:
    """A positive whole number."""
    try:
        found = int(value) if isinstance(value, str) or type(value) is int else 0
    except ValueError:
        found = 0
    if found < 1:
        raise UsageError(f"{option}={value!r} is not a positive whole number; write it in digits")
    return found


def mapping_of(option: str, value: str) -> dict[str, Any]:
    """A JSON object."""
    return _json_of(option, value, dict)


def _json_of(option: str, value: str, kind: type[_T]) -> _T:
    try:
        parsed = json.loads(value)
    except ValueError:
        parsed = None
    if not isinstance(parsed, kind):
        # The value may hold a secret: it is not shown.
        shape = 'an object, such as \'{"endpoint_url": "…"}\'' if kind is dict else "a list of texts"
        raise UsageError(f"{option} is not valid JSON for {shape}; use json.dumps to write it")
    return parsed


OF_JOB: Final = ("allow_empty", "also_overwrite", "keep_in_place", "part_size", "tracking", "unique_names")
"""What ``WriteOptions`` holds of ``Job(options={…})`` under its own name."""

_ALL: Mapping[str, tuple[str, Callable[[str, Any], object]]] = {
    "path": ("path", text_of),
    "partitionCols": ("partition_cols", columns_of),
    "mode": ("mode", _mode_of),
    "runId": ("run_id", name_of),
    "allowEmpty": ("allow_empty", _flag_of),
    "checkSchema": ("check_schema", _flag_of),
    "alsoOverwrite": ("also_overwrite", _urls_of),
    "keep": ("keep", name_of),
    "keepInPlace": ("keep_in_place", _flag_of),
    "fileFormat": ("file_format", _file_format_of),
    "compression": ("compression", lambda _, value: value.strip().lower()),
    "rowGroupSize": ("row_group_size", number_of),
    "maxRecordsPerFile": ("max_records_per_file", number_of),
    "maxOpenFiles": ("max_open_files", number_of),
    "partSize": ("part_size", number_of),
    "concurrency": ("concurrency", number_of),
    "committer": ("committer", name_of),
    "committerOptions": ("committer_options", mapping_of),
    "tracking": ("tracking", _tracking_of),
    "uniqueNames": ("unique_names", _flag_of),
    "lateWriters": ("late_writers", _late_writers_of),
    "storageOptions": ("storage_options", mapping_of),
    "sinkId": ("sink_id", name_of),
    "checkpointLocation": ("checkpoint", name_of),
    "queryName": ("query_name", text_of),
}
_OF_STREAMS = ("sinkId", "checkpointLocation", "queryName")
_PARSERS = {shown.lower(): value for shown, value in _ALL.items()}
_SHOWN = {attribute: (shown, parser) for shown, (attribute, parser) in _ALL.items()}

OPTIONS: Mapping[str, str] = {shown.lower(): shown for shown in _ALL}
"""Every option: its name as Spark hands it over, and as it is documented."""
