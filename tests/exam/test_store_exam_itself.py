"""The exam finds broken stores, deviations that have ended, and exams that did not take place."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from magicfs.errors import MagicError, ObjectExists, ObjectNotFound, PreconditionFailed, UploadNotFound
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Body, Capabilities, ObjectInfo, Part, UploadInfo, Uploads
from magicfs.testing.store_exam import Deviation
from magicfs.testing.store_exam.suite import PARTS, PlainFileStoreExam
from proofs.doubles.deviations import DEVIATIONS
from proofs.scenes.store_subjects import LocalStoreExam, MemoryStoreExam
from proofs.sides.wrong_sides import SIDE_MUTANTS

pytest_plugins = ["pytester"]


class ForgetsConditions(MemoryStore):
    async def put(self, key: str, body: Body, **conditions: Any) -> ObjectInfo:
        return await super().put(key, body, metadata=conditions.get("metadata"))


class ForgetsMetadata(MemoryStore):
    async def create_upload(self, key: str, *, metadata: Mapping[str, str], **options: Any) -> str:
        return await super().create_upload(key, metadata={}, **options)


class ForgetsOptions(MemoryStore):
    async def create_upload(self, key: str, *, metadata: Mapping[str, str], **_: Any) -> str:
        return await super().create_upload(key, metadata=metadata)


class TakesAnyOption(MemoryStore):
    async def create_upload(self, key: str, *, metadata: Mapping[str, str], **options: Any) -> str:
        known = {
            n: one for n, one in (options["options"] or {}).items() if n in self.capabilities.uploads.options
        }
        return await super().create_upload(key, metadata=metadata, options=known)


class ReadsRangesOfAnyObject(MemoryStore):
    async def get_range(self, key: str, start: int, size: int, *, etag: str) -> bytes:
        return (await self.get(key))[start : start + size]


class ReadsRangesWithTheirEnd(MemoryStore):
    async def get_range(self, key: str, start: int, size: int, *, etag: str) -> bytes:
        return await super().get_range(key, start, size + 1, etag=etag)


class TellsChecksumsOfAnyObject(MemoryStore):
    async def checksums(self, key: str, *, etag: str) -> Mapping[str, str]:
        await self.head(key)
        return {}


class TellsChecksumsOfParts(MemoryStore):
    async def checksums(self, key: str, *, etag: str) -> Mapping[str, str]:
        return {**await super().checksums(key, etag=etag), "CRC32": "AAAAAA=="}


class KeepsTheFirstPart(MemoryStore):
    async def put_part(self, key: str, upload_id: str, number: int, body: Body) -> Part:
        upload = self.upload("put_part", key, upload_id)
        return await super().put_part(key, upload_id, number, upload.parts.get(number, body))


class CompletesEverything(MemoryStore):
    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], **options: Any
    ) -> ObjectInfo:
        upload = self.upload("complete_upload", key, upload_id)
        everything = [await self.put_part(key, upload_id, n, b) for n, b in sorted(upload.parts.items())]
        return await super().complete_upload(key, upload_id, everything, **options)


class CompletesForgottenUploads(MemoryStore):
    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], **options: Any
    ) -> ObjectInfo:
        try:
            return await super().complete_upload(key, upload_id, parts, **options)
        except UploadNotFound:
            return await self.put(key, b"body")


class AbortsByKey(MemoryStore):
    async def abort_upload(self, key: str, upload_id: str) -> None:
        for info in [info async for info in self.list_uploads(key)]:
            await super().abort_upload(info.key, info.upload_id)


class AbortsOnlyOnce(MemoryStore):
    async def abort_upload(self, key: str, upload_id: str) -> None:
        self.upload("abort_upload", key, upload_id)
        await super().abort_upload(key, upload_id)


class ListsOnePage(MemoryStore):
    async def list_uploads(self, prefix: str) -> AsyncIterator[UploadInfo]:
        found = [info async for info in super().list_uploads(prefix)]
        for info in found[:1000]:
            yield info

    async def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:
        async for info in super().list(prefix, limit=min(limit or 1000, 1000)):
            yield info


class ListsDirectories(MemoryStore):
    async def list(self, prefix: str, *, limit: int | None = None) -> AsyncIterator[ObjectInfo]:
        directory = prefix if not prefix or prefix.endswith("/") else f"{prefix}/"
        async for info in super().list(directory, limit=limit):
            yield info


class DeletesByPrefix(MemoryStore):
    async def delete(self, keys: Sequence[str]) -> None:
        below = [info.key for key in keys async for info in self.list(key)]
        await super().delete(below[: self.capabilities.bulk_delete_max])


class DecodesKeys(MemoryStore):
    async def put(self, key: str, body: Body, **options: Any) -> ObjectInfo:
        plain = key.replace("%2F", "/").replace("+", " ")
        info = await super().put(plain, body, **options)
        return dataclasses.replace(info, key=key)


class ReadsWhole(MemoryStore):
    async def get(self, key: str, *, size_max: int | None = None) -> bytes:
        return await super().get(key)


class CreatesBuckets(MemoryStore):
    def __init__(self, bucket: str, world: World) -> None:
        super().__init__(bucket, world)
        world.create_bucket(bucket)


class Lax(MemoryStore):
    """Ignores conditions without a word."""

    ignores = "put_if_absent", "put_if_match", "delete", "bulk_delete", "complete_if_absent"

    def __init__(self, bucket: str, world: World) -> None:
        super().__init__(bucket, world)
        world.ignores = frozenset(self.ignores)


class DeletesWhatIsMissingWithAnError(MemoryStore):
    async def delete_matching(self, key: str, etag: str) -> None:
        await self.head(key)
        await super().delete_matching(key, etag)

    async def delete_all_matching(self, objects: Sequence[tuple[str, str]]) -> list[str]:
        left = await super().delete_all_matching(objects)
        return left or [key for key, _ in objects if key.startswith("missing")]


class DeletesNothingIfOneIsAnother(MemoryStore):
    async def delete_all_matching(self, objects: Sequence[tuple[str, str]]) -> list[str]:
        contents = self.contents("delete_all_matching", "")
        left = [k for k, etag in objects if k in contents.objects and not self._holds(contents, k, etag)]
        return left or await super().delete_all_matching(objects)


class ComparesBodies(MemoryStore):
    """Takes its own bytes for its own object, as a careless read-back does."""

    async def put(self, key: str, body: Body, **options: Any) -> ObjectInfo:
        try:
            return await super().put(key, body, **options)
        except (ObjectExists, PreconditionFailed):
            if await self.get(key) != bytes(body):
                raise
            return await self.head(key)


class DropsRefusedUploads(MemoryStore):
    async def complete_upload(
        self, key: str, upload_id: str, parts: Sequence[Part], **options: Any
    ) -> ObjectInfo:
        try:
            return await super().complete_upload(key, upload_id, parts, **options)
        except ObjectExists:
            await self.abort_upload(key, upload_id)
            raise


class CopiesWithoutMetadata(MemoryStore):
    async def copy(self, source: str, destination: str, **how: Any) -> int:
        return (await self.put(destination, await self.get(source))).size


class CopiesByMoving(MemoryStore):
    async def copy(self, source: str, destination: str, **how: Any) -> int:
        copied = await super().copy(source, destination, **how)
        await self.delete([source])
        return copied


class CopiesAnyObject(MemoryStore):
    async def copy(self, source: str, destination: str, **how: Any) -> int:
        return await super().copy(source, destination, **how | {"etag": ""})


class CopiesOnlyWhereNothingIs(MemoryStore):
    async def copy(self, source: str, destination: str, **how: Any) -> int:
        try:
            return (await self.head(destination)).size
        except ObjectNotFound:
            return await super().copy(source, destination, **how)


class CopiesWhatIsMissing(MemoryStore):
    async def copy(self, source: str, destination: str, **how: Any) -> int:
        try:
            return await super().copy(source, destination, **how)
        except ObjectNotFound:
            await self.delete([destination])
            return 0


class CopiesWithoutCounting(MemoryStore):
    async def copy(self, source: str, destination: str, **how: Any) -> int:
        await super().copy(source, destination, **how)
        return 0


class CopiesPieceByPiece(MemoryStore):
    async def copy(self, source: str, destination: str, **how: Any) -> int:
        body = await self.get(source)
        for end in (len(body) // 2, len(body)):
            await self.put(destination, body[:end])
            await asyncio.sleep(0)
        return len(body)


class SaysThatItHasNoUploads(MemoryStore):
    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(super().capabilities, uploads=Uploads(delayed=False))


class SaysThatUploadsShareTheirKey(MemoryStore):
    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(super().capabilities, uploads=Uploads(apart=False))


class SaysThatItsNamesAreFiles(MemoryStore):
    @property
    def capabilities(self) -> Capabilities:
        return dataclasses.replace(super().capabilities, directories=True)


class IsEverywhereTheSame(MemoryStore):
    @property
    def identity(self) -> str:
        return "memory"


def exam_of(examined: type[MemoryStore], name: str = "memory") -> MemoryStoreExam:
    class Exam(MemoryStoreExam):
        subject = name
        kind = examined

    return Exam()


@pytest.mark.parametrize(
    ("kind", "tests"),
    [
        (
            ForgetsConditions,
            ["second_put_if_absent_meets_its_own_object", "race_of_puts_if_absent_has_one_winner"],
        ),
        (ForgetsMetadata, ["complete_replaces_the_object_and_its_metadata"]),
        (KeepsTheFirstPart, ["part_sent_again_replaces_the_first"]),
        (CompletesEverything, ["complete_takes_exactly_the_parts_that_it_names"]),
        (
            CompletesForgottenUploads,
            [
                "complete_after_abort_is_upload_not_found",
                "second_complete_does_not_undo_a_later_write",
                "second_complete_does_not_undo_a_later_delete",
                "complete_under_another_key_is_upload_not_found",
            ],
        ),
        (AbortsByKey, ["second_create_opens_an_independent_upload", "second_abort_does_nothing"]),
        (AbortsOnlyOnce, ["second_abort_does_nothing", "abort_after_complete_leaves_the_object"]),
        (
            ListsOnePage,
            [
                "more_uploads_than_a_page_holds_are_all_listed",
                "more_objects_than_a_page_holds_are_all_listed",
            ],
        ),
        (ListsDirectories, ["objects_are_found_by_any_beginning_of_their_keys"]),
        (DeletesByPrefix, ["deleted_objects_are_gone_and_their_neighbours_are_not"]),
        (DecodesKeys, ["hostile_keys_live_side_by_side"]),
        (ReadsWhole, ["get_with_a_size_returns_at_most_so_many_first_bytes"]),
        (
            Lax,
            [
                "put_if_absent_onto_an_object_changes_nothing",
                "put_if_match_onto_another_object_changes_nothing",
                "put_if_match_where_nothing_is_writes_nothing",
                "second_put_if_match_meets_its_own_object",
                "race_of_puts_if_match_has_one_winner",
                "delete_matching_leaves_another_object",
                "delete_all_matching_leaves_other_objects_and_names_them",
                "complete_if_absent_onto_an_object_leaves_it_and_the_upload",
                "completes_if_absent_one_after_the_other_have_one_winner",
                "conditions_are_found_out_and_nothing_is_left",
                "objects_are_removed_by_etag_with_what_the_store_honours",
            ],
        ),
        (
            DeletesWhatIsMissingWithAnError,
            [
                "second_delete_matching_does_nothing",
                "missing_object_with_objects_below_its_key_counts_as_deleted",
            ],
        ),
        (
            DeletesNothingIfOneIsAnother,
            [
                "delete_all_matching_leaves_other_objects_and_names_them",
                "objects_are_removed_by_etag_with_what_the_store_honours",
            ],
        ),
        (
            ComparesBodies,
            ["second_put_if_absent_meets_its_own_object", "second_put_if_match_meets_its_own_object"],
        ),
        (DropsRefusedUploads, ["complete_if_absent_onto_an_object_leaves_it_and_the_upload"]),
        (
            CopiesWithoutMetadata,
            ["copy_keeps_the_metadata_and_replaces_what_was_there", "copy_onto_itself_changes_nothing"],
        ),
        (ForgetsOptions, ["upload_brings_metadata_and_what_describes_its_content"]),
        (TakesAnyOption, ["upload_takes_no_option_of_another_name"]),
        (ReadsRangesOfAnyObject, ["range_of_another_object_is_not_read"]),
        (ReadsRangesWithTheirEnd, ["range_of_the_object_of_that_etag_is_read"]),
        (TellsChecksumsOfAnyObject, ["checksums_of_another_object_are_not_told"]),
        (TellsChecksumsOfParts, ["checksums_that_are_told_are_those_of_all_bytes"]),
        (CopiesByMoving, ["copy_holds_the_content_and_the_source_stays"]),
        (CopiesAnyObject, ["copy_of_an_etag_is_of_that_object_or_changes_nothing"]),
        (CopiesOnlyWhereNothingIs, ["second_copy_does_the_same_again"]),
        (CopiesWithoutCounting, ["copy_holds_the_content_and_the_source_stays"]),
        (CopiesPieceByPiece, ["copy_is_never_seen_in_part"]),
        (SaysThatItHasNoUploads, ["store_is_asked_what_it_says_that_it_can_do"]),
        (SaysThatUploadsShareTheirKey, ["store_is_asked_what_it_says_that_it_can_do"]),
        (SaysThatItsNamesAreFiles, ["store_is_asked_what_it_says_that_it_can_do"]),
        (IsEverywhereTheSame, ["store_says_who_it_is"]),
        (CreatesBuckets, ["create_in_an_unknown_bucket_is_object_not_found"]),
    ],
)
def test_store_that_breaks_the_contract_fails_the_exam(kind: type[MemoryStore], tests: list[str]) -> None:
    for test in tests:
        getattr(exam_of(MemoryStore), f"test_{test}")()
        with pytest.raises((AssertionError, MagicError, KeyError, pytest.fail.Exception)):
            getattr(exam_of(kind), f"test_{test}")()


def test_copy_of_a_missing_source_that_succeeds_fails_the_exam() -> None:
    with pytest.raises(pytest.fail.Exception):
        exam_of(CopiesWhatIsMissing).test_copy_of_what_is_not_there_is_object_not_found_and_changes_nothing(  # type: ignore[unused-coroutine]
            "missing"
        )


@pytest.mark.parametrize(
    "test",
    [
        "what_dead_writers_have_left_hides_no_object",
        "more_objects_than_a_page_holds_are_all_listed",
        "more_directories_than_a_page_holds_are_all_listed",
    ],
)
def test_local_files_that_dead_writers_hide_fail_the_exam(tmp_path: Path, test: str) -> None:
    class Exam(LocalStoreExam):
        subject = "local"

    [mutant] = (one for one in SIDE_MUTANTS if one.check == "crowded")
    for name in ("sound", "wrong"):
        exam = Exam()
        exam.directory = tmp_path / name
        exam.directory.mkdir()
        asked = getattr(exam, f"test_{test}")
        if name == "sound":
            asked()
            continue
        with mutant.wrong(), pytest.raises(AssertionError):
            asked()


def test_part_of_the_exam_cannot_be_left_out_in_silence() -> None:
    class Shorter(PlainFileStoreExam):
        subject = "shorter"
        make_store = MemoryStoreExam.make_store
        peek = MemoryStoreExam.peek
        poke = MemoryStoreExam.poke
        world = MemoryStoreExam.world
        kind = MemoryStore

    for part in PARTS:
        assert part.name in Shorter.without or part.name == "uploads apart"  # which are uploads, too
        assert part.name not in MemoryStoreExam.without
    with pytest.raises(AssertionError, match="uploads: the wrong tests are asked"):
        Shorter().test_store_is_asked_what_it_says_that_it_can_do()


def deviating(monkeypatch: pytest.MonkeyPatch, test: str, seen: str, always: bool = True) -> None:
    row = Deviation(f"test_{test}", "tried", "does it otherwise", seen, always)
    monkeypatch.setattr("proofs.doubles.deviations.DEVIATIONS", {"tried": (row,)})


def test_stated_deviation_that_is_there_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    deviating(monkeypatch, "second_put_if_absent_meets_its_own_object", "DID NOT RAISE")
    exam_of(ForgetsConditions, "tried").test_second_put_if_absent_meets_its_own_object()


def test_stated_deviation_that_is_gone_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    deviating(monkeypatch, "second_put_if_absent_meets_its_own_object", "DID NOT RAISE")
    with pytest.raises(pytest.fail.Exception, match="tried passes now: remove the row"):
        exam_of(MemoryStore, "tried").test_second_put_if_absent_meets_its_own_object()


@pytest.mark.parametrize("kind", [MemoryStore, ForgetsConditions])
def test_deviation_that_is_there_at_times_passes_either_way(
    monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    deviating(monkeypatch, "second_put_if_absent_meets_its_own_object", "DID NOT RAISE", always=False)
    exam_of(kind, "tried").test_second_put_if_absent_meets_its_own_object()


def test_stated_deviation_that_looks_otherwise_fails_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    deviating(monkeypatch, "second_put_if_absent_meets_its_own_object", "Unavailable: put")
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        exam_of(ForgetsConditions, "tried").test_second_put_if_absent_meets_its_own_object()


def test_deviation_of_a_test_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    deviating(monkeypatch, "that_was_renamed", "")
    with pytest.raises(TypeError, match="test_that_was_renamed"):
        exam_of(MemoryStore, "tried")


def test_tables_name_their_own_server_and_never_the_definition() -> None:
    for server, rows in DEVIATIONS.items():
        assert {row.server for row in rows} <= {server}
        assert len({row.test for row in rows}) == len(rows)
    assert "memory" not in DEVIATIONS


EXAM = """
import pytest
from proofs.scenes.store_subjects import LocalStoreExam, MemoryStoreExam

