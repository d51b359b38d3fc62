"""Records that are declared once: each field with how it is read, and its name in the file.

They are read and written in the order of their fields. Fields of others are kept, and written back behind
ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import partial
from types import NoneType
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar, cast, dataclass_transform

from magicfs.formats.document import shown, with_unknown
from magicfs.formats.fields import Fields, check_format, heading

_T = TypeVar("_T")

Read = Callable[[Fields, str], object]
"""Reads a member of an object by its name."""


def member(
    read: Read | None,
    *,
    default: object = MISSING,
    default_factory: Callable[[], object] | None = None,
    key: str = "",
    rare: bool = False,
    required: bool = False,
    more: Mapping[str, object] | None = None,
) -> Any:
    """A field of a record.

    Args:
        read: Reads it; None if the file does not have it.
        default: What it is where the file has null or nothing. Without a default it is read in any case.
        default_factory: As for ``dataclasses.field``.
        key: Its name in the file; by default its own in camel case, without the unit ``_ms``.
        rare: Whether the file has it only where it differs from the default.
        required: Whether it is read in any case, although it has a default.
        more: Further metadata.
    """
    metadata = {"read": read, "key": key, "rare": rare, "required": required, **(more or {})}
    if default_factory is not None:
        return field(default_factory=default_factory, metadata=metadata)
    return field(default=default, metadata=metadata)


class _Member(NamedTuple):
    """How one field stands in the file."""

    name: str
    key: str
    read: Read
    is_required: bool
    default: object
    rare: bool


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(member, field))
def record(kind: type[_T]) -> type[_T]:
    """Make a class one of frozen values, whose fields are given by name."""
    return _with_members(dataclass(frozen=True, slots=True, kw_only=True)(kind))


@dataclass_transform(frozen_default=True, field_specifiers=(member, field))
def short_record(kind: type[_T]) -> type[_T]:
    """The same, with fields that may be given by their places."""
    return _with_members(dataclass(frozen=True, slots=True)(kind))


def _with_members(kind: type[_T]) -> type[_T]:
    found, made = [], cast("Any", kind)
    for one in fields(made):
        if (read := one.metadata.get("read")) is not None:
            default = one.default if one.default_factory is MISSING else one.default_factory()
            is_required = one.metadata["required"] or default is MISSING
            found.append(_Member(one.name, key_of(one), read, is_required, default, one.metadata["rare"]))
    made.MEMBERS = tuple(found)
    return kind


def key_of(one: Field[Any]) -> str:
    """The name in the file of a field of a record."""
    first, *others = one.name.removesuffix("_ms").split("_")
    given: str = one.metadata["key"]
    return given or first + "".join(map(str.capitalize, others))


@record
class Record:
    """A JSON object of a file. Reading raises FormatError, writing UsageError."""

    FORMAT: ClassVar[str] = ""
    """Of a file: its format, with the version."""
    KNOWN: ClassVar[Collection[str]] = ()
    """What of ``requires`` its readers know."""
    MEMBERS: ClassVar[tuple[_Member, ...]] = ()

    unknown: Mapping[str, object] = field(default_factory=dict)  # fields of others

    @classmethod
    def from_fields(cls, fields: Fields) -> Self:
        """Read the JSON object."""
        cls.check(fields)
        values: dict[str, Any] = {}
        there = fields.members
        for name, key, read, is_required, _, _ in cls.MEMBERS:
            if is_required or there.get(key) is not None:
                values[name] = read(fields, key)
            elif key in there:
                fields.skip(key)
        return cls(**values, unknown=fields.rest())

    @classmethod
    def check(cls, fields: Fields) -> None:
        """Raise FormatError for an object of another format."""
        if cls.FORMAT:
            check_format(fields, cls.FORMAT, cls.KNOWN)

    def to_document(self) -> dict[str, object]:
        """The JSON object."""
        document = heading(self.FORMAT, self.needs()) if self.FORMAT else {}
        for name, key, _, _, default, rare in self.MEMBERS:
            value = getattr(self, name)
            if not (rare and value == default):
                document[key] = value if type(value) in _PLAIN else _plain(value)
        return with_unknown(document, self.unknown) if self.unknown else document

    def needs(self) -> Collection[str]:
        """What readers of the file have to know: ``requires``."""
        return ()


_PLAIN: Final = frozenset({bool, int, str, NoneType})


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [one.to_document() for one in value] if value and isinstance(value[0], Record) else value
    return value.to_document() if hasattr(value, "to_document") else value


def first_twice(names: Iterable[str]) -> tuple[int, int] | None:
    """The places of the first two names that are equal; None if there are none."""
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        if (first := places.setdefault(name, place)) != place:
            return first, place
    return None


_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def read_sha256(fields: Fields, key: str) -> str:
    """Reads a SHA-256 in hexadecimal."""
    found = fields.required_text(key)
    if not _SHA256.fullmatch(found):
        raise fields.error(key, "no SHA-256 in hexadecimal")
    return found


def choice(choices: tuple[str, ...], fields: Fields, key: str) -> str:
    """Reads one of some texts."""
    text = fields.required_text(key)
    if text not in choices:
        raise fields.error(key, f"{shown(text)} is not one of {', '.join(choices)}")
    return text


def child(kind: type[Record]) -> Read:
    """Reads a record that must be there."""
    return lambda fields, key: kind.from_fields(fields.required_child(key))


def each(kind: type[Record]) -> Read:
    """Reads a list of records, which must be there."""
    return lambda fields, key: tuple(map(kind.from_fields, fields.objects(key)))


COUNT: Final[Read] = partial(Fields.required_integer, minimum=0)
FLAG: Final[Read] = partial(Fields.flag, default=False)
JOB: Final[Read] = Fields.required_job_id
TEXT: Final[Read] = Fields.required_text
