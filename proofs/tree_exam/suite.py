"""The whole exam of trees, for each of the two kinds."""

from __future__ import annotations

from proofs.tree_exam.directories import EntriesExam, LookExam, MakeDirectoryExam
from proofs.tree_exam.files import DeleteExam, DeleteTreeExam, ReadExam, WriteExam
from proofs.tree_exam.kinds import AtomicExam, CopyingExam
from proofs.tree_exam.names import NamesExam
from proofs.tree_exam.renames import RenameDirectoryExam, RenameFileExam

__all__ = ["AtomicTreeExam", "CopyingTreeExam"]


class _CommonExam(
    MakeDirectoryExam,
    LookExam,
    EntriesExam,
    RenameFileExam,
    RenameDirectoryExam,
    DeleteExam,
    DeleteTreeExam,
    WriteExam,
    ReadExam,
    NamesExam,
):
    """What every tree is asked."""

    async def test_tree_says_who_it_is(self) -> None:
        assert self.tree.name
        assert self.tree.bucket == self.make_tree().bucket != self.make_tree("another").bucket


class AtomicTreeExam(_CommonExam, AtomicExam):
    """The exam of a tree in which a rename is one step."""


class CopyingTreeExam(_CommonExam, CopyingExam):
    """The exam of a tree in which a rename copies and deletes."""

    without = ("rename in one step",)
