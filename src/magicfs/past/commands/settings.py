"""How values of a policy are read that several parts have."""

from __future__ import annotations

import re
from typing import Final

from magicfs.errors import UsageError

_SIZE: Final = re.compile(r"(\d{1,15})\s*([kmg]?)(?:i?b)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def size(name: str, value: object) -> int:
    """Bytes of text such as ``64M``. Raises UsageError for anything else."""
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or int(match[1]) == 0:
        raise UsageError(f"{name}={value!r} is not a size; write it as 64M or 1G")
    return int(match[1]) * _UNITS[match[2].lower()]


def texts(name: str, value: object) -> tuple[str, ...]:
    """A list of texts. Raises UsageError for anything else."""
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise UsageError(f'{name}={value!r} is not a list of texts; write it as ["a", "b"]')
    return tuple(value)


def whole_number(name: str, value: object) -> int:
    """A whole number above 0. Raises UsageError for anything else."""
    if type(value) is not int or value < 1:
        raise UsageError(f"{name}={value!r} is not a whole number above 0")
    return value
