"""The fsspec filesystem: ``face`` is itself, ``chained`` its protocols, the others its helpers by subject.

Names are loaded when first used: what only counts or records uploads needs no fsspec.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magicfs.filesystem.face import MagicFileSystem as MagicFileSystem

__all__ = ["MagicFileSystem"]


def __getattr__(name: str) -> Any:
    if not name.startswith("Magic"):
        raise AttributeError(f"module 'magicfs.filesystem' has no attribute {name!r}")
    # FSSpec knows the protocols by their classes, so all of them come together.
    module = import_module("magicfs.filesystem.chained")
    globals().update({one: getattr(module, one) for one in [*__all__, *module.__all__]})
    return getattr(module, name)
