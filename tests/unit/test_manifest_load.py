"""The manifest committer's loading of manifests, and the local file that their entries go into."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from magicfs.committers.manifest.directories import leaves_of
from magicfs.committers.manifest.load import Loaded, LoadManifests, ToLoad
from magicfs.committers.manifest.spill import LIST_LENGTH, Spill, SpilledFile
from magicfs.errors import CommitFailed, ObjectNotFound, ProtocolViolation, StoreError, UsageError
from magicfs.formats.task_manifest import DirectoryEntry, EntryStatus, FileEntry, TaskManifest
from magicfs.protocol import ids
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.manifest_scene import ManifestScene


@pytest.fixture
def scene(tmp_path: Path) -> ManifestScene:
    made = ManifestScene(tmp_path)
    made.set_up()
    return made


def lay(scene: ManifestScene, number: int, count: int, **changes: Any) -> TaskManifest:
    """Write a manifest of files that nobody has written."""
    places = scene.driver().config().places
    task = ids.task_id(number)
    attempt = ids.attempt_id(task, "0")
    work = places.layout.task_attempt_directory(attempt)
    given: dict[str, Any] = {
        "job_id": scene.job,
        "task_id": task,
        "attempt_id": attempt,
        "attempt_directory": places.uri(work),
        "files": tuple(
            FileEntry(
                places.uri(f"{work}/part-{one}"),
                places.uri(f"{places.destination}/part-{number}-{one}"),
                one,
                f'"{number:x}-{one:x}"',
            )
            for one in range(count)
        ),
    }
    manifest = TaskManifest(**given | changes)
    scene.manifest_path(number).write_bytes(manifest.to_bytes())
    return manifest


def partitions(scene: ManifestScene, count: int) -> tuple[DirectoryEntry, ...]:
    places = scene.driver().config().places
    return tuple(
        DirectoryEntry(places.uri(f"{places.destination}/d={one}"), EntryStatus.NOT_FOUND, 1)
        for one in range(count)
    )


def load(
    scene: ManifestScene, attempts: dict[Any, Any] | None = None, *faults: Fault
) -> tuple[Loaded, list[SpilledFile]]:
    config = scene.driver(*faults).config()

    async def run() -> tuple[Loaded, list[SpilledFile]]:
        async with Spill(config.options.writer_queue_capacity) as spill:
            loaded = await LoadManifests(config).run(ToLoad(config.places.open_manifests, attempts, spill))
            return loaded, [one async for one in spill.files()]

    return asyncio.run(run())


# -- loading ---------------------------------------------------------------------------------------------


def test_151_more_than_200_manifests(scene: ManifestScene) -> None:
    manifests = [lay(scene, number, 5, directories=partitions(scene, number % 7)) for number in range(210)]
    loaded, files = load(scene)
    assert (loaded.tasks, loaded.files) == (210, 1050)
    assert loaded.bytes == sum(one.size for one in manifests)
    assert {one.task for one in files} == {f"{number:06d}" for number in range(210)}
    assert len({one.key for one in files}) == len({one.number for one in files}) == 1050
    assert {key.rpartition("/")[2] for key in loaded.directories} == {f"d={one}" for one in range(6)}


@pytest.mark.slow
def test_151_memory_stays_flat(tmp_path: Path) -> None:
    """Ten times the files, in ten times the manifests: about as much memory, and far less than they take."""
    peaks = {}
    for manifests in (12, 120):
        scene = ManifestScene(tmp_path / str(manifests), concurrency=4, writer_queue_capacity=2)
        scene.set_up()
        for number in range(manifests):
            lay(scene, number, 100)
        config = scene.driver().config()

        async def run(config: Any = config) -> int:
            async with Spill(config.options.writer_queue_capacity) as spill:
                loaded = await LoadManifests(config).run(ToLoad(config.places.open_manifests, None, spill))
                found = 0
                async for _ in spill.files():
                    found += 1
                assert found == loaded.files
                assert await spill.written_twice() is None
                return found

        tracemalloc.start()
        assert asyncio.run(run()) == manifests * 100
        peaks[manifests] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    held_per_entry = 700  # bytes of a SpilledFile with its texts
    # How many manifests are read at once depends on the scheduler.
    assert peaks[120] < peaks[12] * 3
    assert peaks[120] < 120 * 100 * held_per_entry / 5


@pytest.mark.slow
def test_151_one_manifest_is_taken_apart_at_a_time(scene: ManifestScene) -> None:
    for number in range(8):
        lay(scene, number, 3 * LIST_LENGTH)
    config = scene.driver().config()
    inside: list[str] = []

    async def run() -> None:
        async with Spill(1) as spill:
            real = spill.put

            async def put(part: Any) -> None:
                inside.append(part[0].task)
                assert len(set(inside)) == 1
                await asyncio.sleep(0)
                await real(part)
                inside.remove(part[0].task)

            spill.put = put  # type: ignore[method-assign]
            loaded = await LoadManifests(config).run(ToLoad(config.places.open_manifests, None, spill))
            assert loaded.files == 24 * LIST_LENGTH

    asyncio.run(run())


def test_the_first_manifest_that_names_a_directory_tells_its_status(scene: ManifestScene) -> None:
    places = scene.driver().config().places
    for number, status in enumerate([EntryStatus.FILE, EntryStatus.DIR]):
        entry = DirectoryEntry(places.uri(f"{places.destination}/x"), status, 1)
        lay(scene, number, 1, directories=(entry,))
    scene.concurrency = 1
    loaded, _ = load(scene)
    assert [found.status for found in loaded.directories.values()] == [EntryStatus.FILE]


def test_directories_of_files_are_known_whatever_the_manifest_says(scene: ManifestScene) -> None:
    places = scene.driver().config().places
    attempt = ids.attempt_id(ids.task_id(0), "0")
    work = places.layout.task_attempt_directory(attempt)
    deep = FileEntry(places.uri(f"{work}/f"), places.uri(f"{places.destination}/a/b/c/f"), 1)
    lay(scene, 0, 0, files=(deep,))
    loaded, _ = load(scene)
    names = {key.removeprefix(places.destination): found for key, found in loaded.directories.items()}
    assert {name: (found.status.name, found.level) for name, found in names.items()} == {
        "/a": ("UNKNOWN", 1),
        "/a/b": ("UNKNOWN", 2),
        "/a/b/c": ("UNKNOWN", 3),
    }
    assert [key.removeprefix(places.destination) for key in leaves_of(loaded.directories)] == ["/a/b/c"]


def test_exactly_the_given_attempts_are_loaded(scene: ManifestScene) -> None:
    chosen = lay(scene, 1, 2)
    lay(scene, 0, 1)
    (scene.manifest_path(0).parent / "notes.txt").write_text("of somebody else")
    loaded, files = load(scene, {ids.task_id(1): chosen.attempt_id})
    assert (loaded.tasks, loaded.files, {one.task for one in files}) == (1, 2, {"000001"})
    assert loaded.others == ["000000-manifest.json"]


def test_a_manifest_of_another_attempt_is_told(scene: ManifestScene) -> None:
    lay(scene, 0, 1)
    with pytest.raises(
        CommitFailed,
        match=r"task 000000 has been committed again, by 'attempt-000000-0', after attempt-000000-9",
    ):
        load(scene, {ids.task_id(0): ids.attempt_id(ids.task_id(0), "9")})


def test_a_manifest_that_is_not_there_is_told(scene: ManifestScene) -> None:
    lay(scene, 0, 1)
    with pytest.raises(CommitFailed, match="no manifest of task 000001, whose attempt x was to be published"):
        load(scene, {ids.task_id(0): ids.attempt_id(ids.task_id(0), "0"), ids.task_id(1): "x"})


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "not a valid manifest file, for it is empty"),
        (b"{", "malformed or inconsistent"),
        (b'{"files": []}', "belongs to attempt 0 of job ''"),
    ],
)
def test_a_file_that_is_no_manifest_publishes_nothing(scene: ManifestScene, raw: bytes, problem: str) -> None:
    lay(scene, 0, 3)
    scene.manifest_path(1).write_bytes(raw)
    with pytest.raises(CommitFailed, match=problem):
        load(scene)


def test_a_directory_in_place_of_a_manifest_publishes_nothing(scene: ManifestScene) -> None:
    scene.manifest_path(0).mkdir()
    with pytest.raises(CommitFailed, match="for it is a directory"):
        load(scene)


def test_a_manifest_named_after_no_task_publishes_nothing(scene: ManifestScene) -> None:
    (scene.manifest_path(0).parent / "ü-manifest.json").write_bytes(b"{}")
    with pytest.raises(CommitFailed, match="no manifest of a task"):
        load(scene)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("d", "{dest}/../elsewhere"),
        ("d", "{dest}/%2E%2E/elsewhere"),
        ("d", "{dest}"),
        ("d", "{dest}x/a"),
        ("d", "file:///etc/passwd"),
        ("d", "s3://bucket/a"),
        ("d", "{dest}/_temporary/other/00/manifests/x"),
        ("d", "{dest}/_magicfs/current.json"),
        ("s", "file:///etc/passwd"),
        ("s", "{dest}/data"),
        ("s", "{work}/../attempt-000009-0/a"),
        ("s", "{work}"),
    ],
)
def test_a_manifest_can_name_only_what_is_the_jobs(scene: ManifestScene, field: str, value: str) -> None:
    lay(scene, 0, 1)
    raw = json.loads(scene.manifest_path(0).read_text())
    work, dest = raw["taskAttemptDir"], f"file://{scene.destination}"
    raw["files"][0][field] = value.format(dest=dest, work=work)
    scene.manifest_path(0).write_text(json.dumps(raw))
    with pytest.raises(CommitFailed, match="names what is not the job's"):
        load(scene)


def test_a_manifest_can_name_only_directories_of_the_job(scene: ManifestScene) -> None:
    lay(scene, 0, 0, directories=(DirectoryEntry("file:///etc", EntryStatus.FILE, 1),))
    with pytest.raises(CommitFailed, match="names what is not the job's"):
        load(scene)


@pytest.mark.parametrize("attempt", ["../../x", "a/b", ""])
def test_a_manifest_of_a_hostile_attempt_is_refused(scene: ManifestScene, attempt: str) -> None:
    lay(scene, 0, 0, attempt_id=attempt)
    with pytest.raises(CommitFailed, match="not an attempt id"):
        load(scene)


@pytest.mark.parametrize("changes", [{"job_id": "other"}, {"job_attempt": 1}])
def test_a_manifest_of_another_job_or_attempt_is_refused(
    scene: ManifestScene, changes: dict[str, Any]
) -> None:
    lay(scene, 0, 0, **changes)
    with pytest.raises(CommitFailed, match="find out who wrote the file"):
        load(scene)


def test_uris_as_hadoop_writes_them_for_files_are_understood(scene: ManifestScene) -> None:
    lay(scene, 0, 1, directories=partitions(scene, 1))
    raw = scene.manifest_path(0).read_text().replace("file:///", "file:/")
    scene.manifest_path(0).write_text(raw)
    loaded, files = load(scene)
    assert files[0].key.startswith(loaded_destination := scene.driver().config().places.destination)
    assert list(loaded.directories) == [f"{loaded_destination}/d=0"]


def test_a_store_that_fails_stops_the_loading(scene: ManifestScene) -> None:
    for number in range(20):
        lay(scene, number, 1)
    with pytest.raises(StoreError, match="as the test wants"):
        load(scene, None, Fault(Kind.ERROR_BEFORE, operation="read", skip=3))


def test_a_missing_directory_is_told(scene: ManifestScene) -> None:
    scene.manifest_path(0).parent.rmdir()
    with pytest.raises(ObjectNotFound):
        load(scene)


# -- the local file (EntryFileIO) ------------------------------------------------------------------------


def files(count: int, first: int = 0, task: str = "t") -> list[SpilledFile]:
    return [SpilledFile(f"d/{n}", f"s/{n}", n, f"e{n}", task) for n in range(first, first + count)]


def in_spill(work: Any, capacity: int = 4) -> Any:
    async def run() -> Any:
        async with Spill(capacity) as spill:
            return await work(spill)

    return asyncio.run(run())


async def everything(spill: Spill) -> list[SpilledFile]:
    return [one async for one in spill.files()]


def test_153_one_entry_comes_back() -> None:
    async def work(spill: Spill) -> list[SpilledFile]:
        await spill.put(files(1))
        await spill.finish()
        return await everything(spill)

    assert in_spill(work) == [SpilledFile("d/0", "s/0", 0, "e0", "t", 1)]


def test_153_an_empty_file_has_no_entries() -> None:
    async def work(spill: Spill) -> tuple[list[SpilledFile], Any, Any]:
        await spill.finish()
        return await everything(spill), await spill.written_twice(), await spill.file_and_directory()

    assert in_spill(work) == ([], None, None)


@pytest.mark.parametrize("capacity", [0, -1])
def test_153_a_queue_needs_room(capacity: int) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        Spill(capacity)


@pytest.mark.slow
def test_153_a_hundred_thousand_entries_come_back_in_order() -> None:
    async def work(spill: Spill) -> int:
        for first in range(0, 100_000, LIST_LENGTH):
            await spill.put(files(LIST_LENGTH, first))
        await spill.finish()
        expected = 0
        async for one in spill.files():
            assert (one.size, one.number) == (expected, expected + 1)
            expected += 1
        return expected

    assert in_spill(work) == 100_000


def test_153_many_producers_and_a_queue_that_stays_short() -> None:
    async def work(spill: Spill) -> list[SpilledFile]:
        async def produce(number: int) -> None:
            for one in range(50):
                await spill.put(files(10, number * 500 + one * 10))

        await asyncio.gather(*(produce(number) for number in range(8)))
        await spill.finish()
        assert spill.deepest_queue <= 3
        return await everything(spill)

    found = in_spill(work, capacity=3)
    assert sorted(one.size for one in found) == list(range(4000))


def test_153_a_writer_that_fails_wakes_blocked_producers_and_is_raised() -> None:
    async def work(spill: Spill) -> list[BaseException | None]:
        def broken(rows: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        spill._insert = broken  # type: ignore[method-assign]
        producers = [spill.put(files(1, number)) for number in range(20)]
        results = await asyncio.gather(*producers, return_exceptions=True)
        with pytest.raises(StoreError, match=r"disk is full; make room in .*, or let TMPDIR name"):
            await spill.finish()
        return results

    results = in_spill(work, capacity=1)
    assert any(isinstance(one, StoreError) for one in results)
    assert all(one is None or isinstance(one, StoreError) for one in results)


def test_a_full_local_disk_fails_the_job_before_anything_is_changed(
    scene: ManifestScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay(scene, 0, 300)
    before = scene.everything()

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Spill, "_insert", full)
    with pytest.raises(CommitFailed, match=r"disk is full; make room .*; nothing was published"):
        scene.run(scene.driver().committer.commit_job(None))
    assert scene.everything() == before


def test_nothing_can_be_added_once_it_is_finished() -> None:
    async def work(spill: Spill) -> None:
        await spill.finish()
        with pytest.raises(ProtocolViolation, match="finished"):
            await spill.put(files(1))

    in_spill(work)


def test_a_key_of_two_files_and_a_file_that_is_a_directory_are_found() -> None:
    async def work(spill: Spill) -> tuple[Any, Any]:
        await spill.put(files(20, task="a"))
        await spill.put(files(1, 7, task="b"))
        await spill.finish(["d/3", "d/x"])
        return await spill.written_twice(), await spill.file_and_directory()

    assert in_spill(work) == (("d/7", "a", "b"), ("d/3", "a"))


def test_keys_that_are_not_the_jobs_are_told() -> None:
    async def work(spill: Spill) -> tuple[Any, Any]:
        await spill.put(files(3))
        await spill.finish()
        await spill.add_old(
            foreign := await spill.foreign(["d/0", "d/9", "d/2", 'hostile"; DROP TABLE files'])
        )
        return foreign, [one async for one in spill.old()]

    foreign, old = in_spill(work)
    assert foreign == old == ["d/9", 'hostile"; DROP TABLE files']


def test_the_local_file_has_no_name_while_it_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def names() -> list[Path]:
        return list(tmp_path.iterdir())

    async def work(spill: Spill) -> list[Path]:
        await spill.put(files(5))
        await spill.finish()
        assert len(await everything(spill)) == 5
        return names()

    assert in_spill(work) == names() == []
