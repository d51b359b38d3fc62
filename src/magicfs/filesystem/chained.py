"""``magic::s3`` and its relatives as protocols of their own.

FSSpec takes a chained URL apart, except where it asks for a filesystem by protocol alone: in
``fsspec.filesystem`` and ``fsspec.generic``, for ``rsync``.
"""

from __future__ import annotations

from typing import Any

import fsspec

from magicfs.filesystem.face import MagicFileSystem

__all__ = ["MagicMemory", "MagicS3", "MagicS3A"]


class MagicS3(MagicFileSystem):
    """``MagicFileSystem`` around s3fs: what ``fsspec.filesystem("magic::s3")`` makes."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="s3", **kwargs)


class MagicS3A(MagicFileSystem):
    """The same by Hadoop's name, ``magic::s3a``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="s3a", **kwargs)


class MagicMemory(MagicFileSystem):
    """``MagicFileSystem`` around the objects of this process: ``magic::memory``."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(target_protocol="memory", **kwargs)


# Where the package is not installed, its entry points are not known.
for _name, _kind in {"magic::s3": MagicS3, "magic::s3a": MagicS3A, "magic::memory": MagicMemory}.items():
    fsspec.register_implementation(_name, _kind, clobber=True)
