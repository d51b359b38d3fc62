"""The trees of the memory store and of local files under exam."""

from __future__ import annotations

from typing import ClassVar

from magicfs.stores.memory.store import MemoryStore
from magicfs.stores.tree_port import Tree
from magicfs.stores.trees import ObjectTree, tree_of
from proofs.scenes.store_subjects import BUCKET, LocalFiles, MemoryObjects
from proofs.tree_exam.suite import AtomicTreeExam, CopyingTreeExam

__all__ = ["LocalTreeExam", "MemoryTreeExam"]


class MemoryTreeExam(MemoryObjects, CopyingTreeExam):
    """The exam of the tree over the memory store.

    Attributes:
        kind: The class under exam.
    """

    kind: ClassVar[type[ObjectTree]] = ObjectTree

    def make_tree(self, bucket: str | None = None) -> Tree:
        """The tree under exam."""
        return self.kind(MemoryStore(bucket or BUCKET, self.world))


class LocalTreeExam(LocalFiles, AtomicTreeExam):
    """The exam of the tree of local files."""

    def make_tree(self, bucket: str | None = None) -> Tree:
        """The tree under exam."""
        return tree_of(self.local_store(bucket))
