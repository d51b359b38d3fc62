"""Small files stay with their task, ordinary files for it, and are put at their keys by the job commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs import datasets
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, CommitFailed, MagicError, Unavailable, UsageError
from magicfs.filesystem import tracking
from magicfs.filesystem.tracking import name_in, tracker
from magicfs.formats.job_object import JobObject
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.task_commit import TaskCommit, pack, unpack
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.protocol.readback import WRITE_ID
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.store import MemoryStore
from magicfs.stores.port import Body, Capabilities, ObjectInfo, Store
from magicfs.transaction import prepare, record
from proofs.scenes.arranged import arranged
from proofs.scenes.memory_scene import BUCKET, MemoryScene

URL = f"memory://{BUCKET}/sales"
LIMIT = 100


@pytest.fixture
def scene() -> MemoryScene:
    return MemoryScene()


def job_on(scene: MemoryScene, **options: Any) -> Job:
    given = {"mode": "append", "tracking": "memory", "small_files": LIMIT, "filesystem": scene.wrapped}
    return Job(URL, **arranged(**{**given, **options})).setup()


def write(task: Task, files: dict[str, bytes]) -> None:
    for name, body in files.items():
        with task.filesystem.open(f"{task.path}/{name}", "wb") as file:
            file.write(body)


def committed(job: Job, number: int, files: dict[str, bytes]) -> TaskCommit:
    task = job.task(number).setup()
    write(task, files)
    return task.commit()


def published(scene: MemoryScene, job: Job) -> dict[str, bytes]:
    """What is visible of a job, by names without job and task."""
    found = {}
    for key, body in scene.objects().items():
        if "/_" not in key and job.id in key:
            name = key.removeprefix("sales/")
            found[name[: name.index("-00000")] + name[name.index(".") :]] = body
    return found


def bundles(scene: MemoryScene) -> dict[str, bytes]:
    return {key: body for key, body in scene.objects().items() if "/bundles/" in key}


FILES = {"a.csv": b"1,2\n", "empty.csv": b"", "day=1/b.csv": b"x" * LIMIT, "large.csv": b"y" * (LIMIT + 1)}


def test_what_is_published_is_what_was_written(scene: MemoryScene) -> None:
    job = job_on(scene)
    task = job.task(0).setup()
    write(task, FILES)
    assert len(scene.uploads()) == 1  # only the large one has an upload
    assert bundles(scene) == {}
    commit = task.commit()
    assert list(bundles(scene).values()) == [FILES["a.csv"] + FILES["day=1/b.csv"]]
    report = job.commit([commit])
    assert published(scene, job) == FILES
    assert (report.files, report.bytes) == (4, sum(map(len, FILES.values())))
    assert magic_objects(scene) == []
    assert magicfs.Dataset(URL, filesystem=scene.wrapped).verify().ok


def magic_objects(scene: MemoryScene) -> list[str]:
    return [key for key in scene.objects() if "__magic" in key]


def test_a_small_file_is_one_paid_write_and_its_share_of_a_bundle(scene: MemoryScene) -> None:
    job = job_on(scene)
    task = job.task(0).setup()
    scene.requests()
    write(task, {f"{number}.csv": b"row" for number in range(20)})
    assert scene.requests() == {}
    commit = task.commit()
    assert scene.requests() == {"put": 1}
    job.commit([commit])
    counted = scene.requests()
    other = MemoryScene()
    plain = job_on(other, small_files=None)
    uploaded = committed(plain, 0, {f"{number}.csv": b"row" for number in range(20)})
    other.requests()
    plain.commit([uploaded])
    without = other.requests()
    assert counted.pop("complete_upload", 0) == 0
    assert without.pop("complete_upload") == 20
    # 20 files, and one version more of the job object, from which there is no way back.
    assert counted.pop("put") == without.pop("put") + 20 + 1
    # One look at the bundle before the commit point, and one reading.
    assert counted.pop("head") == without.pop("head") + 1
    assert counted.pop("get") >= without.pop("get") + 1


def test_without_the_option_every_file_is_an_upload(scene: MemoryScene) -> None:
    job = job_on(scene, small_files=None)
    commit = committed(job, 0, {"a.csv": b"row"})
    assert len(scene.uploads()) == 1
    job.commit([commit])
    assert published(scene, job) == {"a.csv": b"row"}


def test_objects_bear_the_write_id_and_manifest_lists_them(scene: MemoryScene) -> None:
    job = job_on(scene)
    job.commit([committed(job, 0, {"a.csv": b"row"})])
    store = MemoryStore(BUCKET, scene.wrapped.world)
    [file] = magicfs_files(scene)
    head = scene.run(store.head(f"sales/{file['key']}"))
    assert head.metadata == {WRITE_ID: file["writeId"]}
    assert (head.etag, head.size) == (file["etag"], 3)


def magicfs_files(scene: MemoryScene) -> list[dict[str, Any]]:
    [raw] = [
        body
        for key, body in scene.objects().items()
        if "/_magicfs/" in key and not key.endswith("current.json")
    ]
    files: list[dict[str, Any]] = json.loads(raw)["files"]
    return files


# -- files in hand -------------------------------------------------------------------------------------------


@pytest.fixture(params=["in memory", "in a bundle", "uploaded", "uploaded and recorded"])
def task_at(request: pytest.FixtureRequest, scene: MemoryScene, monkeypatch: Any) -> Callable[[], Task]:
    """A task whose files are held in memory, have gone into bundles one by one, or were uploaded."""

    def made() -> Task:
        if request.param == "in a bundle":
            monkeypatch.setattr(tracking, "BUNDLE_SIZE", 1)
        if not request.param.startswith("uploaded"):
            return job_on(scene).task(0).setup()
        remembered = "memory" if request.param == "uploaded" else "store"
        return job_on(scene, small_files=None, tracking=remembered).task(0).setup()

    return made


def is_uploaded(scene: MemoryScene) -> bool:
    return bool(scene.uploads())


def test_a_file_in_hand_is_read_listed_and_described(
    task_at: Callable[[], Task], scene: MemoryScene, tmp_path: Path
) -> None:
    task = task_at()
    fs, path = task.filesystem, task.path
    write(task, {"a.csv": b"0123456789", "d/b.csv": b"row"})
    assert fs.cat_file(f"{path}/a.csv") == b"0123456789"
    assert fs.cat_file(f"{path}/a.csv", 2, 5) == b"234"
    assert fs.cat_file(f"{path}/a.csv", -3) == b"789"
    assert fs.cat_ranges([f"{path}/a.csv"] * 2, [0, 4], [2, 6]) == [b"01", b"45"]
    with fs.open(f"{path}/a.csv", "rb") as file:
        assert (file.read(4), file.tell(), file.size, file.seek(8), file.read()) == (b"0123", 4, 10, 8, b"89")
        assert file.info()["size"] == 10
    with fs.open(f"{path}/d/b.csv", "r") as text:
        assert text.read() == "row"
    info = fs.info(f"{path}/a.csv")
    assert (info["size"], info["type"], "magic_pending" in info) == (10, "file", is_uploaded(scene))
    assert {one["name"].removeprefix(f"{path}/"): one["size"] for one in fs.ls(path, detail=True)} == {
        "a.csv": 10,
        "d": 0,
    }
    assert fs.find(path) == [f"{path}/a.csv", f"{path}/d/b.csv"]
    assert (fs.exists(f"{path}/a.csv"), fs.isfile(f"{path}/a.csv"), fs.du(path)) == (True, True, 13)
    fs.get_file(f"{path}/a.csv", str(tmp_path / "got"))
    fs.get(path, str(tmp_path / "tree"), recursive=True)
    assert (tmp_path / "got").read_bytes() == b"0123456789"
    assert (tmp_path / "tree/d/b.csv").read_bytes() == b"row"
    assert fs.cat(f"{path}/a.csv") == b"0123456789"
    assert fs.ukey(f"{path}/a.csv") != fs.ukey(f"{path}/d/b.csv")
    with pytest.raises(OSError, match="open for reading"), fs.open(f"{path}/a.csv", "rb") as file:
        file.write(b"no")


def test_coroutines_read_a_file_in_hand(task_at: Callable[[], Task], scene: MemoryScene) -> None:
    task = task_at()
    write(task, {"a.csv": b"0123456789"})

    async def read() -> list[bytes]:
        async with await task.filesystem.open_async(f"{task.path}/a.csv", "rb") as file:
            return [await file.read(4), await file.read()]

    assert scene.run(read()) == [b"0123", b"456789"]


def test_a_file_in_hand_is_rewritten_renamed_copied_and_deleted(
    task_at: Callable[[], Task], scene: MemoryScene
) -> None:
    task = task_at()
    fs, path = task.filesystem, task.path
    write(task, {"a.csv": b"first"})
    write(task, {"a.csv": b"second", ".metadata.tmp": b"torch", "gone.csv": b"no", "d/x.csv": b"x"})
    fs.rename(f"{path}/.metadata.tmp", f"{path}/.metadata")
    fs.mv(f"{path}/d", f"{path}/e", recursive=True)
    fs.copy(f"{path}/a.csv", f"{path}/copy.csv")
    fs.rm(f"{path}/gone.csv")
    fs.mv(f"{path}/copy.csv", f"{path}/e/x.csv")
    assert fs.find(path) == [f"{path}/.metadata", f"{path}/a.csv", f"{path}/e/x.csv"]
    assert fs.cat_file(f"{path}/.metadata") == b"torch"
    with pytest.raises(FileNotFoundError):
        fs.cat_file(f"{path}/.metadata.tmp")
    were = is_uploaded(scene)
    assert (task.commit().files, len(scene.uploads())) == (3, 3 if were else 0)


def test_what_was_renamed_is_published_under_its_new_name(
    task_at: Callable[[], Task], scene: MemoryScene
) -> None:
    task = task_at()
    write(task, {"a.tmp": b"row", "b.csv": b"old"})
    task.filesystem.mv(f"{task.path}/a.tmp", f"{task.path}/b.csv")
    commit = task.commit()
    assert commit.files == 1
    raw = unpack("", commit.content or b"")
    [pending] = PendingSet.from_bytes("", raw).commits
    assert pending.destination_key.startswith("sales/b-000000-")
    if pending.body is None:
        assert scene.uploads() == [pending.destination_key]  # the others were aborted
        return
    assert scene.objects()[pending.body.bundle][pending.body.offset :][:3] == b"row"


def test_a_file_that_has_outgrown_the_limit_is_in_hand_while_it_is_one_part(scene: MemoryScene) -> None:
    task = job_on(scene, part_size=2 * LIMIT).task(0).setup()
    write(task, {"a.csv": b"x" * (LIMIT + 1)})
    assert task.filesystem.cat_file(f"{task.path}/a.csv") == b"x" * (LIMIT + 1)
    write(task, {"a.csv": b"x" * (2 * LIMIT + 1)})
    with pytest.raises(UsageError, match=r"cannot be read before its job commits.*directly"):
        task.filesystem.cat_file(f"{task.path}/a.csv")
    with pytest.raises(UsageError, match=r"cannot be copied or moved.*under their final names"):
        task.filesystem.mv(f"{task.path}/a.csv", f"{task.path}/b.csv")
    write(task, {"a.csv": b"small"})
    assert task.filesystem.cat_file(f"{task.path}/a.csv") == b"small"
    assert task.commit().files == 1
    assert scene.uploads() == []  # that of the first write was aborted


@pytest.mark.parametrize("size", [0, 1, LIMIT, LIMIT + 1, 250, 600])
@pytest.mark.parametrize("way", ["open", "pipe", "put", "copy", "async"])
def test_every_way_to_write_keeps_what_is_small(
    scene: MemoryScene, tmp_path: Path, way: str, size: int
) -> None:
    body = bytes(number % 251 for number in range(size))
    job = job_on(scene, part_size=250)
    task = job.task(0).setup()
    fs, path = task.filesystem, f"{task.path}/file"
    match way:
        case "open":
            write(task, {"file": body})
        case "pipe":
            fs.pipe_file(path, body)
        case "put":
            (tmp_path / "file").write_bytes(body)
            fs.put_file(str(tmp_path / "file"), path)
        case "copy":
            scene.put("elsewhere/file", body)
            fs.cp_file(f"{BUCKET}/elsewhere/file", path)
        case "async":
            scene.run(_written_by_coroutine(task, body))
    # A copy brings what describes its source, which a put could not.
    is_upload = size > LIMIT or way == "copy"
    assert len(scene.uploads()) == is_upload
    assert is_upload or fs.cat_file(path) == body
    job.commit([task.commit()])
    [found] = [held for key, held in scene.objects().items() if key.startswith("sales/file-")]
    assert found == body


async def _written_by_coroutine(task: Task, body: bytes) -> None:
    async with await task.filesystem.open_async(f"{task.path}/file", "wb") as file:
        for start in range(0, len(body), 30):
            await file.write(body[start : start + 30])


def test_a_file_with_options_of_its_own_is_an_upload(scene: MemoryScene) -> None:
    task = job_on(scene).task(0).setup()
    with task.filesystem.open(f"{task.path}/a.json", "wb", ContentType="application/json") as file:
        file.write(b"{}")
    assert len(scene.uploads()) == 1


def test_exclusive_creation_sees_a_file_in_hand(scene: MemoryScene) -> None:
    task = job_on(scene).task(0).setup()
    write(task, {"a.csv": b"row"})
    with pytest.raises(FileExistsError):
        task.filesystem.open(f"{task.path}/a.csv", "xb")


def test_a_body_that_raises_leaves_nothing(scene: MemoryScene) -> None:
    task = job_on(scene).task(0).setup()
    with pytest.raises(ZeroDivisionError), task.filesystem.open(f"{task.path}/a.csv", "wb") as file:
        file.write(b"row")
        raise ZeroDivisionError
    assert not task.filesystem.exists(f"{task.path}/a.csv")
    assert task.commit().files == 0


def test_transactions_record_or_discard_small_files(scene: MemoryScene) -> None:
    task = job_on(scene).task(0).setup()
    fs, path = task.filesystem, task.path
    with fs.transaction:
        write(task, {"a.csv": b"row"})
        assert not fs.exists(f"{path}/a.csv")
    assert fs.cat_file(f"{path}/a.csv") == b"row"
    with pytest.raises(ZeroDivisionError), fs.transaction:
        write(task, {"b.csv": b"row"})
        raise ZeroDivisionError
    assert fs.find(path) == [f"{path}/a.csv"]


# -- memory --------------------------------------------------------------------------------------------------


def test_bodies_go_into_bundles_before_they_fill_the_memory(scene: MemoryScene, monkeypatch: Any) -> None:
    monkeypatch.setattr(tracking, "BUNDLE_SIZE", 250)
    job = job_on(scene)
    task = job.task(0).setup()
    files = {f"{number}.csv": bytes([65 + number]) * 90 for number in range(10)}
    for name, body in files.items():
        write(task, {name: body})
        scope = tracker().snapshot(name_in(scene.wrapped.store(BUCKET), task.path.rpartition("/")[0]))
        assert scope.in_hand < 250
    assert len(bundles(scene)) == 3
    assert {len(body) for body in bundles(scene).values()} == {270}
    assert [task.filesystem.cat_file(f"{task.path}/{name}") for name in files] == list(files.values())
    job.commit([task.commit()])
    assert published(scene, job) == files


def test_a_bundle_that_cannot_be_written_fails_the_file_and_loses_no_other(monkeypatch: Any) -> None:
    broken: list[bool] = []

    class Broken(DelegatingStore):
        async def put(self, key: str, body: Body, **options: Any) -> ObjectInfo:
            if broken and "/bundles/" in key:
                raise Unavailable("put", key, "silence")
            return await super().put(key, body, **options)

    scene = MemoryScene(Broken)
    monkeypatch.setattr(tracking, "BUNDLE_SIZE", 6)
    job = job_on(scene)
    task = job.task(0).setup()
    write(task, {"a.csv": b"row"})
    broken.append(True)
    with pytest.raises(Unavailable):
        write(task, {"b.csv": b"row"})
    broken.clear()
    assert task.filesystem.find(task.path) == [f"{task.path}/a.csv"]
    write(task, {"c.csv": b"rows"})
    job.commit([task.commit()])
    assert published(scene, job) == {"a.csv": b"row", "c.csv": b"rows"}


def test_an_aborted_task_leaves_no_bundle(scene: MemoryScene, monkeypatch: Any) -> None:
    monkeypatch.setattr(tracking, "BUNDLE_SIZE", 1)
    task = job_on(scene).task(0).setup()
    write(task, {"a.csv": b"row"})
    assert len(bundles(scene)) == 1
    task.abort()
    assert bundles(scene) == {}


def test_an_aborted_job_leaves_no_bundle_and_no_file(scene: MemoryScene) -> None:
    job = job_on(scene)
    committed(job, 0, {"a.csv": b"row"})
    job.abort()
    assert magic_objects(scene) == []
    assert published(scene, job) == {}


# -- the job commit ------------------------------------------------------------------------------------------


def test_a_bundle_that_is_gone_or_short_fails_the_commit_before_anything_is_visible(
    scene: MemoryScene,
) -> None:
    job = job_on(scene)
    commit = committed(job, 0, {"a.csv": b"row", "large.csv": b"x" * 200})
    [key] = bundles(scene)
    scene.put(key, b"ro")
    with pytest.raises(CommitFailed, match="missing or cut short"):
        job.commit([commit])
    assert published(scene, job) == {}


def test_small_files_are_not_looked_for_among_uploads_that_are_old(
    scene: MemoryScene, monkeypatch: Any
) -> None:
    monkeypatch.setattr(prepare, "_OLD_MS", -1)
    job = job_on(scene)
    job.commit([committed(job, 0, FILES)])
    assert published(scene, job) == FILES


def test_an_altered_bundle_is_never_published(scene: MemoryScene) -> None:
    job = job_on(scene)
    commit = committed(job, 0, {"a.csv": b"row", "b.csv": b"row"})
    [key] = bundles(scene)
    scene.put(key, b"rowROW")
    with pytest.raises(CommitFailed, match="was altered since its task wrote it"):
        job.commit([commit])
    assert set(published(scene, job).values()) <= {b"row"}
    scene.put(key, b"rowrow")  # restored
    scene.run(_recover(scene, job))
    assert published(scene, job) == {"a.csv": b"row", "b.csv": b"row"}


async def _recover(scene: MemoryScene, job: Job, **wish: bool) -> None:
    await datasets.recover_jobs(
        Engine(scene.wrapped.store(BUCKET), 4), job.spec.location, job=job.spec.job, **wish
    )


class _Dying(DelegatingStore):
    """Does not answer the put of a file's data any more once it has been told to die."""

    dying = False
    lands = False

    async def put(self, key: str, body: Body, **options: Any) -> ObjectInfo:
        if type(self).dying and "/_" not in key:
            if type(self).lands:
                await super().put(key, body, **options)
            raise Unavailable("put", key, "silence")
        return await super().put(key, body, **options)


