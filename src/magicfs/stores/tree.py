"""The tree of a store: its files and directories, and renaming them."""

from __future__ import annotations

from typing import Protocol, cast

from magicfs.stores.object_tree import ObjectTree
from magicfs.stores.port import Store
from magicfs.stores.tree_port import Entry, Kind, Tree

__all__ = ["Entry", "Kind", "Tree", "tree_of"]


class _HasTree(Protocol):
    def tree(self) -> Tree: ...


def tree_of(store: Store) -> Tree:
    """The tree of a store: its own where it can rename in one step, else one of copying and deleting.

    Requests of the tree pass through everything that is put around the store: they are counted, limited in
    time, and made to fail, as the store's own are.
    """
    if store.capabilities.rename == "atomic":
        return cast("_HasTree", store).tree()
    return ObjectTree(store)
