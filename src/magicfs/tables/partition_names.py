"""Hive-style partition directories, ``month=1/carrier=AA``, named as Spark and Hive name them.

Names and values are escaped so that any text is one element of a key and reads back as itself
(``ExternalCatalogUtils`` of Spark, ``FileUtils`` of Hive): ``%`` and two hexadecimal digits for control
characters and for those that mean something in paths, globs or URLs. All else stands as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Literal

from magicfs.errors import UsageError

HIVE_DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""The value of a partition whose rows hold null, or empty text, in its column."""

Partitioning = Literal["hive", "directory"]
"""Whether directories bear the names of the columns: ``month=1``, or ``1`` alone."""

Values = Mapping[str, str | None]
"""The values of a file's directories by column, outermost first, as text; None for null."""

PartitionValue = str | int | bool | Decimal | date | datetime | None

_ESCAPED = "".join(map(chr, range(0x01, 0x20))) + "\"#%'*/:=?\\\x7f{[]^"
_ESCAPES = str.maketrans({character: f"%{ord(character):02X}" for character in _ESCAPED})
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT_MAX = 2**31
_LONG_MAX = 2**63


def escape(text: str) -> str:
    """Make one element of a path of any text."""
    return text.translate(_ESCAPES)


def directory(
    names: Sequence[str], values: Sequence[PartitionValue], partitioning: Partitioning = "hive"
) -> str:
    """The relative directory of one partition, such as ``month=1/carrier=AA``; as ``directory``, ``1/AA``.
    Raises UsageError for a value that no store can have in a key, or no directory without its column's name.
    """
    element = _element if partitioning == "hive" else _bare_element
    return "/".join(element(name, text_of(value)) for name, value in zip(names, values, strict=True))


def text_of(value: PartitionValue) -> str | None:
    """The text that Spark makes of a value when it casts it to a string; None for null.

    A moment without a zone is written as it is, ``2026-01-31 08:00:00.5``. One with a zone is written in UTC
    with a ``Z``, as by pyarrow: two instants are never one text, not even in the hour that a clock repeats.
    """
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case datetime():
            zone = "" if value.tzinfo is None else "Z"
            moment = value.astimezone(UTC) if zone else value
            nanosecond = getattr(moment, "nanosecond", 0)  # of pandas, whose moments pyarrow makes of these
            fraction = f".{moment.microsecond:06d}{nanosecond:03d}".rstrip("0").rstrip(".")
            return f"{moment.date().isoformat()} {moment.strftime('%H:%M:%S')}{fraction}{zone}"
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)


def _element(name: str, text: str | None) -> str:
    return f"{escape(name)}={_escaped(name, text) if text else HIVE_DEFAULT_PARTITION}"


def _bare_element(name: str, text: str | None) -> str:
    if not text:
        raise UsageError(
            f"a value of partition column {name!r} is {'null' if text is None else 'empty'}, which a "
            "directory without the column's name cannot show; fill it, or use partitioning='hive'"
        )
    escaped = _escaped(name, text)
    # Readers take names that begin so for hidden, and `..` for a way up.
    return f"%{ord(escaped[0]):02X}{escaped[1:]}" if escaped[0] in "_." else escaped


def _escaped(name: str, text: str) -> str:
    if "\0" in text:
        raise UsageError(
            f"a value of partition column {name!r} contains the character U+0000, which is not allowed in "
            "keys; replace it, or partition by another column"
        )
    return escape(text)


def is_number(text: str) -> bool:
    """Whether a whole number is written so: ``7`` is one, and ``007`` is text."""
    return _NUMBER.fullmatch(text) is not None


def guessed_type(texts: Iterable[str | None]) -> str:
    """The name of the narrowest of Spark's types that all texts are written as: ``int``, ``bigint``, ``date``
    or ``string``.
    """
    there = [text for text in texts if text is not None]
    if not there:
        return "string"
    if all(map(is_number, there)):
        least, most = min(map(int, there)), max(map(int, there))
        if least >= -_INT_MAX and most < _INT_MAX:
            return "int"
        if least >= -_LONG_MAX and most < _LONG_MAX:
            return "bigint"
    return "date" if all(map(_is_date, there)) else "string"


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
