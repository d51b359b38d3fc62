"""What a job keeps of the bytes of a file, taken as they pass: its footer and its checksum."""

from __future__ import annotations

from dataclasses import dataclass

from magicfs.filesystem.upload.footers import FooterTaker, footer_of, taker_of
from magicfs.formats.footer import Footer
from magicfs.formats.job_options import Collected
from magicfs.stores import checksums
from magicfs.stores.checksums import RunningChecksum
from magicfs.stores.port import Store

__all__ = ["NOTHING_TAKEN", "Taken", "Taker", "taker_for"]


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken of one file.

    Attributes:
        footer: What it says of itself; None if nobody wants to know, or it is not certain.
        checksum: That of all its bytes, as ``algorithm:base64``; None if nobody wants to know.
    """

    footer: Footer | None = None
    checksum: str | None = None


NOTHING_TAKEN = Taken()


class Taker:
    """Is handed all bytes of a file, in their order, and tells in the end what is kept of them."""

    def __init__(self, footer: FooterTaker | None, algorithm: str | None) -> None:
        self._footer = footer
        self._algorithm = algorithm
        self._checksum: RunningChecksum | None = None if algorithm is None else checksums.running(algorithm)
        self._size = 0  # of what was looked at

    @property
    def is_slow(self) -> bool:
        """Whether all bytes are looked through, and not only the last ones."""
        return self._checksum is not None or (self._footer is not None and self._footer.is_slow)

    def take(self, data: memoryview) -> None:
        """Look at more bytes; none of them is held afterwards."""
        if self._footer is not None:
            self._footer.take(data)
        if self._checksum is not None:
            self._checksum.update(data)
            self._size += len(data)

    async def taken(self, length: int) -> Taken:
        """What is kept of a file of this length."""
        footer = None if self._footer is None else await footer_of(self._footer)
        return Taken(footer, self._told(length))

    def taken_now(self, length: int) -> Taken:
        """The same, in a thread that may wait."""
        return Taken(None if self._footer is None else self._footer.footer(), self._told(length))

    def _told(self, length: int) -> str | None:
        # What the store has copied by itself was not seen here.
        if self._checksum is None or self._size != length:
            return None
        return f"{self._algorithm}:{self._checksum.value()}"


def taker_for(store: Store, key: str, wanted: Collected, *, is_put: bool = False) -> Taker | None:
    """What takes what a job wants to keep of a file; None if that is nothing.

    ``is_put``: whether the file will be put in one request, and not uploaded.
    """
    if not (wanted.footers or wanted.checksums):
        return None
    known = store.capabilities.checksums.of_object(is_put=is_put)
    footer = taker_of(key) if wanted.footers else None
    return Taker(footer, checksums.best(*known) if wanted.checksums else None)
