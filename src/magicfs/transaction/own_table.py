"""A table of Delta Lake that shows a dataset of magicfs: no other's, although it has a log."""

from __future__ import annotations

from magicfs.errors import ObjectNotFound
from magicfs.protocol import paths
from magicfs.protocol.conflict import delta_mark
from magicfs.stores.port import Store

__all__ = ["is_kept_by_magicfs"]


async def is_kept_by_magicfs(store: Store, directory: str, key: str) -> bool:
    """Whether a key or a directory that shows a table at a destination is of a log with the mark of magicfs.

    One HEAD, and none if it shows another table format.
    """
    mark = delta_mark(directory)
    log = mark.rpartition("/")[0]
    if key.rstrip("/") != log and not paths.is_under(key, log):
        return False
    try:
        await store.head(mark)
    except ObjectNotFound:
        return False
    return True
