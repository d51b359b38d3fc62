"""``magic+s3`` and its relatives as protocols of their own, and ``magic::s3`` for those who ask by that name.

FSSpec takes a chained URL apart, except where it asks for a filesystem by protocol alone: in
``fsspec.filesystem`` and ``fsspec.generic``, for ``rsync``. Whoever looks for ``scheme://``, such as pandas
before 3.0 and ``urllib``, takes ``magic+s3://`` only.
"""

from __future__ import annotations

from typing import Any

import fsspec

from magicfs.filesystem.face import MagicFileSystem
from magicfs.stores import urls

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

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        # What the URL names beside a bucket, such as the account.
        named = urls.split(path.removeprefix("magic+"))[1]
        return {"target_options": named} if named else {}


class MagicS3(_OfOneProtocol):
    """``MagicFileSystem`` around s3fs: what ``fsspec.filesystem("magic::s3")`` makes."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="s3", **kwargs)


class MagicS3A(_OfOneProtocol):
    """The same by Hadoop's name, ``magic::s3a``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="s3a", **kwargs)


class MagicGS(_OfOneProtocol):
    """``MagicFileSystem`` around gcsfs: ``magic::gs``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="gs", **kwargs)


class MagicGCS(_OfOneProtocol):
    """The same by gcsfs's other name, ``magic::gcs``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="gcs", **kwargs)


class MagicAbfs(_OfOneProtocol):
    """``MagicFileSystem`` around adlfs: ``magic::abfs``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="abfs", **kwargs)


class MagicAbfss(_OfOneProtocol):
    """The same by another name, ``magic::abfss``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="abfss", **kwargs)


class MagicAz(_OfOneProtocol):
    """The same by another name, ``magic::az``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="az", **kwargs)


class MagicMemory(_OfOneProtocol):
    """``MagicFileSystem`` around the objects of this process: ``magic::memory``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="memory", **kwargs)


class MagicFile(_OfOneProtocol):
    """``MagicFileSystem`` around files of this machine: ``magic::file``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="file", **kwargs)


class MagicLocal(_OfOneProtocol):
    """The same by fsspec's other name, ``magic::local``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="local", **kwargs)


# Where the package is not installed, its entry points are not known.
_KINDS = {
    "s3": MagicS3,
    "s3a": MagicS3A,
    "gs": MagicGS,
    "gcs": MagicGCS,
    "abfs": MagicAbfs,
    "abfss": MagicAbfss,
    "az": MagicAz,
    "memory": MagicMemory,
    "file": MagicFile,
    "local": MagicLocal,
}
for _name, _kind in _KINDS.items():
    for _before in ("magic+", "magic::"):
        fsspec.register_implementation(f"{_before}{_name}", _kind, clobber=True)
