"""The exam of every tree: each sentence of ``magicfs.stores.tree_port`` as a test.

::

    class TestMyTree(CopyingTreeExam):      # or AtomicTreeExam, where a rename is one step
        subject = "mine"

        def make_tree(self, bucket=None): ...
        def peek(self, path): ...
        def poke(self, path, body): ...

The tests come in by subclassing. Fixtures of the subclass prepare the bucket, which must be empty when a test
begins. Use it with ``pytest_plugins = ["magicfs.testing.exam_summary"]``.
"""

from __future__ import annotations

from proofs.tree_exam.subjects import LocalTreeExam, MemoryTreeExam
from proofs.tree_exam.suite import AtomicTreeExam, CopyingTreeExam

__all__ = ["AtomicTreeExam", "CopyingTreeExam", "LocalTreeExam", "MemoryTreeExam"]
