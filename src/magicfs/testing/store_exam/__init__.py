"""The exam of every store: each sentence of ``magicfs.stores.port`` as a test.

::

    class TestMyStore(StoreExam):
        subject = "mine"

        def make_store(self, bucket=None): ...
        def peek(self, key): ...
        def poke(self, key, body): ...

The tests come in by subclassing. A store that cannot complete uploads on a condition takes
``UnconditionalStoreExam``, one that ignores conditions
``IgnoringStoreExam``, one whose uploads are blocks of their key ``BlockStoreExam``, a store of files,
which can do less, ``FileStoreExam``, and one with another choice of ``suite.PARTS`` composes its own.
``VersionsExam``, beside it, is that of buckets that keep versions.
Fixtures of the subclass prepare the bucket, which must be empty when a test begins. Use it with
``pytest_plugins = ["magicfs.testing.exam_summary"]``.
"""

from __future__ import annotations

from magicfs.testing.store_exam.base import Deviation, Examined
from magicfs.testing.store_exam.suite import (
    BlockStoreExam,
    FileStoreExam,
    IgnoringStoreExam,
    StoreExam,
    UnconditionalStoreExam,
)
from magicfs.testing.store_exam.versions import VersionsExam

__all__ = [
    "BlockStoreExam",
    "Deviation",
    "Examined",
    "FileStoreExam",
    "IgnoringStoreExam",
    "StoreExam",
    "UnconditionalStoreExam",
    "VersionsExam",
]
