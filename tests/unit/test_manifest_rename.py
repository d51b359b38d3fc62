"""The manifest committer's stages that rename and validate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from magicfs.committers.classic import Published
from magicfs.committers.manifest.rename import Pace, RenameFiles, ToRename, ValidateFiles
from magicfs.committers.manifest.spill import Spill, SpilledFile
from magicfs.errors import CommitFailed, CommitOutcomeUnknown, ObjectExists, StoreError, Unavailable
from magicfs.protocol.readback import Outcome
from magicfs.protocol.steps import Rename
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.manifest_scene import Driver, ManifestScene

MANY = 100


@pytest.fixture
def scene(tmp_path: Path) -> ManifestScene:
    made = ManifestScene(tmp_path)
    made.set_up()
    return made


def spilled(scene: ManifestScene, driver: Driver, names: list[str]) -> list[SpilledFile]:
    """What a load stage would make of one task's files."""
    attempt = scene.write(0, {name: name.encode() for name in names})
    tree, root = driver.config().tree, str(scene.destination)[1:]
    work = str(scene.work_directory(attempt))[1:]

    async def look() -> list[SpilledFile]:
        found = []
        for name in names:
            entry = await tree.look(f"{work}/{name}")
            assert entry is not None
            found.append(SpilledFile(f"{root}/{name}", entry.path, entry.size, entry.etag, "t"))
        return found

    return scene.run(look())


def with_spill(scene: ManifestScene, files: list[SpilledFile], work: Callable[[Spill], Any]) -> Any:
    async def run() -> Any:
        async with Spill(4) as spill:
            await spill.put(files)
            await spill.finish()
            return await work(spill)

    return asyncio.run(run())


def rename(scene: ManifestScene, driver: Driver, files: list[SpilledFile], created: Any = ()) -> Published:
    config = driver.config()
    result: Published = with_spill(
        scene, files, lambda spill: RenameFiles(config).run(ToRename(spill, len(files), created))
    )
    return result


def many(count: int = MANY) -> list[str]:
    return [f"part-{number:03d}" for number in range(count)]


def test_every_file_is_renamed_and_told(scene: ManifestScene) -> None:
    driver = scene.driver()
    files = spilled(scene, driver, many())
    published = rename(scene, driver, files)
    assert (published.files, published.bytes, len(published.keys)) == (MANY, MANY * 8, 100)
    assert set(scene.visible()) == set(many())
    assert {event.step for event in driver.told} == {
        Rename(one.source, one.key, one.size, one.etag) for one in files
    }
    assert {(event.batch, event.outcome) for event in driver.told} == {("rename", Outcome.DONE)}


def test_145_one_failure_of_a_hundred_stops_and_drains(scene: ManifestScene) -> None:
    driver = scene.driver(Fault(Kind.ERROR_BEFORE, operation="rename", skip=40))
    files = spilled(scene, driver, many())
    with pytest.raises(CommitOutcomeUnknown, match=r"of 100 files .* are published and stay") as caught:
        rename(scene, driver, files)
    error = caught.value
    assert 40 <= len(error.done) < MANY
    assert len(error.failed) == 1
    assert sorted([*error.done, *error.failed, *error.not_started]) == sorted(one.key for one in files)
    root = str(scene.destination)[1:]
    assert {f"{root}/{name}" for name in scene.visible()} == set(error.done)
    outcomes = [event.outcome for event in driver.told]
    assert outcomes.count(Outcome.UNKNOWN) == 1
    assert outcomes.count(Outcome.DONE) == len(error.done)
    assert isinstance(error.__cause__, Unavailable)


def test_145_what_waits_for_its_turn_when_another_fails_is_not_tried(scene: ManifestScene) -> None:
    driver = scene.driver()
    files = spilled(scene, driver, many(4))
    (scene.destination / "part-000" / "in the way").mkdir(parents=True)
    stage = RenameFiles(driver.config())

    async def wait() -> float:
        turns.append(1)
        if len(turns) > 1:
            await failed.wait()
        return 0.0

    async def work(spill: Spill) -> Published:
        nonlocal failed
        failed = asyncio.Event()
        return await stage.run(ToRename(spill, 4, ()))

    turns: list[int] = []
    failed = asyncio.Event()
    stage._pace.wait = wait  # type: ignore[method-assign]
    stage.config.tell = lambda event: failed.set()
    with pytest.raises(CommitFailed, match="0 of 4 files") as caught:
        with_spill(scene, files, work)
    assert caught.value.not_started == tuple(one.key for one in files[1:])
    assert len(turns) == 4
    assert driver.operations("rename") == [files[0].source]