class Troubled(MemoryStoreExam):
    @pytest.fixture(autouse=True)
    def _trouble(self, request):
        if request.node.name == "test_delete_of_no_keys_does_nothing" and "skipped" in self.subject:
            pytest.skip("no server")
        yield
        if request.node.name == "test_second_delete_does_nothing" and "failed" in self.subject:
            raise ValueError("in the teardown")

class TestMine(Troubled):
    subject = "mine"

class TestLocal(LocalStoreExam):
    subject = "local"

class TestSkipped(Troubled):
    subject = "skipped"
    required = {required}
"""


def outcome(pytester: pytest.Pytester, code: str) -> tuple[int, str]:
    pytester.makepyfile(code)
    chosen = "test_delete_of_no_keys_does_nothing or test_second_delete_does_nothing"
    arguments = ("-p", "magicfs.testing.exam_summary", "-p", "no:randomly", "-k", chosen, "-q")
    result = pytester.runpytest_inprocess(*arguments)
    return int(result.ret), str(result.stdout)


def test_summary_counts_what_each_subject_did_and_names_what_it_does_not_have(
    pytester: pytest.Pytester,
) -> None:
    status, told = outcome(pytester, EXAM.format(required=False))
    assert status == 0
    assert "store exam: mine: 2 collected, 2 passed, 0 failed, 0 skipped\n" in told
    assert "store exam: skipped: 2 collected, 1 passed, 0 failed, 1 skipped\n" in told
    assert "0 failed, 0 skipped (has no metadata, no names below names, no If-Match)" in told
    assert "is required" not in told


def test_skip_of_a_required_subject_fails_the_run(pytester: pytest.Pytester) -> None:
    status, told = outcome(pytester, EXAM.format(required=True))
    assert status == 1
    assert "the store exam of skipped is required and was skipped in part" in told


def test_failure_after_a_test_counts_as_its_failure(pytester: pytest.Pytester) -> None:
    broken = '\n\nclass TestFailed(Troubled):\n    subject = "failed"\n'
    status, told = outcome(pytester, EXAM.format(required=False) + broken)
    assert status == 1
    assert "store exam: failed: 2 collected, 1 passed, 1 failed, 0 skipped" in told
