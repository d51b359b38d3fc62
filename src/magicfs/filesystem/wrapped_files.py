"""Files around a delayed file that abort as it does: text, compression, transactions.

The wrappers of the standard library only call ``close()`` when their ``with`` body raises, and fsspec's
compressing ones leave the file within to the garbage collector.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self

from magicfs.filesystem.upload import AsyncDelayedFile, DelayedFile
from magicfs.runtime.interrupt import run_on

_TEXT = ("encoding", "errors", "newline")
WRAPPING = (*_TEXT, "compression")
"""Arguments of ``open`` that are about what lies around the binary file."""


def open_wrapped(
    opener: Callable[[str], DelayedFile], path: str, mode: str, kwargs: Mapping[str, Any]
) -> Any:
    """Open a delayed file through text encoding, compression or both; ``opener`` opens the binary file."""
    text = {name: kwargs[name] for name in _TEXT if name in kwargs}
    compression = kwargs.get("compression")
    file = opener(mode.replace("t", "").replace("b", "") + "b")
    binary: Any = file
    if compression is not None:
        try:
            binary = _CompressedFile(file, _compressor(path, compression, _Tap(file)))
        except BaseException:
            file.abort()
            raise
    return binary if "b" in mode else _TextFile(file, binary, **text)


def _compressor(path: str, compression: str, file: _Tap) -> Any:
    from fsspec.compression import compr
    from fsspec.core import get_compression

    name = get_compression(path, compression)
    return compr[name](file, mode="w") if name else file


class _Tap(io.RawIOBase):
    """What a compressor writes to: closed once its file is, because compressors write when collected, too."""

    def __init__(self, file: DelayedFile) -> None:
        super().__init__()
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Pass on, or drop what comes after the file has ended."""
        return memoryview(data).nbytes if self._file.closed else self._file.write(data)


class _CompressedFile(io.BufferedIOBase):
    """Closes the compressor and the file behind it; aborts when the ``with`` body raises."""

    def __init__(self, file: DelayedFile, compressor: Any) -> None:
        super().__init__()
        self._file = file
        self._compressor = compressor

    @property
    def closed(self) -> bool:
        """Whether the file behind it is; a text wrapper that is collected asks."""
        return self._file.closed

    def writable(self) -> bool:
        return not self._file.closed

    def write(self, data: Any) -> int:
        self._compressor.write(data)
        return memoryview(data).nbytes

    def close(self) -> None:
        """Write the end of the compressed stream and close the file."""
        if self._file.closed:
            return
        with self._file:  # an error of the compressor aborts
            self._compressor.close()

    def abort(self) -> None:
        self._file.abort()

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc is not None:
            self._file.__exit__(exc_type, exc, trace)
        self.close()

    def __del__(self) -> None:
        """Publish nothing: the file within aborts when it is collected."""

    def _dealloc_warn(self, source: object) -> None:
        self._file._dealloc_warn(source)


class _TextFile(io.TextIOWrapper):
    """Text that aborts when the ``with`` body raises or the file is collected unclosed."""

    def __init__(self, file: DelayedFile, binary: Any, **options: Any) -> None:
        super().__init__(binary, **options)
        self._delayed = file

    def abort(self) -> None:
        self._delayed.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc is not None:
            self._delayed.__exit__(exc_type, exc, trace)
        else:
            self.close()


class Deferred:
    """An upload that fsspec's transaction commits or discards; made where only coroutines run."""

    def __init__(self, file: AsyncDelayedFile, loop: asyncio.AbstractEventLoop) -> None:
        self._file = file
        self._loop = loop

    def commit(self) -> None:
        run_on(self._loop, self._file.commit)

    def discard(self) -> None:
        run_on(self._loop, self._file.abort)