def test_145_the_failure_is_counted(scene: ManifestScene) -> None:
    driver = scene.driver(Fault(Kind.ERROR_BEFORE, operation="rename"))
    config, files = driver.config(), spilled(scene, driver, ["a"])
    with pytest.raises(CommitOutcomeUnknown):
        with_spill(scene, files, lambda spill: RenameFiles(config).run(ToRename(spill, 1, ())))
    assert (
        config.counts["commit_file_rename.failures"] == config.counts["job_stage_rename_files.failures"] == 1
    )


def test_146_a_refused_rename_says_what_could_not_go_where(scene: ManifestScene) -> None:
    driver = scene.driver()
    files = spilled(scene, driver, ["a"])
    (scene.destination / "a" / "below").mkdir(parents=True)
    with pytest.raises(CommitFailed, match="dest/a could not be renamed") as caught:
        rename(scene, driver, files)
    assert isinstance(caught.value.__cause__, ObjectExists)
    assert f"Failed to rename {files[0].source} to {files[0].key}" in caught.value.__cause__.__notes__
    assert (scene.work_directory("attempt-000000-0") / "a").exists()


@pytest.mark.parametrize("there", [False, True])
def test_147_a_missing_source_is_never_found(scene: ManifestScene, there: bool) -> None:
    driver = scene.driver()
    files = spilled(scene, driver, ["a"])
    (scene.work_directory("attempt-000000-0") / "a").unlink()
    if there:
        (scene.destination / "a").write_bytes(b"a")  # of the same content even, but not the task's
    with pytest.raises(CommitFailed) as caught:
        rename(scene, driver, files)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_147_a_missing_source_without_an_etag_is_never_found(scene: ManifestScene) -> None:
    driver = scene.driver()
    (one,) = spilled(scene, driver, ["a"])
    (scene.work_directory("attempt-000000-0") / "a").rename(scene.destination / "a")
    with pytest.raises(CommitFailed):
        rename(scene, driver, [SpilledFile(one.key, one.source, one.size, "", "t")])


def test_148_an_existing_target_is_replaced_by_a_rename(scene: ManifestScene) -> None:
    driver = scene.driver()
    files = spilled(scene, driver, ["a"])
    (scene.destination / "a").write_bytes(b"old")
    rename(scene, driver, files)
    assert scene.visible() == {"a": b"a"}
    assert not driver.operations("delete")


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_148_existing_targets_are_deleted_first_if_asked_for(tmp_path: Path, kind: str) -> None:
    scene = ManifestScene(tmp_path, delete_target_files=True)
    scene.set_up()
    driver = scene.driver()
    files = spilled(scene, driver, ["a", "new"])
    if kind == "file":
        (scene.destination / "a").write_bytes(b"old")
    else:
        (scene.destination / "a" / "below").mkdir(parents=True)
    rename(scene, driver, files)
    assert scene.visible() == {"a": b"a", "new": b"new"}
    operation = "delete" if kind == "file" else "delete_tree"
    assert driver.operations(operation) == [files[0].key]


def test_148_targets_in_directories_of_the_job_are_not_looked_at(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path, delete_target_files=True)
    scene.set_up()
    driver = scene.driver()
    files = spilled(scene, driver, ["d/a"])
    (scene.destination / "d").mkdir()
    before = len(driver.traffic.log)
    rename(scene, driver, files, created={f"{scene.destination}/d"[1:]})
    assert [request.operation for request in driver.traffic.log[before:]] == ["rename"]


def test_148_a_file_that_is_renamed_already_is_never_deleted(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path, delete_target_files=True)
    scene.set_up()
    driver = scene.driver()
    files = spilled(scene, driver, ["a"])
    rename(scene, driver, files)
    again = scene.driver()
    rename(scene, again, files)
    assert scene.visible() == {"a": b"a"}
    assert not again.operations("delete")


def test_148_a_lost_reply_is_recovered_by_the_etag(scene: ManifestScene) -> None:
    driver = scene.driver(Fault(Kind.REPLY_LOST, operation="rename", skip=3, times=2))
    config, files = driver.config(), spilled(scene, driver, many(10))
    published = with_spill(scene, files, lambda spill: RenameFiles(config).run(ToRename(spill, 10, ())))
    assert published.files == len(scene.visible()) == 10
    assert config.counts["commit_file_rename_recovered"] == 2
    assert {event.outcome for event in driver.told} == {Outcome.DONE}


def test_148_a_lost_reply_is_not_recovered_if_nobody_can_look(scene: ManifestScene) -> None:
    driver = scene.driver(Fault(Kind.REPLY_LOST, operation="rename"))
    files = spilled(scene, driver, ["a"])
    broken = Fault(Kind.ERROR_BEFORE, operation="look", times=None)
    driver.traffic._armed += scene.driver(broken).traffic._armed
    with pytest.raises(CommitOutcomeUnknown) as caught:
        rename(scene, driver, files)
    assert "looking for" in str(caught.value.__cause__.__notes__)


