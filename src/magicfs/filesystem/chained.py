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


def _wrapping(name: str, protocol: str) -> type[_OfOneProtocol]:
    doc = f"``MagicFileSystem`` around another: what ``fsspec.filesystem('magic::{protocol}')`` makes."
    return type(name, (_OfOneProtocol,), {"wraps": protocol, "__doc__": doc, "__module__": __name__})


MagicS3 = _wrapping("MagicS3", "s3")
MagicS3A = _wrapping("MagicS3A", "s3a")
MagicGS = _wrapping("MagicGS", "gs")
MagicGCS = _wrapping("MagicGCS", "gcs")
MagicAbfs = _wrapping("MagicAbfs", "abfs")
MagicAbfss = _wrapping("MagicAbfss", "abfss")
MagicAz = _wrapping("MagicAz", "az")
MagicMemory = _wrapping("MagicMemory", "memory")
MagicFile = _wrapping("MagicFile", "file")
MagicLocal = _wrapping("MagicLocal", "local")

# Where the package is not installed, its entry points are not known.
for _kind in _OfOneProtocol.__subclasses__():
    for _before in ("magic+", "magic::"):
        fsspec.register_implementation(f"{_before}{_kind.wraps}", _kind, clobber=True)
