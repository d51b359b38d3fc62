"""Checkpoints of ``torch.distributed.checkpoint``, each complete or not at all.

Each rank is a task of one job, and the coordinator commits it. torch is imported when you first use a writer
or reader; ``latest`` does not need it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from magicfs.errors import UsageError
from magicfs.torch.newest import latest as latest

if TYPE_CHECKING:
    from magicfs.torch.reader import StorageReader as StorageReader
    from magicfs.torch.writer import StorageWriter as StorageWriter

__all__ = ["StorageReader", "StorageWriter", "latest"]

_HOMES = {"StorageReader": "magicfs.torch.reader", "StorageWriter": "magicfs.torch.writer"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'magicfs.torch' has no attribute {name!r}")
    try:
        value = getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise UsageError(f"magicfs.torch.{name} needs PyTorch; pip install 'magicfs[torch]'") from error
    globals()[name] = value
    return value
