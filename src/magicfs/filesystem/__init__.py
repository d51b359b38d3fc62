"""The fsspec filesystem: ``face`` is the filesystem itself, the others its helpers by subject."""

from magicfs.filesystem.face import MagicFileSystem

__all__ = ["MagicFileSystem"]
