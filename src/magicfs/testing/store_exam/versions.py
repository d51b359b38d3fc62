"""The exam of buckets that keep versions: each sentence of ``magicfs.stores.port`` as a test."""

from __future__ import annotations

from abc import abstractmethod
from typing import cast
from uuid import uuid4

import pytest

from magicfs.errors import MagicError, ObjectNotFound, StoreError
from magicfs.stores.port import UNVERSIONED, ObjectInfo, PutMode, Version, Versions, VersionStore
from magicfs.testing.store_exam.base import Examined, collected

_KEY = "dataset1/day=2026-01-01/part 0+%#ü.parquet"
_COPY = "dataset1/day=2026-01-01/part 0 copy.parquet"


class VersionsExam(Examined):
    """The exam of a store that lists versions. ``keep_versions`` is the third door of a subject."""

    exam = "versions exam"

    @abstractmethod
    def keep_versions(self) -> None:
        """Let the test's own bucket keep versions from now on."""

    @property
    def versions(self) -> Versions:
        """Those of the test's own bucket."""
        return cast("VersionStore", self.store).versions()

    async def written(self, body: bytes = b"0123456789", key: str = _KEY) -> ObjectInfo:
        """An object that came by an upload, as the files of jobs do."""
        upload_id, parts = await self.upload(key, body, **{"magicfs-write-id": "w-1"})
        return await self.store.complete_upload(key, upload_id, parts)

    async def all(self, prefix: str = "") -> list[Version]:
        """What a listing of versions shows."""
        return await collected(self.versions.list(prefix))

    async def test_only_asking_tells_whether_a_bucket_keeps_versions(self) -> None:
        assert self.store.capabilities.versions
        assert await self.versions.are_kept() is False
        self.keep_versions()
        assert await self.versions.are_kept() is True

    async def test_an_object_has_a_version_only_where_they_are_kept(self) -> None:
        put = await self.store.put("put", b"body")
        assert (put.version, (await self.written()).version, (await self.store.head(_KEY)).version) == (
            *("", "", ""),
        )
        self.keep_versions()
        put, done = await self.store.put("put", b"body"), await self.written()
        assert len({put.version, done.version, ""}) == 3
        assert (await self.store.head("put")).version == put.version
        assert (await self.store.head(_KEY)).version == done.version
        assert {one.version async for one in self.store.list("")} == {""}

    async def test_what_was_there_before_is_kept_without_an_id_of_its_own(self) -> None:
        self.poke("old", b"old")
        self.keep_versions()
        await self.store.delete(["old"])
        marker, old = await self.all()
        assert (marker.is_marker, old.version, old.size) == (True, UNVERSIONED, 3)

    async def test_a_deleted_object_is_read_by_its_version(self) -> None:
        self.keep_versions()
        done = await self.written()
        await self.store.delete([_KEY])
        assert (self.peek(_KEY), await self.listed()) == (None, [])
        head = await self.versions.head(_KEY, done.version)
        assert (head.key, head.size, head.etag.strip('"')) == (_KEY, 10, done.etag.strip('"'))
        assert (head.metadata["magicfs-write-id"], head.version) == ("w-1", done.version)
        assert await self.versions.get_range(_KEY, done.version, 0, 10) == b"0123456789"
        assert await self.versions.get_range(_KEY, done.version, 3, 4) == b"3456"
        assert await self.versions.get_range(_KEY, done.version, 8, 99) == b"89"

    async def test_an_object_that_was_written_over_is_read_by_its_version(self) -> None:
        self.keep_versions()
        first = await self.written(b"first")
        second = await self.store.put(_KEY, b"second", mode=PutMode.OVERWRITE)
        assert await self.versions.get_range(_KEY, first.version, 0, 9) == b"first"
        assert await self.versions.get_range(_KEY, second.version, 0, 9) == b"second"
        assert self.peek(_KEY) == b"second"

    @pytest.mark.parametrize("how", ["delete", "matching", "all matching"])
    async def test_every_way_to_delete_leaves_a_marker_above(self, how: str) -> None:
        self.keep_versions()
        done = await self.written()
        etag = (await self.store.head(_KEY)).etag
        match how:
            case "delete":
                await self.store.delete([_KEY])
            case "matching":
                await self.store.delete_matching(_KEY, etag)
            case _:
                assert await self.store.delete_all_matching([(_KEY, etag)]) == []
        marker, below = await self.all(_KEY)
        assert (marker.key, marker.is_marker, marker.is_latest) == (_KEY, True, True)
        assert (below.key, below.version, below.size) == (_KEY, done.version, 10)
        assert (below.is_marker, below.is_latest, below.etag.strip('"')) == (False, False, etag.strip('"'))

    async def test_what_is_no_version_of_an_object_is_object_not_found(self) -> None:
        self.keep_versions()
        done = await self.written()
        await self.store.delete([_KEY])
        marker = next(one for one in await self.all() if one.is_marker)
        for key, version in ((_KEY, marker.version), (_KEY, str(uuid4())), ("other", done.version)):
            with pytest.raises(ObjectNotFound):
                await self.versions.head(key, version)
            with pytest.raises(ObjectNotFound):
                await self.versions.get_range(key, version, 0, 1)

    async def test_a_version_is_copied_into_the_parts_of_an_upload(self) -> None:
        self.keep_versions()
        body = self.full_part(b"a") + b"end"
        done = await self.written(body)
        await self.store.delete([_KEY])
        upload_id = await self.store.create_upload(_COPY, metadata={"magicfs-write-id": "w-2"})
        source, size = (_KEY, done.version), len(body) - 3
        parts = [
            await self.versions.copy_part(_COPY, upload_id, 1, source, 0, size),
            await self.versions.copy_part(_COPY, upload_id, 2, source, 0, 3),
            await self.versions.copy_part(_COPY, upload_id, 2, source, size, 3),
        ]
        assert await self.listed() == []
        await self.store.complete_upload(_COPY, upload_id, [parts[0], parts[2]])
        assert await self.store.get(_COPY) == body
        assert (await self.store.head(_COPY)).metadata["magicfs-write-id"] == "w-2"
        assert self.peek(_KEY) is None

    async def test_what_is_there_now_is_copied_into_parts_without_a_version(self) -> None:
        await self.written(b"0123456789")
        upload_id = await self.store.create_upload(_COPY, metadata={})
        part = await self.versions.copy_part(_COPY, upload_id, 1, (_KEY, ""), 2, 5)
        await self.store.complete_upload(_COPY, upload_id, [part])
        assert await self.store.get(_COPY) == b"23456"

    async def test_a_version_that_is_gone_is_copied_by_nobody(self) -> None:
        self.keep_versions()
        await self.written()
        await self.store.delete([_KEY])
        marker = next(one for one in await self.all() if one.is_marker)
        upload_id = await self.store.create_upload(_COPY, metadata={})
        for version in (marker.version, str(uuid4())):
            with pytest.raises(ObjectNotFound):
                await self.versions.copy_part(_COPY, upload_id, 1, (_KEY, version), 0, 1)
        assert (await self.pending(), await self.listed()) == ({(_COPY, upload_id)}, [])

    async def test_versions_and_markers_are_deleted_by_id_for_good(self) -> None:
        self.keep_versions()
        first, second = await self.written(b"first"), await self.written(b"second")
        await self.store.delete([_KEY])
        marker = next(one for one in await self.all() if one.is_marker)
        for _ in range(2):
            await self.versions.delete([(_KEY, first.version)])
        assert [one.version for one in await self.all()] == [marker.version, second.version]
        with pytest.raises(ObjectNotFound):
            await self.versions.get_range(_KEY, first.version, 0, 1)
        await self.versions.delete([(_KEY, marker.version)])
        assert (self.peek(_KEY), (await self.store.head(_KEY)).version) == (b"second", second.version)
        await self.versions.delete([(_KEY, second.version)])
        assert (await self.all(), self.peek(_KEY)) == ([], None)
        await self.versions.delete([])

    async def test_versions_of_many_keys_are_listed_and_deleted(self) -> None:
        self.keep_versions()
        keys = sorted([*(f"d/{number:02d} ü%.bin" for number in range(12)), "dataset10/a", "dataset1/a"])
        for key in keys:
            await self.store.put(key, b"1")
            await self.store.put(key, b"22")
        await self.store.delete(keys)
        found = await self.all()
        assert [one.key for one in found] == [key for key in keys for _ in range(3)]
        assert [one.is_latest for one in found] == [True, False, False] * len(keys)
        assert {one.key for one in await self.all("dataset1/")} == {"dataset1/a"}
        await self.versions.delete([(one.key, one.version) for one in found])
        assert await self.all() == []

    async def test_too_many_at_once_are_refused_and_nothing_changes(self) -> None:
        self.keep_versions()
        done = await self.written()
        many = [(_KEY, done.version)] * (self.store.capabilities.bulk_delete_max + 1)
        with pytest.raises(StoreError, match="too many"):
            await self.versions.delete(many)
        assert self.peek(_KEY) == b"0123456789"

    async def test_unknown_buckets_are_object_not_found(self) -> None:
        versions = cast("VersionStore", self.unknown()).versions()
        for request in (versions.are_kept(), collected(versions.list("")), versions.head(_KEY, str(uuid4()))):
            with pytest.raises(MagicError) as raised:
                await request
            assert isinstance(raised.value, ObjectNotFound)
