"""Files that pyarrow writes, with their small writes collected before they come to Python.

Parquet is written in pieces of some 66 bytes, by several threads. Each piece that comes to Python needs the
lock of the interpreter, and threads that wait for it sleep and have to be woken: while they do, processors
stand still. Here the pieces are collected by Arrow.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from fsspec.spec import AbstractFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem

from magicfs.runtime.process_end import shared_with_threads

_BUFFER_BYTES = 128 * 2**10


def arrow_filesystem(filesystem: AbstractFileSystem) -> PyFileSystem:
    """See ``magicfs.Task.arrow_filesystem``."""
    return PyFileSystem(_Handler(filesystem))


class _Handler(FSSpecHandler):  # type: ignore[misc]  # published without types
    """Buffers of Arrow flush and close their file when they are let go, which would record half a file.

    So all are held here until they are closed. When nobody holds the filesystem any more, they let go of
    their files first.
    """

    def __init__(self, filesystem: AbstractFileSystem) -> None:
        super().__init__(filesystem)
        self._open: dict[_Entry, Any] = {}
        shared_with_threads(self)

    def __reduce__(self) -> Any:
        return _Handler, (self.fs,)

    def __del__(self) -> None:
        for entry in list(self._open):
            entry.let_go()
        self._open.clear()

    def open_output_stream(self, path: str, metadata: Any) -> Any:  # noqa: ARG002 - as pyarrow calls it
        entry = shared_with_threads(_Entry(self.fs.open(path, mode="wb"), self._open))
        stream = pa.BufferedOutputStream(pa.PythonFile(entry, mode="w"), _BUFFER_BYTES)
        self._open[entry] = stream
        return stream


class _Entry:
    """A file as Arrow's buffer knows it."""

    def __init__(self, file: Any, among: dict[_Entry, Any]) -> None:
        self._file: Any = file
        self._among = among

    @property
    def closed(self) -> bool:
        return self._file is None or self._file.closed

    def write(self, data: Any) -> int:
        """Pass on; what comes after the file was let go is dropped."""
        if self._file is not None:
            self._file.write(data)
        return len(data)

    def tell(self) -> int:
        """How much was passed on."""
        return 0 if self._file is None else int(self._file.tell())

    def flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            finally:
                self._among.pop(self, None)

    def let_go(self) -> None:
        """The file is collected unclosed, unless somebody else holds it."""
        self._file = None