@pytest.mark.parametrize("lands", [False, True])
def test_a_recovery_puts_what_a_dead_driver_has_not(lands: bool) -> None:
    scene = MemoryScene(_Dying)
    job = job_on(scene)
    commit = committed(job, 0, FILES)
    _Dying.dying, _Dying.lands = True, lands
    try:
        if lands:  # every lost reply was read back
            job.commit([commit])
        else:
            with pytest.raises(MagicError):
                job.commit([commit])
    finally:
        _Dying.dying = False
    if not lands:
        with pytest.raises(CommitDenied, match="small files are being written, and those already written"):
            scene.run(_recover(scene, job, rollback=True))
        scene.run(_recover(scene, job))
    assert published(scene, job) == FILES
    assert magic_objects(scene) == []


def test_a_driver_that_stood_still_brings_back_no_file_that_is_deleted_since(monkeypatch: Any) -> None:
    """Another process has finished the job meanwhile, and somebody has deleted what it published."""
    monkeypatch.setattr(record, "_HEARD_S", 0.0)  # as if it had stood still before each request
    stood_still: list[str] = []

    class Standing(DelegatingStore):
        async def get(self, key: str, **options: Any) -> bytes:
            body = await super().get(key, **options)
            if "/bundles/" in key and not stood_still:
                stood_still.append(key)
                await _recover(scene, job)
                visible = [info.key async for info in self.inner.list("sales/") if "/_" not in info.key]
                await self.inner.delete(visible)
            return body

    scene = MemoryScene(Standing)
    job = job_on(scene)
    commit = committed(job, 0, {f"{number}.csv": b"row" for number in range(5)})
    job.commit([commit])  # it hears that another process has finished it
    assert stood_still
    assert published(scene, job) == {}
    assert magic_objects(scene) == []


