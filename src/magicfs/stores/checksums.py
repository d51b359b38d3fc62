"""Checksums of whole files, by the names that stores give to algorithms: made as the bytes come by.

A persisted one is written as ``algorithm:base64``.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Protocol

from magicfs.stores.port import Body

_IMPORTED_FROM: Final = 64 * 1024
"""Bytes from which on it pays to look for a faster CRC32: a process with a few small files imports none."""

_TEXT: Final = re.compile(r"([A-Z][A-Z0-9]{2,15}):([A-Za-z0-9+/]+={0,2})")


class RunningChecksum(Protocol):
    """A checksum that grows with the bytes that it is shown."""

    def update(self, data: Body) -> None:
        """Look at more bytes; none of them is held afterwards."""

    def value(self) -> str:
        """That of all bytes so far, in base64."""


def crc32(data: Body, so_far: int = 0) -> int:
    """The CRC32 of more bytes; as ``zlib.crc32``, several times as fast for many where zlib-ng is there."""
    made = zlib.crc32 if memoryview(data).nbytes < _IMPORTED_FROM else _crc32_of_many()
    return made(data, so_far)


@cache
def _crc32_of_many() -> Callable[[Body, int], int]:
    try:
        from zlib_ng import zlib_ng
    except ImportError:
        return zlib.crc32
    found: Callable[[Body, int], int] = zlib_ng.crc32
    return found


def split(text: str | None) -> tuple[str, str] | None:
    """Algorithm and value of a persisted checksum; None for none, and for what is none."""
    found = _TEXT.fullmatch(text or "")
    return None if found is None else (found[1], found[2])


def running(algorithm: str) -> RunningChecksum:
    """A checksum of no bytes yet; of an algorithm that ``can_make`` knows."""
    return MADE[algorithm]()


def of_bytes(algorithm: str, data: Body) -> str:
    """The checksum of all these bytes."""
    made = running(algorithm)
    made.update(data)
    return made.value()


@cache
def can_make(algorithm: str) -> bool:
    """Whether this process makes such checksums, and as fast as bytes come."""
    if algorithm == "CRC32C":
        try:
            import google_crc32c
        except ImportError:
            return False
        return bool(google_crc32c.implementation == "c")
    if algorithm == "CRC64NVME":
        try:
            from awscrt import checksums
        except ImportError:
            return False
        return hasattr(checksums, "crc64nvme")
    return algorithm in MADE


def best(*algorithms: str) -> str:
    """The first of these that this process can make; else ``CRC32``, which every one can."""
    return next(filter(can_make, algorithms), "CRC32")


class _Crc:
    """One that a function continues, as many bytes long as is said."""

    def __init__(self, go_on: Callable[[Body, int], int], size: int) -> None:
        self._go_on = go_on
        self._size = size
        self._sum = 0

    def update(self, data: Body) -> None:
        self._sum = self._go_on(data, self._sum)

    def value(self) -> str:
        return base64.b64encode(self._sum.to_bytes(self._size, "big")).decode()


class _Hash:
    def __init__(self, made: Any) -> None:
        self._made = made

    def update(self, data: Body) -> None:
        self._made.update(data)

    def value(self) -> str:
        return base64.b64encode(self._made.digest()).decode()


def _crc32c() -> RunningChecksum:
    import google_crc32c

    return _Crc(lambda data, so_far: int(google_crc32c.extend(so_far, bytes(data))), 4)


def _crc64nvme() -> RunningChecksum:
    from awscrt import checksums

    return _Crc(lambda data, so_far: int(checksums.crc64nvme(bytes(data), so_far)), 8)


MADE: Final[Mapping[str, Callable[[], RunningChecksum]]] = {
    "CRC32": lambda: _Crc(crc32, 4),
    "CRC32C": _crc32c,
    "CRC64NVME": _crc64nvme,
    "MD5": lambda: _Hash(hashlib.md5(usedforsecurity=False)),
    "SHA1": lambda: _Hash(hashlib.sha1(usedforsecurity=False)),
    "SHA256": lambda: _Hash(hashlib.sha256()),
}
"""How each is begun. ``can_make`` says which of them this process has what it needs for."""
