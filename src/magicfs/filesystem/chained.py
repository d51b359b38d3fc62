"""``magic+s3`` and its relatives as protocols of their own, and ``magic::s3`` for those who ask by that name.

FSSpec takes a chained URL apart, except where it asks for a filesystem by protocol alone: in
``fsspec.filesystem`` and ``fsspec.generic``, for ``rsync``. Whoever looks for ``scheme://``, such as pandas
before 3.0 and ``urllib``, takes ``magic+s3://`` only.
"""

from __future__ import annotations

from typing import Any

import fsspec

from magicfs.filesystem.face import MagicFileSystem
from magicfs.stores import resolve

__all__ = [
    "MagicAbfs",
    "MagicAbfss",
    "MagicAz",
    "MagicFile",
    "MagicGCS",
    "MagicGS",
    "MagicLocal",
    "MagicMemory",
    "MagicS3",
    "MagicS3A",
]


class _OfOneProtocol(MagicFileSystem):
    """One whose URLs are of the wrapped filesystem, with ``magic+`` before them."""

    wraps = ""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol=self.wraps, **kwargs)

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        # What the URL names beside a bucket, such as the account.
        named = resolve.split(path.removeprefix("magic+"))[1]
        return {"target_options": named} if named else {}


class MagicS3(_OfOneProtocol):
    """``MagicFileSystem`` around s3fs: what ``fsspec.filesystem("magic::s3")`` makes."""

    wraps = "s3"


class MagicS3A(_OfOneProtocol):
    """The same by Hadoop's name, ``magic::s3a``."""

    wraps = "s3a"


class MagicGS(_OfOneProtocol):
    """``MagicFileSystem`` around gcsfs: ``magic::gs``."""

    wraps = "gs"


class MagicGCS(_OfOneProtocol):
    """The same by gcsfs's other name, ``magic::gcs``."""

    wraps = "gcs"


class MagicAbfs(_OfOneProtocol):
    """``MagicFileSystem`` around adlfs: ``magic::abfs``."""

    wraps = "abfs"


class MagicAbfss(_OfOneProtocol):
    """The same by another name, ``magic::abfss``."""

    wraps = "abfss"


class MagicAz(_OfOneProtocol):
    """The same by another name, ``magic::az``."""

    wraps = "az"


class MagicMemory(_OfOneProtocol):
    """``MagicFileSystem`` around the objects of this process: ``magic::memory``."""

    wraps = "memory"


class MagicFile(_OfOneProtocol):
    """``MagicFileSystem`` around files of this machine: ``magic::file``."""

    wraps = "file"


class MagicLocal(_OfOneProtocol):
    """The same by fsspec's other name, ``magic::local``."""

    wraps = "local"


# Where the package is not installed, its entry points are not known.
for _kind in _OfOneProtocol.__subclasses__():
    for _before in ("magic+", "magic::"):
        fsspec.register_implementation(f"{_before}{_kind.wraps}", _kind, clobber=True)