def test_a_job_can_be_taken_back_until_the_first_small_file_is_put(scene: MemoryScene) -> None:
    job = job_on(scene)
    commit = committed(job, 0, FILES)
    plain = MemoryStore(BUCKET, scene.wrapped.world)
    [(key, upload)] = scene.run(_uploads(plain))
    scene.run(plain.abort_upload(key, upload))  # by a lifecycle rule: the large file cannot be completed
    with pytest.raises(CommitFailed):
        job.commit([commit])
    assert published(scene, job) == {}
    assert magic_objects(scene) == []


async def _uploads(store: Store) -> list[tuple[str, str]]:
    return [(one.key, one.upload_id) async for one in store.list_uploads("")]


@pytest.mark.parametrize(
    "bundle", ["sales/other.csv", "{job}/job.json", "{job}/bundles/a", "{job}/00/bundles/a/b"]
)
def test_a_set_that_names_another_object_as_its_bundle_is_refused(scene: MemoryScene, bundle: str) -> None:
    job = job_on(scene)
    commit = committed(job, 0, {"a.csv": b"row"})
    one = PendingSet.from_bytes("", unpack("", commit.content or b""))
    [pending] = one.commits
    assert pending.body is not None
    key = bundle.format(job=job.spec.work_layout.job_directory)
    other = replace(one, commits=(replace(pending, body=pending.body._replace(bundle=key)),))
    with pytest.raises(CommitFailed, match="it is not a bundle of job"):
        job.commit([replace(commit, content=pack(other.to_bytes()))])
    assert published(scene, job) == {}


