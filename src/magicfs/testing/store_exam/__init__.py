"""The exam of every store: each sentence of ``magicfs.stores.port`` as a test.

::

    class TestMyStore(StoreExam):
        subject = "mine"

        def make_store(self, bucket=None): ...
        def peek(self, key): ...
        def poke(self, key, body): ...

Subclass it to get the tests. Use ``UnconditionalStoreExam`` for a store that cannot complete uploads
conditionally, ``IgnoringStoreExam`` for one that ignores conditions, ``BlockStoreExam`` for one whose uploads
are blocks of their key, and ``FileStoreExam`` for a store of files. For another choice of ``suite.PARTS``,
compose your own class. ``VersionsExam`` is a separate exam, for buckets that keep versions.
Fixtures of your subclass prepare the bucket, which has to be empty when a test starts. Use it with
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
