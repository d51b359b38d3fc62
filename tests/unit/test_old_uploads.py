"""Jobs that commit long after their tasks, when a lifecycle rule may have aborted their uploads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

import magicfs
from magicfs.errors import CommitFailed, PermissionDenied
from magicfs.stores.memory.store import MemoryStore
from magicfs.stores.port import UploadInfo, Uploads
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Request
from magicfs.transaction import prepare
from magicfs.transaction.record import now_ms
from proofs.scenes.job_scene import JobScene

FILES = {"day=1 é/a b%.txt": b"new", "day=2/c+#.txt": b"new"}
HOUR_MS = 3600 * 1000


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


@pytest.fixture
def next_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "now_ms", lambda: now_ms() + 25 * HOUR_MS)


def expire(scene: JobScene, part: str) -> None:
    """What a lifecycle rule does."""
    for key, upload_id in scene.uploads():
        if part in key:
            asyncio.run(scene.plain.abort_upload(key, upload_id))


def requests_of(scene: JobScene, job: magicfs.Job, commits: Any) -> list[str]:
    """The operations of a commit, up to the first file that becomes visible."""
    seen: list[str] = []

    def look(request: Request) -> None:
        seen.append(request.operation)

    scene.commit(job, commits, traffic=Traffic(before=look))
    return seen[: seen.index("complete_upload")]


@pytest.mark.usefixtures("next_day")
@pytest.mark.parametrize("unique_names", [True, False])
@pytest.mark.parametrize("mode", ["append", "error", "overwrite", "overwrite_partitions"])
def test_uploads_that_expired_are_named_before_anything_is_visible(
    scene: JobScene, mode: str, unique_names: bool
) -> None:
    if mode.startswith("overwrite"):
        scene.published(FILES, unique_names=False)
    before = scene.data()
    job = scene.job(mode, unique_names=unique_names)
    commits = scene.wrote(job, FILES)
    expire(scene, "day=2")
    seen: list[str] = []

    def look(request: Request) -> None:
        seen.append(request.operation)

    with pytest.raises(
        CommitFailed, match=r"1 of 2 uploads .* of sales/day=2/c\+#.* 25 hours ago.*nothing was"
    ):
        scene.commit(job, commits, traffic=Traffic(before=look))
    assert "complete_upload" not in seen
    assert scene.data() == before
    assert scene.state(job) == "open"
    job.abort()
    assert (scene.data(), scene.work(), scene.uploads()) == (before, [], [])


@pytest.mark.usefixtures("next_day")
def test_an_old_job_whose_uploads_are_there_is_published(scene: JobScene) -> None:
    job = scene.job()
    commits = scene.wrote(job, FILES)
    assert requests_of(scene, job, commits).count("list_uploads") == 1
    assert len(scene.data()) == 2


def test_a_young_job_does_not_look(scene: JobScene) -> None:
    job = scene.job()
    assert "list_uploads" not in requests_of(scene, job, scene.wrote(job, FILES))


@pytest.mark.usefixtures("next_day")
def test_where_uploads_may_not_be_listed_the_report_says_so(scene: JobScene) -> None:
    job = scene.job()

    def deny(request: Request) -> None:
        if request.operation == "list_uploads":
            raise PermissionDenied("list_uploads", request.key, "AccessDenied")

    report = scene.commit(job, scene.wrote(job, FILES), traffic=Traffic(before=deny))
    assert report is not None
    assert report.files == 2
    assert "up to 25 hours ago" in report.warnings[0]
    assert "could not be listed" in report.warnings[0]


@pytest.mark.usefixtures("next_day")
def test_a_server_that_lists_one_page_of_uploads_refuses_no_job(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = scene.job()
    commits = scene.wrote(job, FILES)
    listed = MemoryStore.list_uploads

    async def one_page(store: MemoryStore, prefix: str) -> AsyncIterator[UploadInfo]:
        async for upload in listed(store, prefix):
            yield upload
            return

    monkeypatch.setattr(MemoryStore, "list_uploads", one_page)
    world = scene.plain.world
    monkeypatch.setattr(world, "capabilities", replace(world.capabilities, list_page_max=1))
    report = scene.commit(job, commits)
    assert report is not None
    assert any("listed one page of uploads" in warning for warning in report.warnings)
    assert len(scene.data()) == len(FILES)


def kept_seven_days(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch, *, hours: float, apart: bool = True
) -> None:
    world = scene.plain.world
    changed = replace(world.capabilities, uploads=Uploads(days=7, apart=apart))
    monkeypatch.setattr(world, "capabilities", changed)
    monkeypatch.setattr(prepare, "now_ms", lambda: now_ms() + int(hours * HOUR_MS))


@pytest.mark.parametrize(("hours", "warns"), [(119.9, False), (120, True), (155.9, True)])
def test_a_store_that_keeps_uploads_seven_days_warns_after_five(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch, hours: float, warns: bool
) -> None:
    job = scene.job()
    commits = scene.wrote(job, FILES)
    kept_seven_days(scene, monkeypatch, hours=hours)
    report = scene.commit(job, commits)
    assert report is not None
    said = [warning for warning in report.warnings if "keeps uploads for 7 days" in warning]
    assert len(said) == warns
    assert len(scene.data()) == len(FILES)


@pytest.mark.parametrize("mode", ["append", "error", "overwrite", "overwrite_partitions"])
def test_a_store_that_keeps_uploads_seven_days_refuses_after_six_and_a_half(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    if mode.startswith("overwrite"):
        scene.published(FILES)
    before = scene.data()
    job = scene.job(mode)
    commits = scene.wrote(job, FILES)
    kept_seven_days(scene, monkeypatch, hours=156.1)
    with pytest.raises(CommitFailed, match=r"2 uploads .* 156 hours ago.* 7 days; nothing was published"):
        scene.commit(job, commits)
    assert scene.data() == before
    assert scene.state(job) == "open"
    job.abort()
    assert (scene.data(), scene.work(), scene.uploads()) == (before, [], [])


@pytest.mark.parametrize("apart", [True, False])
def test_uploads_that_a_store_does_not_list_beside_objects_are_not_taken_for_gone(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    scene.published(FILES, unique_names=False)
    job = scene.job("overwrite", unique_names=False)
    commits = scene.wrote(job, FILES)
    kept_seven_days(scene, monkeypatch, hours=25, apart=apart)
    listed = MemoryStore.list_uploads
    there = {key for key, _ in scene.uploads()}

    async def beside_nothing(store: MemoryStore, prefix: str) -> AsyncIterator[UploadInfo]:
        async for upload in listed(store, prefix):
            if upload.key not in there:
                yield upload

    monkeypatch.setattr(MemoryStore, "list_uploads", beside_nothing)
    if apart:
        with pytest.raises(CommitFailed, match="2 of 2 uploads"):
            scene.commit(job, commits)
    else:
        scene.commit(job, commits)
        assert scene.state(job) is None
