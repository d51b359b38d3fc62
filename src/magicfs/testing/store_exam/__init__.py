"""The exam of every store: each sentence of ``magicfs.stores.port`` as a test.

::

    class TestMyStore(StoreExam):
        subject = "mine"

        def make_store(self, bucket=None): ...
        def peek(self, key): ...
        def poke(self, key, body): ...

The tests come in by subclassing; a store of files, which can do less, takes ``FileStoreExam``, and one with
another choice of ``suite.PARTS`` composes its own. Fixtures of the subclass prepare the bucket, which must be
empty when a test begins. Use it with ``pytest_plugins = ["magicfs.testing.exam_summary"]``.
"""

from __future__ import annotations

from magicfs.testing.store_exam.base import Examined
from magicfs.testing.store_exam.local import LocalStoreExam
from magicfs.testing.store_exam.memory import MemoryStoreExam
from magicfs.testing.store_exam.suite import FileStoreExam, StoreExam

__all__ = ["Examined", "FileStoreExam", "LocalStoreExam", "MemoryStoreExam", "StoreExam"]
