"""The fsspec filesystem: ``face`` is itself, ``chained`` its protocols, the others its helpers by subject."""

from magicfs.filesystem.chained import (
    MagicAbfs,
    MagicAbfss,
    MagicAz,
    MagicFile,
    MagicGCS,
    MagicGS,
    MagicLocal,
    MagicMemory,
    MagicS3,
    MagicS3A,
)
from magicfs.filesystem.face import MagicFileSystem

__all__ = [
    "MagicAbfs",
    "MagicAbfss",
    "MagicAz",
    "MagicFile",
    "MagicFileSystem",
    "MagicGCS",
    "MagicGS",
    "MagicLocal",
    "MagicMemory",
    "MagicS3",
    "MagicS3A",
]
