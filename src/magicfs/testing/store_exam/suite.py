"""The whole exam: what every store is asked, and the parts that it is asked or else shows to be absent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from magicfs.testing.store_exam.absences import (
    IgnoredConditionalCompletesExam,
    NoConditionalCompletes,
    NoConditionalCompletesExam,
    NoPutIfMatch,
    NoPutIfMatchExam,
    NoUploadsExam,
    RefusedPutIfMatchExam,
)
from magicfs.testing.store_exam.apart import CompleteIfAbsentApartExam, UploadsApartExam, UploadsTogetherExam
from magicfs.testing.store_exam.base import Examined
from magicfs.testing.store_exam.conditional import CompleteIfAbsentExam, ConditionsExam, PutIfMatchExam
from magicfs.testing.store_exam.copies import CopyExam
from magicfs.testing.store_exam.hostile import HostileUploadsExam
from magicfs.testing.store_exam.listings import ListDirectoriesExam, ListExam, ListUploadsExam
from magicfs.testing.store_exam.metadata import MetadataExam, NoMetadataExam
from magicfs.testing.store_exam.nesting import FileNamesExam, FileUploadsExam, NestedNamesExam
from magicfs.testing.store_exam.objects import DeleteExam, PutExam, ReadExam
from magicfs.testing.store_exam.uploads import (
    AbortExam,
    BesideUploadsExam,
    CompleteExam,
    CreateExam,
    PartExam,
)


class AnyUploadsExam(
    CreateExam,
    PartExam,
    CompleteExam,
    AbortExam,
    ListUploadsExam,
    BesideUploadsExam,
    HostileUploadsExam,
):
    """Everything about uploads that all stores with uploads are asked."""


class UploadsExam(AnyUploadsExam, UploadsApartExam):
    """Everything about uploads that live each for itself."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the exam that not every store can be asked."""

    name: str
    asked: type
    absent: type  # the tests of a store that cannot do this
    has: Callable[[Examined], bool]
    concerns: Callable[[Examined], bool] = lambda _: True  # whether it is asked, or its absence, at all


PARTS: Final = (
    Part("uploads", AnyUploadsExam, NoUploadsExam, lambda exam: exam.store.capabilities.uploads.delayed),
    Part(
        "conditional completes",
        CompleteIfAbsentExam,
        NoConditionalCompletes,
        lambda exam: exam.honoured.complete_if_absent,
    ),
    Part(
        "uploads apart",
        UploadsApartExam,
        UploadsTogetherExam,
        lambda exam: exam.store.capabilities.uploads.apart,
        lambda exam: exam.store.capabilities.uploads.delayed,
    ),
    Part("metadata", MetadataExam, NoMetadataExam, lambda exam: exam.store.capabilities.metadata),
    Part(
        "names below names",
        NestedNamesExam,
        FileNamesExam,
        lambda exam: not exam.store.capabilities.directories,
    ),
    Part("If-Match", PutIfMatchExam, NoPutIfMatch, lambda exam: exam.honoured.put_if_match),
)
"""The parts. What a store can do decides between the tests and those of their absence: it is asked one of
both, so that nothing can be left out in silence."""


class _CommonExam(PutExam, ReadExam, CopyExam, ListExam, ListDirectoriesExam, DeleteExam, ConditionsExam):
    """What every store is asked."""

    without: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.without = tuple(part.name for part in PARTS if issubclass(cls, part.absent))

    async def test_store_says_who_it_is(self) -> None:
        capabilities = self.store.capabilities
        another = self.make_store("another")
        assert self.store.name
        assert self.store.bucket == self.make_store().bucket != another.bucket
        assert self.store.identity == self.make_store().identity != another.identity
        assert min(capabilities.bulk_delete_max, capabilities.list_page_max, capabilities.parts.size_min) >= 1

    def test_store_is_asked_what_it_says_that_it_can_do(self) -> None:
        for part in PARTS:
            if not part.concerns(self):
                assert not isinstance(self, (part.asked, part.absent)), part.name
                continue
            assert isinstance(self, part.asked) == part.has(self), f"{part.name}: the wrong tests are asked"
            assert isinstance(self, part.absent) != isinstance(self, part.asked), part.name


class StoreExam(
    _CommonExam, UploadsExam, CompleteIfAbsentApartExam, MetadataExam, NestedNamesExam, PutIfMatchExam
):
    """All of it. A subclass names its ``subject`` and gives ``make_store``, ``peek`` and ``poke``."""


class UnconditionalStoreExam(
    _CommonExam, UploadsExam, NoConditionalCompletesExam, MetadataExam, NestedNamesExam, PutIfMatchExam
):
    """The exam of a store whose uploads are completed whatever is there."""


class IgnoringStoreExam(
    _CommonExam,
    UploadsExam,
    IgnoredConditionalCompletesExam,
    MetadataExam,
    NestedNamesExam,
    RefusedPutIfMatchExam,
):
    """The exam of a service that speaks S3 and knows no other condition than that nothing is there."""


class PlainFileStoreExam(_CommonExam, NoUploadsExam, NoMetadataExam, FileNamesExam, NoPutIfMatchExam):
    """The exam of a store of files that cannot delay an upload."""


class FileStoreExam(
    _CommonExam,
    UploadsExam,
    CompleteIfAbsentApartExam,
    FileUploadsExam,
    NoMetadataExam,
    FileNamesExam,
    NoPutIfMatchExam,
):
    """The exam of a store of files, which can do less."""


class BlockStoreExam(
    _CommonExam,
    AnyUploadsExam,
    CompleteIfAbsentExam,
    UploadsTogetherExam,
    MetadataExam,
    NestedNamesExam,
    PutIfMatchExam,
):
    """The exam of a store whose uploads of one key share its blocks."""
