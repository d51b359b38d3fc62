"""Cutting what is written into parts."""

from __future__ import annotations

import io
from collections.abc import Iterator

from magicfs.filesystem.upload.stream import Upload
from magicfs.stores.port import Body

__all__ = ["Buffer"]


class Buffer:
    """Cuts what is written into bodies of the size that the upload asks for."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload
        self._filling = io.BytesIO()
        self._target = upload.next_part_size

    def add(self, data: Body) -> Iterator[io.BytesIO]:
        """Take data in; yields each body that became full."""
        view = memoryview(data).cast("B")
        while len(view):
            room = self._target - self._filling.tell()
            self._filling.write(view[:room])
            view = view[room:]
            if self._filling.tell() == self._target:
                yield self.take()
                self._target = self._upload.next_part_size

    def take(self) -> io.BytesIO:
        """What has been filled so far, handed over without copying it."""
        body, self._filling = self._filling, io.BytesIO()
        return body
