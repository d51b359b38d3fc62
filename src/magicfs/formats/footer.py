"""What a file says of itself: rows, schema, and statistics of its columns.

A task takes it from the bytes that it writes. It travels as text in the extra data of its pending upload,
which Hadoop's readers keep, and stands in lists that the manifest names: ``magicfs.footers/1``. Values are
kept as JSON has them; ``Column`` gives them as Python's. What is not known for certain is left out.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar, Final

from magicfs.errors import FormatError
from magicfs.formats.document import UNREADABLE, parse, parse_list, render, shown, with_unknown
from magicfs.formats.fields import LONG_MAX, Fields
from magicfs.formats.limits import FOOTERS_SIZE_LIMIT, FOOTERS_VALUE_LIMIT, within
from magicfs.formats.record import JOB, Record, member, record

TEXT_MAX: Final = 16 * 1024
"""Characters of the text of one footer: statistics of columns beyond it are left out."""
SCHEMA_MAX: Final = 64 * 1024
"""Characters of a schema: of a longer one only the fingerprint is kept."""
_BYTES_OF_CHARACTER: Final = 4
_FINGERPRINT: Final = 16
_IS_FINGERPRINT: Final = re.compile(rf"[0-9a-f]{{{_FINGERPRINT}}}")
_LEVELS_MAX: Final = 1000
_VALUES: Final = frozenset({bool, float, int, str})
_FIRST_DAY: Final = date(1970, 1, 1)
_EPOCH: Final = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Field:
    """A column that holds values: of a nested one a leaf.

    Attributes:
        path: Its name, and before it those of the groups that it lies in.
        type: Such as ``int64``, ``string``, ``decimal(10,2)`` or ``timestamp[us,UTC]``.
        optional: How many of these may be null: definition levels.
        repeated: How many of these are lists: repetition levels.
    """

    path: tuple[str, ...]
    type: str
    optional: int = 0
    repeated: int = 0

    @property
    def name(self) -> str:
        """The path with dots, as pyarrow shows it."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a file, in their order.

    Attributes:
        fields: The columns; empty if there are too many to be kept.
        fingerprint: The same for files of the same columns, whoever wrote them.
    """

    fields: tuple[Field, ...]
    fingerprint: str

    @classmethod
    def of(cls, fields: Sequence[Field]) -> Schema:
        """The schema of some columns."""
        text = _schema_text(fields)
        fingerprint = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_FINGERPRINT]
        return cls(tuple(fields) if len(text) <= SCHEMA_MAX else (), fingerprint)

    def to_text(self) -> str:
        """The columns, as a pending upload carries them."""
        return _schema_text(self.fields)

    @classmethod
    def from_text(cls, path: str, text: str) -> Schema:
        """Undo ``to_text``. Raises one of ``UNREADABLE`` for any other text."""
        raw = text.encode("utf-8", "surrogatepass")
        found = parse_list(path, raw, size_limit=_BYTES_OF_CHARACTER * SCHEMA_MAX)
        return cls.of(list(map(_field, found)))

    def find(self, name: str) -> int | None:
        """The place of the column of a dotted name; None if there is none, or several."""
        places = [place for place, one in enumerate(self.fields) if one.name == name]
        return places[0] if len(places) == 1 else None


@dataclass(frozen=True, slots=True)
class Values:
    """Statistics of one column of one file, as they are persisted."""

    nulls: int | None = None
    min: Any = None  # as JSON has it; with ``max`` or not at all
    max: Any = None
    exact: bool = True  # whether both are values of the file; else they may lie outside of them

    @property
    def is_known(self) -> bool:
        return self.nulls is not None or self.min is not None

    def to_list(self) -> list[Any] | None:
        """The shortest list that says it; None if nothing is known."""
        if self.min is None:
            return None if self.nulls is None else [self.nulls]
        found = [self.nulls, self.min, self.max]
        return found if self.exact else [*found, False]


@dataclass(frozen=True, slots=True)
class Column:
    """Statistics of one column of one file.

    Attributes:
        field: The column.
        nulls: How many nulls it has; None if that is not known.
        min: No value is less. ``int``, ``float``, ``bool``, ``str``, ``bytes``, ``Decimal``, ``date``,
            ``datetime`` or ``time``; times of nanoseconds are an ``int``, a UUID is a ``str``. None if it is
            not known, or all values are null.
        max: No value is greater.
        exact: Whether ``min`` and ``max`` are values of the file, and not only bounds.
    """

    field: Field
    nulls: int | None
    min: Any
    max: Any
    exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What one file says of itself.

    Attributes:
        rows: How many rows it has.
        format: ``parquet``, ``csv`` or ``json lines``.
        schema: Its columns; None where the format tells none.
        values: Statistics of the columns, in the order of the schema; shorter if not all are kept.
        metadata: The writer's own metadata, as far as it is short.
    """

    rows: int
    format: str
    schema: Schema | None = None
    values: tuple[Values | None, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, object] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, Column]:
        """Statistics of the columns by dotted name, of those that have any, and a name of their own."""
        if self.schema is None:
            return {}
        count = Counter(one.name for one in self.schema.fields)
        return {
            one.name: _column(one, found)
            for one, found in zip(self.schema.fields, self.values, strict=False)
            if found is not None and count[one.name] == 1
        }

    def column(self, name: str) -> Column | None:
        """Statistics of one column; None if there are none, or no such column."""
        place = self.schema.find(name) if self.schema is not None else None
        if self.schema is None or place is None or place >= len(self.values):
            return None
        found = self.values[place]
        return None if found is None else _column(self.schema.fields[place], found)

    def to_document(self) -> dict[str, object]:
        """The JSON object, which names the schema by its fingerprint."""
        document: dict[str, object] = {"rows": self.rows, "format": self.format}
        if self.schema is not None:
            document["schema"] = self.schema.fingerprint
        if any(self.values):
            document["columns"] = [one and one.to_list() for one in self.values]
        if self.metadata:
            document["metadata"] = self.metadata
        return with_unknown(document, self.unknown)

    def to_text(self) -> str:
        """As a pending upload carries it: statistics of the last columns are left out if they are many."""
        document = self.to_document()
        text = render(document).decode()
        columns = document.pop("columns", [])
        assert isinstance(columns, list)
        while len(text) > TEXT_MAX and columns:
            columns = columns[: len(columns) // 2]
            text = render({**document, "columns": columns} if columns else document).decode()
        return text

    @classmethod
    def from_text(cls, path: str, text: str, schemas: Mapping[str, Schema]) -> Footer:
        """Undo ``to_text``; ``schemas`` by fingerprint. Raises FormatError for any other text."""
        fields = Fields(
            path,
            parse(path, text.encode("utf-8", "surrogatepass"), size_limit=_BYTES_OF_CHARACTER * TEXT_MAX),
        )
        return cls.from_fields(fields, schemas)

    @classmethod
    def from_fields(cls, fields: Fields, schemas: Mapping[str, Schema]) -> Footer:
        """Read the JSON object."""
        schema = fields.nullable_text("schema")
        if schema is not None and not _IS_FINGERPRINT.fullmatch(schema):
            raise fields.error("schema", f"{shown(schema)} is not a schema fingerprint")
        columns = fields.elements("columns") if fields.has("columns") else ()
        values = tuple(_values(fields, place, one) for place, one in enumerate(columns))
        return cls(
            rows=fields.required_integer("rows", minimum=0),
            format=fields.required_text("format"),
            schema=None if schema is None else schemas.get(schema, Schema((), schema)),
            values=values if any(values) else (),
            metadata=fields.text_map("metadata"),
            unknown=fields.rest(),
        )


def _schemas(fields: Fields) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for one in fields.objects("schemas"):
        name = one.required_text("fingerprint")
        try:
            found[name] = Schema(tuple(map(_field, one.elements("fields"))), name)
        except UNREADABLE as error:
            raise one.unreadable("fields", error) from None
    return found


def _files(fields: Fields, key: str) -> dict[str, Footer]:
    schemas = _schemas(fields)
    files: dict[str, Footer] = {}
    for one in fields.objects(key):
        name = one.required_text("key")
        if name in files:
            raise one.error("key", "the same as that of another file")
        files[name] = Footer.from_fields(one, schemas)
    return files


@record
class FileFooters(Record):
    """A part of the footers of a published job."""

    FORMAT: ClassVar = "magicfs.footers/1"

    job_id: str = member(JOB)
    files: Mapping[str, Footer] = member(_files)
    """By key, relative to the destination."""

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = FOOTERS_SIZE_LIMIT) -> FileFooters:
        document = parse(path, raw, size_limit=size_limit, value_limit=FOOTERS_VALUE_LIMIT)
        return cls.from_fields(Fields(path, document))

    def to_bytes(self) -> bytes:
        schemas = {one.schema.fingerprint: one.schema for one in self.files.values() if one.schema}
        document: dict[str, object] = {
            "format": self.FORMAT,
            "jobId": self.job_id,
            "schemas": [
                {"fingerprint": name, "fields": [_field_list(field) for field in one.fields]}
                for name, one in schemas.items()
            ],
            "files": [{"key": key, **one.to_document()} for key, one in self.files.items()],
        }
        raw = render(with_unknown(document, self.unknown))
        what = f"the list of {len(self.files):,} footers of job {self.job_id}"
        advice = "publish without footers"
        return within(raw, FOOTERS_SIZE_LIMIT, what, advice, value_limit=FOOTERS_VALUE_LIMIT)


