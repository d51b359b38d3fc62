"""Which objects a job's files have become, as completing them tells: by their places, in little memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from magicfs.transaction.spool import Spool

__all__ = ["ETags"]

_GROUP: Final = 1000
_BETWEEN: Final = "\n"


class ETags:
    """One ETag, or none yet, for each file of a job, with the version of the object if it has one, as
    ``protocol.object_id`` joins them. An empty one is of a file whose answer had none.

    Files are completed almost in their order, so a few groups are open at a time; those that are full are
    packed.
    """

    def __init__(self, files: int = 0) -> None:
        self.files = files
        self._open: dict[int, list[str | None]] = {}
        self._left: dict[int, int] = {}
        self._full: dict[int, int] = {}
        self._spool = Spool()

    def put(self, place: int, etag: str) -> None:
        """Note that of a file. No file is noted twice, but for one that had an empty one."""
        number, index = divmod(place, _GROUP)
        group = self._open.get(number)
        if group is None:
            group = self._open[number] = self._group(number)
            self._left[number] = group.count(None)
        if group[index] is None:
            self._left[number] -= 1
        group[index] = etag
        if not self._left[number]:
            self._full[number] = self._spool.append(_BETWEEN.join(map(str, group)).encode())
            del self._open[number], self._left[number]

    def __iter__(self) -> Iterator[str | None]:
        """In the order of the files; None for those that were not noted."""
        for number in range(-(-self.files // _GROUP)):
            yield from list(self._open.get(number) or self._group(number))

    def _group(self, number: int) -> list[str | None]:
        place = self._full.get(number)
        if place is not None:
            return list(self._spool.read(place).decode().split(_BETWEEN))
        return [None] * min(_GROUP, self.files - number * _GROUP)