# -- what a job may be asked for -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"small_files": 0}, "'small_files': 0}: outside 1 to"),
        ({"small_files": 2**23 + 1}, "is out of range"),
        ({"tracking": "store"}, "use tracking='memory', or leave small_files out"),
        ({"committer": "task-completing"}, "use committer='magic', or leave small_files out"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    scene: MemoryScene, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        job_on(scene, **options)
    assert scene.objects() == {}


def test_the_limit_stands_in_the_job_object_and_a_second_attempt_must_give_the_same(
    scene: MemoryScene,
) -> None:
    job = job_on(scene)
    raw = scene.objects()[job.spec.work_layout.job_object_key]
    assert JobObject.from_bytes("", raw).options.small_files == LIMIT
    with pytest.raises(UsageError, match="was set up with small_files=100, not with None"):
        job_on(scene, job_id=job.id, small_files=None)


def test_a_store_whose_puts_make_other_objects_than_its_uploads_has_no_small_files() -> None:
    class Archive(DelegatingStore):
        @property
        def capabilities(self) -> Capabilities:
            return replace(super().capabilities, puts_files=False)

    scene = MemoryScene(Archive)
    job = job_on(scene)
    commit = committed(job, 0, {"a.csv": b"row"})
    assert len(scene.uploads()) == 1
    job.commit([commit])
    assert published(scene, job) == {"a.csv": b"row"}


@pytest.mark.parametrize(("tracking", "small_files"), [("memory", 2**20), ("memory", None), ("store", None)])
def test_pyarrow_writes_metadata_of_the_files_that_it_has_collected(
    scene: MemoryScene, tracking: Any, small_files: int | None
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.table({"a": [1, 2, 3]})
    collected: list[Any] = []
    job = job_on(scene, tracking=tracking, small_files=small_files)
    task = job.task(0).setup()
    with task.filesystem.open(f"{task.path}/day=é %/a.parquet", "wb") as file:
        pq.write_table(rows, file, metadata_collector=collected)
    collected[0].set_file_path("day=é %/a.parquet")
    # It reads back what it has written, and writes it once more.
    pq.write_metadata(
        rows.schema, f"{task.path}/all.meta", filesystem=task.filesystem, metadata_collector=collected
    )
    job.commit([task.commit()])
    files = {key.rpartition(".")[2]: body for key, body in scene.objects().items() if "/_" not in key}
    assert sorted(files) == ["meta", "parquet"]
    assert pq.read_metadata(pa.BufferReader(files["meta"])).num_rows == rows.num_rows
    assert not scene.uploads()
