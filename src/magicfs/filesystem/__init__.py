"""The fsspec filesystem: ``face`` is itself, ``chained`` its protocols, the others its helpers by subject."""

from magicfs.filesystem.chained import MagicMemory, MagicS3, MagicS3A
from magicfs.filesystem.face import MagicFileSystem

__all__ = ["MagicFileSystem", "MagicMemory", "MagicS3", "MagicS3A"]
