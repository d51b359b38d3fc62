"""The whole exam."""

# ruff: noqa: D102 - the names of tests are sentences

from __future__ import annotations

from magicfs.testing.store_exam.conditional import ConditionsExam
from magicfs.testing.store_exam.hostile import HostileExam
from magicfs.testing.store_exam.listings import ListExam, ListUploadsExam
from magicfs.testing.store_exam.objects import DeleteExam, PutExam, ReadExam
from magicfs.testing.store_exam.uploads import AbortExam, CompleteExam, CreateExam, PartExam

__all__ = ["StoreExam"]


class StoreExam(
    CreateExam,
    PartExam,
    CompleteExam,
    AbortExam,
    ListUploadsExam,
    PutExam,
    ReadExam,
    ListExam,
    DeleteExam,
    ConditionsExam,
    HostileExam,
):
    """All of it. A subclass names its ``subject`` and gives ``make_store``, ``peek`` and ``poke``."""

    async def test_store_says_who_it_is_and_that_it_has_uploads(self) -> None:
        capabilities = self.store.capabilities
        assert self.store.name
        assert self.store.bucket == self.make_store().bucket
        assert self.make_store("another").bucket == "another"
        assert self.store.identity == self.make_store().identity != self.make_store("another").identity
        assert capabilities.multipart
        assert min(capabilities.bulk_delete_max, capabilities.list_page_max, capabilities.parts.size_min) >= 1
