"""The fsspec filesystem: ``face`` is itself, ``chained`` its protocols, the others its helpers by subject.

Names are loaded when first used: what only counts or records uploads needs no fsspec.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magicfs.filesystem.chained import MagicAbfs as MagicAbfs
    from magicfs.filesystem.chained import MagicAbfss as MagicAbfss
    from magicfs.filesystem.chained import MagicAz as MagicAz
    from magicfs.filesystem.chained import MagicFile as MagicFile
    from magicfs.filesystem.chained import MagicGCS as MagicGCS
    from magicfs.filesystem.chained import MagicGS as MagicGS
    from magicfs.filesystem.chained import MagicLocal as MagicLocal
    from magicfs.filesystem.chained import MagicMemory as MagicMemory
    from magicfs.filesystem.chained import MagicS3 as MagicS3
    from magicfs.filesystem.chained import MagicS3A as MagicS3A
    from magicfs.filesystem.face import MagicFileSystem as MagicFileSystem

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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'magicfs.filesystem' has no attribute {name!r}")
    # FSSpec knows the protocols by their classes, so all of them come together.
    module = import_module("magicfs.filesystem.chained")
    globals().update({one: getattr(module, one) for one in __all__})
    return globals()[name]