def test_148_a_second_job_commit_recovers_every_rename_of_the_first(scene: ManifestScene) -> None:
    driver = scene.driver()
    config, files = driver.config(), spilled(scene, driver, many(10))
    rename(scene, driver, files)
    published = with_spill(scene, files, lambda spill: RenameFiles(config).run(ToRename(spill, 10, ())))
    assert published.files == config.counts["commit_file_rename_recovered"] == 10


def test_a_directory_that_somebody_removed_is_made_again(scene: ManifestScene) -> None:
    driver = scene.driver()
    files = spilled(scene, driver, ["d/e/a"])
    rename(scene, driver, files)
    assert scene.visible() == {"d/e/a": b"d/e/a"}


def test_many_failures_are_told_together(tmp_path: Path) -> None:
    scene = ManifestScene(tmp_path, concurrency=8)
    scene.set_up()
    driver = scene.driver(Fault(Kind.ERROR_BEFORE, operation="rename", times=None))
    files = spilled(scene, driver, many(50))
    with pytest.raises(CommitOutcomeUnknown, match="0 of 50 files") as caught:
        rename(scene, driver, files)
    assert len(caught.value.failed) + len(caught.value.not_started) == 50
    assert len(caught.value.__notes__) == len(caught.value.failed) - 1
    assert not caught.value.done


def test_a_local_file_that_cannot_be_read_on_fails_the_job(scene: ManifestScene) -> None:
    driver = scene.driver()
    files = spilled(scene, driver, ["a"])

    async def work(spill: Spill) -> Any:
        async def broken(*_: Any) -> Any:
            raise StoreError("write", "local", "disk I/O error")

        spill._ask = broken  # type: ignore[method-assign]
        return await RenameFiles(driver.config()).run(ToRename(spill, 1, ()))

    with pytest.raises(CommitFailed, match=r"the list of files could not be read: .* disk I/O error"):
        with_spill(scene, files, work)


# -- the rate --------------------------------------------------------------------------------------------


def test_the_pace_is_even_and_bounds_the_rate() -> None:
    now, waited = [0.0], []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        now[0] += seconds

    async def run(pace: Pace) -> None:
        for _ in range(5):
            await pace.wait()
        now[0] += 10
        await pace.wait()

    asyncio.run(run(Pace(4, lambda: now[0], sleep)))
    assert waited == [0.25] * 4, "and none after a rest"
    waited.clear()
    asyncio.run(run(Pace(0, lambda: now[0], sleep)))
    assert waited == []


def test_many_at_once_are_let_through_one_after_the_other() -> None:
    turns = []

    async def sleep(seconds: float) -> None:
        turns.append(seconds)

    async def run() -> None:
        pace = Pace(10, lambda: 0.0, sleep)
        await asyncio.gather(*(pace.wait() for _ in range(4)))

    asyncio.run(run())
    assert turns == pytest.approx([0.1, 0.2, 0.3])


def test_the_rate_of_renames_is_an_option_and_waiting_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = ManifestScene(tmp_path, renames_per_second=1000)
    scene.set_up()
    driver = scene.driver()
    config, files = driver.config(), spilled(scene, driver, many(10))
    with_spill(scene, files, lambda spill: RenameFiles(config).run(ToRename(spill, 10, ())))
    assert len(scene.visible()) == 10
    assert config.counts.statistics().meanstatistics["store_io_rate_limited.mean"].samples > 0


# -- validation ------------------------------------------------------------------------------------------


def validate(scene: ManifestScene, driver: Driver, files: list[SpilledFile]) -> int:
    config = driver.config()
    result: int = with_spill(scene, files, lambda spill: ValidateFiles(config).run(spill))
    return result


def test_136_validation_passes_what_was_renamed(scene: ManifestScene) -> None:
    driver = scene.driver()
    files = spilled(scene, driver, many(10))
    rename(scene, driver, files)
    assert validate(scene, driver, files) == 10


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda path: path.unlink(), "nothing is there"),
        (lambda path: (path.unlink(), path.mkdir()), "a directory is there"),
        (lambda path: path.write_bytes(b"longer than before"), "has 18 bytes, and had 1"),
        (lambda path: (path.unlink(), path.write_bytes(b"x")), "its ETag is"),
        (lambda path: path.rename(path.with_name("another name")), "nothing is there"),
    ],
)
def test_136_validation_fails_what_was_changed(scene: ManifestScene, change: Any, problem: str) -> None:
    driver = scene.driver()
    files = spilled(scene, driver, ["a", "b"])
    rename(scene, driver, files)
    change(scene.destination / "a")
    with pytest.raises(CommitFailed, match=problem) as caught:
        validate(scene, driver, files)
    assert caught.value.failed == (files[0].key,)