def _schema_text(fields: Sequence[Field]) -> str:
    return json.dumps([_field_list(one) for one in fields], ensure_ascii=False, separators=(",", ":"))


def _field_list(one: Field) -> list[Any]:
    name: Any = one.path[0] if len(one.path) == 1 else list(one.path)
    return [name, one.type, one.optional, one.repeated]


def _field(found: Any) -> Field:
    path, kind, optional, repeated = found
    names = (path,) if isinstance(path, str) else tuple(path)
    is_field = (
        names
        and all(isinstance(one, str) for one in (*names, kind))
        and type(optional) is type(repeated) is int
        and 0 <= repeated <= optional <= _LEVELS_MAX
    )
    if not is_field:
        raise ValueError("a column has a name or a path, a type, and two levels")
    return Field(names, kind, optional, repeated)


def _values(fields: Fields, place: int, found: Any) -> Values | None:
    if found is None:
        return None
    is_list = isinstance(found, list) and len(found) in {1, 3, 4}
    if not is_list or not (found[0] is None or (type(found[0]) is int and 0 <= found[0] <= LONG_MAX)):
        raise fields.error(f"columns[{place}]", "no statistics: nulls, min, max and whether they are exact")
    if len(found) == 1:
        return None if found[0] is None else Values(found[0])
    has_bounds = all(type(one) in _VALUES for one in found[1:3])
    if not has_bounds or not all(type(one) is bool for one in found[3:]):
        raise fields.error(f"columns[{place}]", "min and max are values, or both left out")
    return Values(*found)


