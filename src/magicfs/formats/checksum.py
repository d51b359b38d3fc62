"""The checksum of a whole file, as its pending upload carries it: ``algorithm:base64``, in the extra data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["CHECKSUM", "carried_by", "checksum_in"]

CHECKSUM: Final = "magicfs.checksum"
"""The name in a pending upload's extra data."""


def carried_by(checksum: str | None) -> dict[str, str]:
    """What the extra data of a pending upload says of a checksum."""
    return {} if checksum is None else {CHECKSUM: checksum}


def checksum_in(extra: Mapping[str, str]) -> str | None:
    """The checksum in the extra data of a file; None if there is none."""
    return extra.get(CHECKSUM)
