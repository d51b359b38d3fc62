"""Typed access to the fields of a document: the right type, or an error that names the field."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar

from magicfs.errors import FormatError, UsageError
from magicfs.formats.document import kind_of, member, shown, too_large, unreadable
from magicfs.protocol import ids
from magicfs.protocol.ids import JobId

_T = TypeVar("_T")

LONG_MIN = -(2**63)
LONG_MAX = 2**63 - 1
"""The range of Java's ``long``, which every integer of these files has to fit."""


class Fields:
    """One JSON object of a persisted file, read field by field.

    Each getter raises ``FormatError`` with the dotted and indexed name of the field when the value has
    another type: a boolean is no integer, a number is no text. In a field that is not required null means
    absent, as in Jackson. ``rest`` returns whatever no getter asked for.
    """

    __slots__ = ("_members", "_prefix", "_taken", "path")

    def __init__(self, path: str, members: dict[str, Any], prefix: str = "") -> None:
        self.path: str = path
        self._members = members
        self._prefix = prefix
        self._taken: set[str] = set()

    def error(self, field: str, problem: str) -> FormatError:
        """The error to raise about a field of this object."""
        return FormatError(self.path, self._name(field), problem)

    def unreadable(self, field: str, error: BaseException) -> FormatError:
        """The error to raise where reading a field of this object has raised one of ``UNREADABLE``."""
        return unreadable(self.path, self._name(field), error)

    def version(self, expected: int) -> None:
        """Check ``version``: absent is accepted, as Hadoop's readers do. Any other is refused."""
        self._taken.add("version")
        found = self._members.get("version", expected)
        if type(found) is not int:
            raise self._mistyped("version", "an integer", found)
        if found != expected:
            raise self.error("version", f"Wrong version: {found}, where {expected} is understood")

    def has(self, field: str) -> bool:
        """Whether the field is there and not null."""
        return self._take(field) is not None

    def required_text(self, field: str) -> str:
        """Text that must be there and must not be empty."""
        value = self._required(field)
        if type(value) is not str:
            raise self._mistyped(field, "text", value)
        if not value:
            raise self.error(field, "empty")
        return value

    def bucket(self, field: str = "bucket") -> str:
        """The bucket, which must be there; empty for files of a machine, which have none."""
        return self.required_text(field) if self._required(field) != "" else ""

    def nullable_text(self, field: str) -> str | None:
        """Text, or None where the file has null or nothing."""
        value = self._take(field)
        if value is not None and type(value) is not str:
            raise self._mistyped(field, "text", value)
        return value

    def text(self, field: str) -> str:
        """Text, empty when absent."""
        return self.nullable_text(field) or ""

    def required_job_id(self, field: str = "jobId") -> JobId:
        return self.job_id_at(field, self.required_text(field))

    def nullable_job_id(self, field: str) -> JobId | None:
        """A job id, or None where the file has null or nothing."""
        value = self.nullable_text(field)
        return None if value is None else self.job_id_at(field, value)

    def job_id_at(self, field: str, value: str) -> JobId:
        """The job id ``value``, found in this object at ``field``."""
        try:
            return ids.job_id(value)
        except UsageError:
            raise self.error(field, f"{shown(value)} is not a job id") from None

    def required_integer(self, field: str, *, minimum: int = LONG_MIN) -> int:
        """A 64-bit integer that must be there."""
        return self._integer(field, self._required(field), minimum)

    def integer(self, field: str, *, minimum: int = LONG_MIN) -> int:
        """A 64-bit integer, zero when absent."""
        value = self._take(field)
        return 0 if value is None else self._integer(field, value, minimum)

    def flag(self, field: str, *, default: bool) -> bool:
        value = self._take(field)
        if value is None:
            return default
        if type(value) is not bool:
            raise self._mistyped(field, "true or false", value)
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        """A list of texts, empty when absent."""
        value = self._take(field)
        values = [] if value is None else self._list(field, value)
        if set(map(type, values)) - {str}:
            index = next(place for place, one in enumerate(values) if type(one) is not str)
            raise self._mistyped(f"{field}[{index}]", "text", values[index])
        return tuple(values)

    def text_map(self, field: str, *, null: str | None = None) -> dict[str, str]:
        """A mapping of text to text, empty when absent; ``null`` is what a null reads as, unless refused."""
        found = self._map(field)
        for name, value in found.items():
            if value is None and null is not None:
                found[name] = null
            elif type(value) is not str:
                raise self._mistyped(member(field, name), "text", value)
        return found

    def integer_map(self, field: str) -> dict[str, int]:
        """A mapping of text to 64-bit integers, empty when absent."""
        found = self._map(field)
        for name, value in found.items():
            self._integer(member(field, name), value, LONG_MIN)
        return found

    def elements(self, field: str) -> list[Any]:
        """A list that must be there, of anything."""
        return self._list(field, self._required(field))

    def object_at(self, field: str, value: object) -> Fields:
        """The object ``value``, found in this one at ``field``."""
        if not isinstance(value, dict):
            raise self._mistyped(field, "an object", value)
        return Fields(self.path, value, self._name(field))

    def objects(self, field: str) -> Iterator[Fields]:
        """The objects of a list that must be there."""
        for index, value in enumerate(self.elements(field)):
            yield self.object_at(f"{field}[{index}]", value)

    def object_map(self, field: str) -> Iterator[tuple[str, Fields]]:
        """The named objects of a mapping, none when absent."""
        for name, value in self._map(field).items():
            yield name, self.object_at(member(field, name), value)

    def child(self, field: str) -> Fields:
        """The object at ``field``, an empty one when absent."""
        value = self._take(field)
        return self.object_at(field, {} if value is None else value)

    def optional(self, field: str, read: Callable[[Fields], _T]) -> _T | None:
        """What ``read`` makes of the object at ``field``; None when absent."""
        return read(self.child(field)) if self.has(field) else None

    def required_child(self, field: str) -> Fields:
        return self.object_at(field, self._required(field))

    @property
    def members(self) -> dict[str, Any]:
        """All members as they are, for a reader that knows the whole object by its shape."""
        return self._members

    def skip(self, field: str) -> None:
        """Ignore a field that is derived when the file is written."""
        self._taken.add(field)

    def rest(self) -> dict[str, object]:
        """The fields that no getter asked for, to be kept and written back."""
        if self._members.keys() <= self._taken:
            return {}
        unknown = {name: value for name, value in self._members.items() if name not in self._taken}
        if (problem := too_large(unknown)) is not None:
            raise self.error(member("", problem[0]), problem[1])
        return unknown

    def _name(self, field: str) -> str:
        joint = "." if self._prefix and not field.startswith("[") else ""
        return f"{self._prefix}{joint}{field}"

    def _take(self, field: str) -> Any:
        self._taken.add(field)
        return self._members.get(field)

    def _required(self, field: str) -> Any:
        value = self._take(field)
        if value is None:
            raise self.error(field, "required, but missing or null")
        return value

    def _integer(self, field: str, value: object, minimum: int) -> int:
        if type(value) is not int:
            raise self._mistyped(field, "an integer", value)
        if not minimum <= value <= LONG_MAX:
            raise self.error(field, f"outside {minimum} to {LONG_MAX}")
        return value

    def _list(self, field: str, value: object) -> list[Any]:
        if not isinstance(value, list):
            raise self._mistyped(field, "a list", value)
        return value

    def _map(self, field: str) -> dict[str, Any]:
        value = self._take(field)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._mistyped(field, "an object", value)
        return dict(value)

    def _mistyped(self, field: str, expected: str, found: object) -> FormatError:
        return self.error(field, f"expected {expected}, found {kind_of(found)}")


def check_format(fields: Fields, expected: str, known: Collection[str] = ()) -> frozenset[str]:
    """Check ``format``, which names the format and its version, such as ``magicfs.manifest/1``, and
    ``requires``, which names what a reader must know to understand the rest. Returns that; absent is nothing.

    Raises FormatError for another format or none, and for what is not ``known``; the message says so if it
    is of a newer version.
    """
    found, name = fields.required_text("format"), expected.rpartition("/")[0]
    if found != expected:
        if re.fullmatch(rf"{re.escape(name)}/[0-9]{{1,9}}", found):
            raise fields.error(
                "format", f"{found}, but this version of magicfs reads {expected}; use a newer magicfs"
            )
        raise fields.error("format", f"{shown(found)}, where {expected} is understood")
    requires = frozenset(fields.texts("requires"))
    if unknown := sorted(requires.difference(known)):
        raise fields.error(
            "requires",
            f"{shown(unknown[0])}, which this version of magicfs does not support; use a newer magicfs",
        )
    return requires


def heading(name: str, needs: Iterable[str]) -> dict[str, object]:
    """How a file begins: its format, and what its readers must know."""
    requires = sorted(needs)
    return {"format": name, "requires": requires} if requires else {"format": name}
