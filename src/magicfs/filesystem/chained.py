"""``magic::s3`` and its relatives as protocols of their own.

FSSpec takes a chained URL apart, except where it asks for a filesystem by protocol alone: in
``fsspec.filesystem`` and ``fsspec.generic``, for ``rsync``.
"""

from __future__ import annotations

from typing import Any

import fsspec

from magicfs.filesystem.face import MagicFileSystem

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


class MagicS3(MagicFileSystem):
    """``MagicFileSystem`` around s3fs: what ``fsspec.filesystem("magic::s3")`` makes."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="s3", **kwargs)


class MagicS3A(MagicFileSystem):
    """The same by Hadoop's name, ``magic::s3a``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="s3a", **kwargs)


class MagicGS(MagicFileSystem):
    """``MagicFileSystem`` around gcsfs: ``magic::gs``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="gs", **kwargs)


class MagicGCS(MagicFileSystem):
    """The same by gcsfs's other name, ``magic::gcs``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="gcs", **kwargs)


class MagicAbfs(MagicFileSystem):
    """``MagicFileSystem`` around adlfs: ``magic::abfs``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="abfs", **kwargs)


class MagicAbfss(MagicFileSystem):
    """The same by another name, ``magic::abfss``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="abfss", **kwargs)


class MagicAz(MagicFileSystem):
    """The same by another name, ``magic::az``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="az", **kwargs)


class MagicMemory(MagicFileSystem):
    """``MagicFileSystem`` around the objects of this process: ``magic::memory``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="memory", **kwargs)


class MagicFile(MagicFileSystem):
    """``MagicFileSystem`` around files of this machine: ``magic::file``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="file", **kwargs)


class MagicLocal(MagicFileSystem):
    """The same by fsspec's other name, ``magic::local``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="local", **kwargs)


# Where the package is not installed, its entry points are not known.
_KINDS = {
    "magic::s3": MagicS3,
    "magic::s3a": MagicS3A,
    "magic::gs": MagicGS,
    "magic::gcs": MagicGCS,
    "magic::abfs": MagicAbfs,
    "magic::abfss": MagicAbfss,
    "magic::az": MagicAz,
    "magic::memory": MagicMemory,
    "magic::file": MagicFile,
    "magic::local": MagicLocal,
}
for _name, _kind in _KINDS.items():
    fsspec.register_implementation(_name, _kind, clobber=True)
