"""The exam of every committer, on every store: what a job shows, when, and what it leaves.

::

    class TestMagicOnMine(CommitterExam):
        subject = "magic on mine"

        @pytest.fixture
        def bench(self): ...

The tests come in by subclassing; ``bench`` gives a ``Bench``: one bucket that is empty when a test begins.
The rules are those of Hadoop's ``AbstractITCommitProtocol`` and ``ITestCommitOperations``, named where a test
follows one, and what object stores and engines have taught since. Use it with
``pytest_plugins = ["magicfs.testing.exam_summary"]``.
"""

from __future__ import annotations

from proofs.committer_exam.aborts import AbortsExam
from proofs.committer_exam.attempts import AttemptsExam
from proofs.committer_exam.bench import (
    Bench,
    DirectoryBench,
    LocalBench,
    MemoryBench,
    NumberedServerBench,
    ServerBench,
)
from proofs.committer_exam.documents import DocumentsExam
from proofs.committer_exam.lifecycle import LifecycleExam
from proofs.committer_exam.names import NamesExam
from proofs.committer_exam.neighbours import NeighboursExam
from proofs.committer_exam.recoveries import RecoveriesExam
from proofs.committer_exam.sizes import SizesExam

__all__ = [
    "Bench",
    "CommitterExam",
    "DirectoryBench",
    "LocalBench",
    "MemoryBench",
    "NumberedServerBench",
    "ServerBench",
]


class CommitterExam(
    LifecycleExam,
    AttemptsExam,
    AbortsExam,
    NeighboursExam,
    NamesExam,
    DocumentsExam,
    RecoveriesExam,
    SizesExam,
):
    """All of it. A subclass names its ``subject`` and has a fixture ``bench``."""