def _column(one: Field, found: Values) -> Column:
    try:
        least, greatest = _python(one.type, found.min), _python(one.type, found.max)
    except (ArithmeticError, OverflowError, TypeError, ValueError):  # beyond what Python's types hold
        least = greatest = None
    if least is None or greatest is None:
        least = greatest = None
    return Column(one, found.nulls, least, greatest, found.exact and least is not None)


def _python(kind: str, value: Any) -> Any:
    if value is None:
        return None
    name = kind.partition("[")[0].partition("(")[0]
    match name:
        case "float" | "double" | "float16":
            return float(value)
        case "binary" | "fixed" | "bson":
            return base64.b64decode(value, validate=True)
        case "decimal":
            return Decimal(value)
        case "date":
            return _FIRST_DAY + timedelta(days=value)
        case "timestamp" | "time":
            return _time(kind, value)
        case _:
            return value


@lru_cache(maxsize=64)
def _unit_of(kind: str) -> tuple[str, bool]:
    unit, _, zone = kind.partition("[")[2].rstrip("]").partition(",")
    return unit, bool(zone)


def _time(kind: str, value: int) -> Any:
    unit, is_utc = _unit_of(kind)
    if unit == "ns":
        return value
    span = timedelta(milliseconds=value) if unit == "ms" else timedelta(microseconds=value)
    if kind.startswith("timestamp"):
        return (_EPOCH.replace(tzinfo=UTC) if is_utc else _EPOCH) + span
    if not timedelta() <= span < timedelta(days=1):
        raise ValueError("no time of a day")
    return (_EPOCH + span).time() if not is_utc else (_EPOCH + span).time().replace(tzinfo=UTC)


FOOTER: Final = "magicfs.footer"
"""The name in a pending upload's extra data."""
SCHEMA: Final = "magicfs.schema"
"""The name of its schema there, which only the first file of a task has of those that share it."""


def carried_by(footer: Footer | None) -> dict[str, str]:
    """What the extra data of a pending upload says of a footer."""
    if footer is None:
        return {}
    found = {FOOTER: footer.to_text()}
    if footer.schema is not None and footer.schema.fields:
        found[SCHEMA] = footer.schema.to_text()
    return found


def once_each(extras: Iterable[Mapping[str, str]]) -> Iterator[Mapping[str, str]]:
    """The extra data of files, of which only the first one bears a schema that several have."""
    seen: set[str] = set()
    for extra in extras:
        schema = extra.get(SCHEMA)
        if schema is not None and schema in seen:
            yield {name: value for name, value in extra.items() if name != SCHEMA}
            continue
        if schema is not None:
            seen.add(schema)
        yield extra


def footers_in(extras: Iterable[Mapping[str, str]]) -> Iterator[Footer | None]:
    """The footers in the extra data of files; None of those that have none, or none that can be read."""
    schemas: dict[str, Schema] = {}
    for extra in extras:
        text = extra.get(FOOTER)
        if text is None:
            yield None
            continue
        try:
            if (columns := extra.get(SCHEMA)) is not None:
                one = Schema.from_text(SCHEMA, columns)
                schemas.setdefault(one.fingerprint, one)
            found = Footer.from_text(FOOTER, text, schemas)
        except UNREADABLE:
            found = None
        yield found


def check_carried(path: str, extra: Mapping[str, str]) -> bool:
    """Whether the extra data of a file says something of itself. Raises FormatError if that is too long."""
    text = extra.get(FOOTER)
    if text is None:
        return False
    for name, said, most in ((FOOTER, text, TEXT_MAX), (SCHEMA, extra.get(SCHEMA, ""), SCHEMA_MAX)):
        if len(said) > most:
            raise FormatError(path, name, f"{len(said)} characters, and the limit is {most}")
    return True
