"""A magic path of a user's own: published, discarded, listed, without a job of tasks."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from fsspec.asyn import sync

import magicfs
from magicfs.cli.main import main
from magicfs.datasets import own_paths as paths_of_users
from magicfs.datasets.own_paths import discard_found, publish_found
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, CommitUnfinished, FormatError, OutputExists, Unavailable, UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.job.job import Job
from magicfs.protocol import paths
from magicfs.protocol.magic import PENDING, locate
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore
from magicfs.stores.port import Store
from proofs.scenes.memory_scene import MemoryScene

PATH = "memory://bucket/sales/__magic/mine"
BASE = "bucket/sales/__magic/mine/task/__base"


@pytest.fixture
def scene() -> MemoryScene:
    return MemoryScene()


def write(scene: MemoryScene, *names: str, base: str = BASE, body: bytes = b"row\n") -> None:
    for name in names:
        scene.filesystem.pipe_file(f"{base}/{name}", body)


def data(scene: MemoryScene) -> dict[str, bytes]:
    return {
        key: body for key, body in scene.objects().items() if key.endswith(".csv") and "__magic" not in key
    }


def left(scene: MemoryScene) -> list[str]:
    return [key for key in scene.objects() if "__magic" in key]


# -- publishing ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [PATH, f"magic::{PATH}", f"{PATH}/task", f"{PATH}/task/__base", "memory://bucket/sales/__magic"]
)
def test_files_below_a_path_become_visible_and_nothing_is_left(scene: MemoryScene, path: str) -> None:
    write(scene, "day=1/a.csv", "day=2/b.csv")
    report = scene.filesystem.publish(path)
    assert (report.action, report.files, report.bytes) == ("published", 2, 8)
    assert report.filenames == ("memory://bucket/sales/day=1/a.csv", "memory://bucket/sales/day=2/b.csv")
    assert data(scene) == {"sales/day=1/a.csv": b"row\n", "sales/day=2/b.csv": b"row\n"}
    assert left(scene) == scene.uploads() == []
    assert magicfs.Dataset("memory://bucket/sales", filesystem=scene.wrapped).verify().ok


def test_path_without_a_scheme_goes_with_the_filesystem_that_wrote_it(scene: MemoryScene) -> None:
    write(scene, "a.csv")
    assert scene.filesystem.publish(f"{BASE}/a.csv").files == 1
    assert list(data(scene)) == ["sales/a.csv"]


def test_only_what_lies_below_the_path_is_published(scene: MemoryScene) -> None:
    write(scene, "a.csv")
    write(scene, "b.csv", base="bucket/sales/__magic/mine2/__base")
    scene.filesystem.publish(PATH)
    assert list(data(scene)) == ["sales/a.csv"]
    assert scene.uploads() == ["sales/b.csv"]


def test_files_that_only_this_process_knows_are_published(scene: MemoryScene) -> None:
    MagicFileSystem(scene.wrapped, tracking="memory").pipe_file(f"{BASE}/a.csv", b"row\n")
    scene.filesystem.publish(PATH)
    assert list(data(scene)) == ["sales/a.csv"]
    with pytest.raises(UsageError, match="no files are recorded"):
        scene.filesystem.publish(PATH)


def test_path_without_base_means_its_last_element_as_in_hadoop(scene: MemoryScene) -> None:
    scene.filesystem.pipe_file("bucket/sales/__magic/mine/deep/a.csv", b"row\n")
    scene.filesystem.publish(PATH)
    assert list(data(scene)) == ["sales/a.csv"]


@pytest.mark.slow
def test_a_thousand_and_one_files_are_published(scene: MemoryScene) -> None:
    write(scene, *(f"{number}.csv" for number in range(1001)), body=b"")
    assert scene.filesystem.publish(PATH).files == 1001
    assert len(data(scene)) == 1001
    assert left(scene) == []


@pytest.mark.parametrize("verb", ["publish", "discard"])
def test_dry_run_changes_nothing(scene: MemoryScene, verb: str) -> None:
    write(scene, "a.csv")
    before = scene.objects(), scene.uploads()
    assert getattr(scene.filesystem, verb)(PATH, dry_run=True).files == 1
    assert (scene.objects(), scene.uploads()) == before


@pytest.mark.parametrize("mode", ["append", "error", "overwrite", "overwrite_partitions"])
def test_conflict_mode_decides_about_a_name_that_is_taken(scene: MemoryScene, mode: Any) -> None:
    write(scene, "day=1/a.csv")
    scene.filesystem.publish(PATH)
    write(scene, "day=1/a.csv", body=b"new\n")
    if mode.startswith("overwrite"):
        scene.filesystem.publish(PATH, mode=mode)
        assert data(scene) == {"sales/day=1/a.csv": b"new\n"}
        assert left(scene) == []
        return
    before = scene.objects(), scene.uploads()
    with pytest.raises(OutputExists):
        scene.filesystem.publish(PATH, mode=mode)
    assert (scene.objects(), scene.uploads()) == before


# -- refused -------------------------------------------------------------------------------------------------


def own_paths(scene: MemoryScene, path: str, message: str, error: type[Exception] = UsageError) -> None:
    before = scene.objects(), scene.uploads()
    with pytest.raises(error, match=message):
        scene.filesystem.publish(path)
    assert (scene.objects(), scene.uploads()) == before


def test_ordinary_path_is_refused(scene: MemoryScene) -> None:
    own_paths(scene, "memory://bucket/sales", "is not a magic path")


def test_empty_path_is_refused(scene: MemoryScene) -> None:
    own_paths(scene, PATH, "no files are recorded under")


def test_two_files_of_one_final_name_are_refused(scene: MemoryScene) -> None:
    write(scene, "a.csv")
    write(scene, "a.csv", base="bucket/sales/__magic/mine/other/__base")
    own_paths(scene, PATH, r"have the same final name, sales/a\.csv")


def test_file_that_is_still_open_is_refused(scene: MemoryScene) -> None:
    file = scene.filesystem.open(f"{BASE}/a.csv", "wb")
    own_paths(scene, PATH, "is still open; nothing was changed")
    file.close()
    assert scene.filesystem.publish(PATH).files == 1


def test_marker_without_a_record_is_refused(scene: MemoryScene) -> None:
    scene.put("sales/__magic/mine/__base/a.csv")
    own_paths(scene, PATH, "has no record of its upload")


def test_record_that_was_moved_is_refused(scene: MemoryScene) -> None:
    write(scene, "a.csv")
    key = f"{BASE}/a.csv{PENDING}".partition("/")[2]
    scene.put(key.replace("a.csv", "b.csv"), scene.objects()[key])
    own_paths(scene, PATH, "somebody has moved or copied the record", FormatError)


@pytest.mark.parametrize("hadoop", [None, "3.3"])
@pytest.mark.parametrize("verb", ["publish", "discard"])
def test_path_of_a_job_is_refused_and_the_command_named(
    scene: MemoryScene, hadoop: str | None, verb: str
) -> None:
    job = Job(
        "memory://bucket/sales", mode="append", filesystem=scene.wrapped, options={"hadoop": hadoop}
    ).setup()
    task = job.task(0).setup()
    task.filesystem.pipe_file(f"{task.path}/a.csv", b"row\n")
    element = "__magic" if hadoop else f"__magic_job-{job.id}"
    before = scene.objects()
    with pytest.raises(UsageError, match=f"holds work of job {job.id}.*magicfs recover.*--abort"):
        getattr(scene.filesystem, verb)(f"memory://bucket/sales/{element}")
    assert scene.objects() == before
    assert job.commit([task.commit()]).files == 1


# -- discarding ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_discarded_files_leave_nothing_the_second_time_too(scene: MemoryScene, tracking: Any) -> None:
    filesystem = MagicFileSystem(scene.wrapped, tracking=tracking)
    filesystem.pipe({f"{BASE}/{name}.csv": b"row\n" for name in "ab"})
    write(scene, "c.csv", base="bucket/sales/__magic/other/__base")
    assert scene.filesystem.discard(PATH).files == 2
    assert scene.uploads() == ["sales/c.csv"]
    assert scene.filesystem.discard(PATH).files == 0
    assert data(scene) == {}


def test_marker_without_a_record_can_be_discarded(scene: MemoryScene) -> None:
    scene.put("sales/__magic/mine/__base/a.csv")
    scene.filesystem.discard(PATH)
    assert scene.objects() == {}


# -- death ---------------------------------------------------------------------------------------------------


class Cut(DelegatingStore):
    """Of a process that dies: from one request on nothing reaches the store any more."""

    def __init__(self, inner: Store, left: list[int], *, after: bool) -> None:
        super().__init__(inner)
        self.left, self.after = left, after

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[Any]]) -> Any:
        self.left[0] -= 1
        if self.left[0] == 0 and self.after:
            await request()
        if self.left[0] <= 0:
            raise RuntimeError("this process is dead")
        return await request()


class DyingFileSystem(MemoryFileSystem):
    """The same world, seen by a process that dies at its n-th request."""

    def __init__(self, scene: MemoryScene, requests: int, *, after: bool) -> None:
        super().__init__(world=scene.wrapped.world)
        self.left, self.after = [requests], after

    def store(self, bucket: str) -> Store:
        return Cut(super().store(bucket), self.left, after=self.after)


def dies(scene: MemoryScene, call: Callable[..., Any], requests: int, *, after: bool) -> bool:
    """Whether a call that is cut at a request dies of that."""
    filesystem = DyingFileSystem(scene, requests, after=after)
    try:
        call(PATH, filesystem=filesystem)
    except (RuntimeError, CommitUnfinished):
        return True
    return filesystem.left[0] <= 0


FILES = {"sales/a.csv": b"row\n", "sales/b.csv": b"row\n"}


def again(scene: MemoryScene) -> None:
    if any(key.endswith(PENDING) for key in scene.objects()):
        scene.filesystem.publish(PATH)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_publishing_that_dies_anywhere_is_finished_by_recover_and_a_second_call(after: bool) -> None:
    died = True
    for requests in range(1, 200):
        scene = MemoryScene()
        write(scene, "a.csv", "b.csv")
        if not (died := dies(scene, paths_of_users.publish, requests, after=after)):
            break
        magicfs.Dataset("memory://bucket/sales", filesystem=scene.wrapped).recover()
        assert data(scene) in ({}, FILES), requests
        again(scene)
        assert data(scene) == FILES, requests
        assert (left(scene), scene.uploads()) == ([], []), requests
        assert magicfs.Dataset("memory://bucket/sales", filesystem=scene.wrapped).verify().ok
    assert not died


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_path_whose_publishing_died_can_be_discarded_or_is_published(after: bool) -> None:
    died = True
    for requests in range(1, 200):
        scene = MemoryScene()
        write(scene, "a.csv", "b.csv")
        if not (died := dies(scene, paths_of_users.publish, requests, after=after)):
            break
        job = magicfs.Dataset("memory://bucket/sales", filesystem=scene.wrapped).recover(dry_run=True).jobs
        if job and job[0].action == "would finish":
            with pytest.raises(CommitDenied, match="magicfs recover memory://bucket/sales"):
                scene.filesystem.discard(PATH)
            magicfs.Dataset("memory://bucket/sales", filesystem=scene.wrapped).recover()
            assert data(scene) == FILES, requests
        scene.filesystem.discard(PATH)
        assert data(scene) in ({}, FILES), requests
        assert (left(scene), scene.uploads()) == ([], []), requests
    assert not died


@pytest.mark.parametrize("after", [False, True])
def test_discarding_that_dies_anywhere_is_finished_by_a_second_call(after: bool) -> None:
    died = True
    for requests in range(1, 100):
        scene = MemoryScene()
        write(scene, "a.csv", "b.csv")
        if not (died := dies(scene, paths_of_users.discard, requests, after=after)):
            break
        scene.filesystem.discard(PATH)
        assert (data(scene), left(scene), scene.uploads()) == ({}, [], []), requests
    assert not died


def test_aborting_the_job_of_a_path_leaves_the_path_as_it_was(scene: MemoryScene) -> None:
    write(scene, "a.csv")
    assert dies(scene, paths_of_users.publish, 40, after=False)
    [job] = magicfs.Dataset("memory://bucket/sales", filesystem=scene.wrapped).recover().jobs
    if job.action == "left":
        magicfs.Dataset("memory://bucket/sales", filesystem=scene.wrapped).recover(abort=True)
        assert scene.uploads() == ["sales/a.csv"]
        assert scene.filesystem.publish(PATH).files == 1
    assert list(data(scene)) == ["sales/a.csv"]


def test_file_that_is_written_anew_while_the_old_one_is_published_is_kept(scene: MemoryScene) -> None:
    write(scene, "a.csv")

    class Meanwhile(DyingFileSystem):
        def store(self, bucket: str) -> Store:
            return Writing(MemoryFileSystem.store(self, bucket))

    class Writing(DelegatingStore):
        async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[Any]]) -> Any:
            if (operation, key) == ("complete_upload", "sales/a.csv"):
                await scene.filesystem._pipe_file(f"{BASE}/a.csv", b"new\n")
            return await request()

    magicfs.MagicFileSystem(Meanwhile(scene, 0, after=False)).publish(PATH)
    assert data(scene) == {"sales/a.csv": b"row\n"}
    assert len(scene.uploads()) == 1
    scene.filesystem.publish(PATH, mode="overwrite")
    assert data(scene) == {"sales/a.csv": b"new\n"}


# -- two at once ---------------------------------------------------------------------------------------------


class Still(DelegatingStore):
    """Of a process that stands still before one of its requests, while something else happens."""

    def __init__(self, inner: Store, number: int, meanwhile: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(inner)
        self.number, self.meanwhile = number, meanwhile

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[Any]]) -> Any:
        self.number -= 1
        if self.number == 0:
            await self.meanwhile()
        return await request()


CALLS: dict[str, Callable[[Engine], Awaitable[Any]]] = {}
for _mode in ("append", "overwrite", "overwrite_partitions"):
    CALLS[_mode] = lambda engine, mode=_mode: publish_found(engine, *_place(), mode=mode)  # type: ignore[misc]
CALLS["discard"] = lambda engine: discard_found(engine, *_place())


def _place() -> tuple[paths.Location, Any]:
    return paths.parse_url(PATH), locate(paths.parse_url(PATH).path)


def old(scene: MemoryScene, name: str) -> None:
    write(scene, name, body=b"old\n")
    scene.filesystem.publish(PATH)


def plain(scene: MemoryScene) -> Store:
    return MemoryStore("bucket", scene.wrapped.world)


async def said(call: str, store: Store) -> str:
    try:
        return str((await CALLS[call](Engine(store, 1))).action)
    except (CommitDenied, UsageError):
        return "refused"


@pytest.mark.sample(most=3)
@pytest.mark.parametrize("second", CALLS)
@pytest.mark.parametrize("first", CALLS)
def test_of_two_calls_at_once_one_has_its_way_and_the_other_says_so(first: str, second: str) -> None:
    for number in count(1, 3):
        scene = MemoryScene()
        old(scene, "day=0/old.csv")
        write(scene, "day=1/a.csv", "day=2/b.csv")
        told: list[str] = []

        async def meanwhile(scene: MemoryScene = scene, told: list[str] = told) -> None:
            told.append(await said(second, plain(scene)))

        told.append(sync(scene.filesystem.loop, said, first, Still(plain(scene), number, meanwhile)))
        if len(told) < 2:
            break
        magicfs.Dataset("memory://bucket/sales", filesystem=scene.wrapped).recover()
        second_said, first_said = told
        new = [key for key in data(scene) if key != "sales/day=0/old.csv"]
        who = [call for call, one in ((first, first_said), (second, second_said)) if one == "published"]
        assert len(who) <= 1 or "refused" not in told, (number, told)
        assert new == (["sales/day=1/a.csv", "sales/day=2/b.csv"] if who else []), (number, told)
        assert ("sales/day=0/old.csv" in data(scene)) == (who != ["overwrite"]), (number, told)
        assert magicfs.Dataset("memory://bucket/sales", filesystem=scene.wrapped).verify().ok
        if who or "discarded" in told:
            assert (left(scene), scene.uploads()) == ([], []), (number, told)
        else:  # each has ended the other's job
            assert scene.filesystem.publish(PATH).action == "published"


def test_files_that_another_call_publishes_meanwhile_are_published_before(scene: MemoryScene) -> None:
    old(scene, "old.csv")
    write(scene, "a.csv")

    async def meanwhile() -> None:
        assert await said("append", plain(scene)) == "published"

    store = Still(plain(scene), 5, meanwhile)  # it has seen the records, and has no job yet
    report = sync(scene.filesystem.loop, CALLS["overwrite"], Engine(store, 1))
    assert (report.action, report.files) == ("published before", 1)
    assert "1 file (4 B) of memory://bucket/sales/__magic/mine had already been published" in str(report)
    assert "sales/old.csv" in data(scene)
    assert left(scene) == []


def records(scene: MemoryScene) -> dict[str, bytes]:
    return {key: body for key, body in scene.objects().items() if "__magic" in key}


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
def test_what_is_visible_already_is_never_replaced_by_the_rest_of_its_path(
    scene: MemoryScene, mode: Any
) -> None:
    old(scene, "day=1/old.csv")
    write(scene, "day=1/a.csv", "day=1/b.csv")
    before = records(scene)
    scene.filesystem.publish(f"{BASE}/day=1/a.csv")
    for key in before.keys() - records(scene).keys():  # it could not be tidied up
        scene.put(key, before[key])
    assert scene.filesystem.publish(PATH, mode=mode).files == 2
    kept = {"sales/day=1/old.csv": b"old\n"} if mode == "append" else {}
    assert data(scene) == {"sales/day=1/a.csv": b"row\n", "sales/day=1/b.csv": b"row\n"} | kept
    assert left(scene) == []
    assert magicfs.Dataset("memory://bucket/sales", filesystem=scene.wrapped).verify().ok


def test_path_whose_discarding_died_is_discarded_before_anything_is_published(scene: MemoryScene) -> None:
    write(scene, "a.csv", "b.csv")
    stores = []

    async def die() -> None:
        stores.append(1)
        raise Unavailable("abort_upload", "bucket/sales/b.csv", "nobody answers")

    class Dying(Still):
        async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[Any]]) -> Any:
            if stores or (operation, key) == ("abort_upload", "sales/b.csv"):
                await die()
            return await request()

    with pytest.raises(Unavailable):
        sync(scene.filesystem.loop, CALLS["discard"], Engine(Dying(plain(scene), 0, die), 1))
    with pytest.raises(CommitDenied, match=f"being discarded by job .* magicfs job discard {PATH}"):
        scene.filesystem.publish(PATH)
    assert scene.filesystem.discard(PATH).files == 2
    assert (data(scene), left(scene), scene.uploads()) == ({}, [], [])


# -- the commands --------------------------------------------------------------------------------------------


def test_pending_names_the_commands_that_end_what_it_lists(capsys: pytest.CaptureFixture[str]) -> None:
    bucket = uuid4().hex
    filesystem = MagicFileSystem(target_protocol="memory")
    filesystem.pipe_file(f"{bucket}/sales/__magic/mine/__base/a.csv", b"row\n")
    job = Job(f"memory://{bucket}/sales", mode="append").setup()
    task = job.task(0).setup()
    task.filesystem.pipe_file(f"{task.path}/b.csv", b"row\n")
    assert main(["uploads", f"memory://{bucket}"]) == 1
    told = capsys.readouterr().out
    path, url = f"memory://{bucket}/sales/__magic/mine", f"memory://{bucket}/sales"
    line = f"{url} --job {job.id}"
    assert f"to end: magicfs job publish {path}, or magicfs job discard {path}\n" in told
    line = f"magicfs recover {line}"
    assert f"to end, if its driver is dead: {line} --commit, or {line} --abort\n" in told
    assert main(["--json", "uploads", f"memory://{bucket}"]) == 1
    ends = [tuple(one["end"]) for one in json.loads(capsys.readouterr().out)["pending"]]
    assert (f"magicfs job publish {path}", f"magicfs job discard {path}") in ends

    assert main(["job", "publish", path, "--dry-run"]) == 1
    assert "would publish" in capsys.readouterr().out
    assert main(["job", "publish", path]) == 0
    assert f"{url}/a.csv" in capsys.readouterr().out
    assert main(["job", "publish", path]) == 2
    assert main(["job", "discard", path]) == 0
    job.abort()
    assert main(["uploads", f"memory://{bucket}"]) == 0
