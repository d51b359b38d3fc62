"""``FinalFileSystem``: names, every way of writing, what is published and what never is."""

from __future__ import annotations

import gc
import gzip
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest
from fsspec.implementations.local import LocalFileSystem
from hypothesis import given
from hypothesis import strategies as st
from s3fs import S3FileSystem

from magicfs.classic.filesystem import FinalFileSystem
from magicfs.classic.records import attempts_named, is_unfinished, unfinished_name
from magicfs.classic.tracking import FinalTracker, Scope, Written, final_tracker
from magicfs.errors import MagicError, Unavailable, UsageError
from magicfs.protocol.final_names import unique_name
from magicfs.protocol.ids import AttemptId, JobId
from magicfs.protocol.paths import KEY_BYTES_MAX
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import ObjectInfo
from magicfs.testing import strategies

JOB = JobId("0a1b2c3d-0000-4000-8000-00000000000f")
TASK = "000007"
ATTEMPT = AttemptId("attempt-000007-x1")
SUFFIX = f"-{TASK}-{JOB}"
TEXT = "zażółć\n" * 3000


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    # The tests write to one destination, and what one of them leaves is not the next one's.
    final_tracker().clear()


@pytest.fixture(params=["memory", "local"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, str]:
    """A filesystem to wrap, and a destination in it."""
    if request.param == "local":
        return LocalFileSystem(), f"{tmp_path}/sales"
    filesystem = MemoryFileSystem(world=World())
    filesystem.world.create_bucket("bucket")
    return filesystem, "bucket/sales"


@pytest.fixture
def files(place: tuple[Any, str]) -> FinalFileSystem:
    return FinalFileSystem(*place, (TASK, JOB))


def there(files: FinalFileSystem) -> dict[str, bytes]:
    """Everything below the destination, past the filesystem that is tested."""
    found = files.fs.find(files.root)
    return {name.removeprefix(f"{files.root}/"): files.fs.cat_file(name) for name in found}


# -- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_name", "final"),
    [
        ("part-0.parquet", f"part-0{SUFFIX}.parquet"),
        ("day=1/part-0.snappy.parquet", f"day=1/part-0{SUFFIX}.snappy.parquet"),
        ("plain", f"plain{SUFFIX}"),
        (".hidden", f".hidden{SUFFIX}"),
        (".hidden.csv", f".hidden{SUFFIX}.csv"),
        ("_metadata", f"_metadata{SUFFIX}"),
        ("_SUCCESS", f"_SUCCESS{SUFFIX}"),
        ("a//b.csv", f"a/b{SUFFIX}.csv"),
        ("ends.", f"ends{SUFFIX}."),
        (f"mine-{JOB}.csv", f"mine-{JOB}{SUFFIX}.csv"),
        (f"mine{SUFFIX}.csv", f"mine{SUFFIX}.csv"),
    ],
)
def test_final_name_carries_the_label_and_the_job(
    files: FinalFileSystem, given_name: str, final: str
) -> None:
    files.pipe_file(f"{files.root}/{given_name}", b"row")
    assert there(files) == {final: b"row"}
    assert files.cat_file(f"{files.root}/{given_name}") == b"row"
    assert files.cat_file(f"{files.root}/{final}") == b"row"


@given(st.lists(strategies.elements(), min_size=1, max_size=4), st.sampled_from([TASK, ATTEMPT]))
def test_final_name_of_any_name(elements: list[str], label: str) -> None:
    relative = tuple(elements)
    final = unique_name(relative, label, JOB)
    assert final[:-1] == relative[:-1], "directories keep their names"
    assert unique_name(final, label, JOB) == final
    assert final[-1][:1] == relative[-1][:1] or relative[-1].strip(".") == "", "hidden stays hidden"
    assert list(attempts_named(final[-1], JOB)) == ([label] if label == ATTEMPT else [])
    assert not is_unfinished(final[-1])


@pytest.mark.parametrize(
    "name",
    [
        f"x-{ATTEMPT}-{JOB}.csv",
        f"{ATTEMPT}-{JOB}",
        f"part.0-{ATTEMPT}-{JOB}",
        f"{JOB}-part-{ATTEMPT}-{JOB}.{JOB}",
        f"x-attempt-000001-y-{JOB}-{ATTEMPT}-{JOB}.csv",
        unfinished_name("0" * 16, ATTEMPT, JOB),
    ],
)
def test_attempt_is_read_out_of_a_name(name: str) -> None:
    assert ATTEMPT in attempts_named(name, JOB)


@pytest.mark.parametrize(
    "name",
    [
        "part-0.parquet",
        f"part-{ATTEMPT}-{JOB}0.csv",
        f"part-{ATTEMPT}x-{JOB}.csv",
        f"part-{ATTEMPT}-other-{JOB}",
        f"part-x{ATTEMPT}-{JOB}",
        f"{ATTEMPT}{JOB}",
    ],
)
def test_attempt_is_not_read_into_other_names(name: str) -> None:
    assert ATTEMPT not in attempts_named(name, JOB)


@pytest.mark.parametrize("label", [TASK, ATTEMPT])
def test_a_label_is_put_in_though_the_path_holds_the_job(label: str) -> None:
    assert unique_name(("run", f"a-{JOB}.csv"), label, JOB) == ("run", f"a-{JOB}-{label}-{JOB}.csv")
    assert unique_name((f"job={JOB}", "a.csv"), label, JOB) == (f"job={JOB}", f"a-{label}-{JOB}.csv")


@pytest.mark.parametrize("name", strategies.leaves(strategies.HOSTILE_KEYS))
def test_hostile_names_are_written_and_read(files: FinalFileSystem, name: str) -> None:
    path = f"{files.root}/{name}"
    if files._local and len(os.fsencode(name.rpartition("/")[2] + SUFFIX)) > 255:
        with pytest.raises(OSError, match="too long"):
            files.open(path, "wb")
        assert not files.written
        return
    if not files._local and len(f"sales/{name}{SUFFIX}".encode()) > KEY_BYTES_MAX:
        with pytest.raises(UsageError, match="at most 1,024"):
            files.open(path, "wb")
        assert not files.written
        return
    with files.open(path, "wb") as file:
        file.write(b"row")
    (final,) = files.written.finished
    assert files.cat_file(path) == b"row"
    assert files.info(path)["size"] == 3
    assert files.find(files.root) == [final]
    files.rm(path)
    assert there(files) == {}
    assert not files.written


@pytest.mark.parametrize("name", ["", "/", "../x", "a/./b", "a/..", "a?versionId=b", "/a/../b"])
def test_what_names_no_file_below_the_destination_is_refused(files: FinalFileSystem, name: str) -> None:
    for write in (
        lambda path: files.pipe_file(path, b"row"),
        lambda path: files.open(path, "w"),
        files.touch,
    ):
        with pytest.raises(UsageError):
            write(f"{files.root}/{name}")
    assert not files.written
    assert not files.fs.exists(files.root) or there(files) == {}


def test_destinations_that_begin_alike_are_others(files: FinalFileSystem) -> None:
    for path in (f"{files.root}10/x", f"{files.root}x", files.root.rpartition("/")[0] + "/x"):
        with pytest.raises(UsageError, match="below the destination"):
            files.pipe_file(path, b"row")


def test_names_stay_without_a_suffix(place: tuple[Any, str]) -> None:
    files = FinalFileSystem(*place)
    files.pipe_file(f"{files.root}/part-0.csv", b"row")
    assert there(files) == {"part-0.csv": b"row"}


# -- writing -----------------------------------------------------------------------------------------------


def _opened(mode: str, **kwargs: Any) -> Callable[[FinalFileSystem, str, Path], None]:
    def write(files: FinalFileSystem, path: str, _local: Path) -> None:
        with files.open(path, mode, **kwargs) as file:
            file.write(TEXT.encode() if "b" in mode else TEXT)

    return write


def _put(files: FinalFileSystem, path: str, local: Path) -> None:
    local.write_bytes(TEXT.encode())
    files.put_file(str(local), path)


def _put_many(files: FinalFileSystem, path: str, local: Path) -> None:
    local.write_bytes(TEXT.encode())
    files.put([str(local)], [path])


def _copied(files: FinalFileSystem, path: str, _local: Path) -> None:
    files.fs.makedirs(files.root, exist_ok=True)
    files.fs.pipe_file(f"{files.root}/old", TEXT.encode())
    files.cp_file(f"{files.root}/old", path)
    files.fs.rm_file(f"{files.root}/old")


def _moved(files: FinalFileSystem, path: str, _local: Path) -> None:
    files.pipe_file(f"{files.root}/old", TEXT.encode())
    files.mv(f"{files.root}/old", path)


WAYS: dict[str, Callable[[FinalFileSystem, str, Path], None]] = {
    "wb": _opened("wb"),
    "xb": _opened("xb"),
    "w": _opened("w", encoding="utf-8", newline=""),
    "xt": _opened("xt", encoding="utf-8", newline=""),
    "pipe_file": lambda files, path, _: files.pipe_file(path, TEXT.encode()),
    "pipe": lambda files, path, _: files.pipe({path: TEXT.encode()}),
    "write_text": lambda files, path, _: files.write_text(path, TEXT, encoding="utf-8", newline=""),
    "put_file": _put,
    "put": _put_many,
    "cp_file": _copied,
    "mv": _moved,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_writing_gives_a_final_name_and_is_remembered(
    files: FinalFileSystem, way: str, tmp_path: Path
) -> None:
    path = f"{files.root}/day=1/a b%.csv"
    WAYS[way](files, path, tmp_path / "local")
    final = f"day=1/a b%{SUFFIX}.csv"
    assert there(files) == {final: TEXT.encode()}
    assert files.written.finished == {f"{files.root}/{final}"}
    assert not files.written.open
    assert not files.written.doubtful


def test_touch_and_a_write_of_nothing(files: FinalFileSystem) -> None:
    files.touch(f"{files.root}/a")
    files.open(f"{files.root}/b", "wb").close()
    assert there(files) == {f"a{SUFFIX}": b"", f"b{SUFFIX}": b""}
    if files._local:
        files.touch(f"{files.root}/a", truncate=False)
        assert there(files)[f"a{SUFFIX}"] == b""


def test_compressed_and_compressed_text(files: FinalFileSystem) -> None:
    with files.open(f"{files.root}/a.gz", "wb", compression="infer") as file:
        file.write(b"row")
    with files.open(f"{files.root}/b.csv.gz", "wt", compression="gzip", encoding="utf-8") as file:
        file.write(TEXT)
    found = there(files)
    assert gzip.decompress(found[f"a{SUFFIX}.gz"]) == b"row"
    assert gzip.decompress(found[f"b{SUFFIX}.csv.gz"]).decode() == TEXT


@pytest.mark.parametrize("mode", ["ab", "r+b", "a", "wb+"])
def test_modes_that_change_files_are_refused(files: FinalFileSystem, mode: str) -> None:
    files.pipe_file(f"{files.root}/a", b"row")
    with pytest.raises(UsageError, match="use 'wb'"):
        files.open(f"{files.root}/a", mode)
    assert there(files) == {f"a{SUFFIX}": b"row"}


def test_exclusive_writes_meet_the_file_that_is_there(files: FinalFileSystem) -> None:
    files.pipe_file(f"{files.root}/a", b"row", mode="create")
    with pytest.raises(FileExistsError), files.open(f"{files.root}/a", "xb") as file:
        file.write(b"other")
    assert there(files) == {f"a{SUFFIX}": b"row"}


def test_the_last_of_two_writes_counts_and_a_discarded_one_does_not(files: FinalFileSystem) -> None:
    path = f"{files.root}/a"
    files.pipe_file(path, b"first")
    files.pipe_file(path, b"second")
    with pytest.raises(RuntimeError, match="bad row"), files.open(path, "wb") as file:
        file.write(b"third")
        raise RuntimeError("bad row")
    assert there(files) == {f"a{SUFFIX}": b"second"}
    assert files.written.finished == {f"{files.root}/a{SUFFIX}"}


def test_many_threads_write_at_once(files: FinalFileSystem) -> None:
    def write(number: int) -> None:
        for one in range(5):
            files.pipe_file(f"{files.root}/{number}/{one}", b"row")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(there(files)) == 30
    assert {name.removeprefix(f"{files.root}/") for name in files.written.finished} == set(there(files))


# -- what is never published -------------------------------------------------------------------------------

OPEN: dict[str, Callable[[FinalFileSystem, str], Any]] = {
    "wb": lambda files, path: files.open(path, "wb"),
    "w": lambda files, path: files.open(path, "w", encoding="utf-8"),
    "gzip": lambda files, path: files.open(path, "wb", compression="gzip"),
    "gzip text": lambda files, path: files.open(path, "wt", compression="gzip", encoding="utf-8"),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", OPEN)
def test_a_body_that_raises_publishes_nothing(files: FinalFileSystem, way: str) -> None:
    with pytest.raises(RuntimeError, match="bad row"), OPEN[way](files, f"{files.root}/a") as file:
        file.write(TEXT if way in {"w", "gzip text"} else TEXT.encode())
        raise RuntimeError("bad row")
    file.close()
    assert file.closed
    del file
    gc.collect()
    assert not files.fs.exists(files.root) or there(files) == {}
    assert not files.written


@pytest.mark.parametrize("way", OPEN)
def test_a_file_that_is_collected_publishes_nothing(
    files: FinalFileSystem, way: str, recwarn: pytest.WarningsRecorder
) -> None:
    file = OPEN[way](files, f"{files.root}/a")
    file.write(TEXT if way in {"w", "gzip text"} else TEXT.encode())
    assert files.written.open
    del file
    gc.collect()
    recwarn.clear()
    assert not files.fs.exists(files.root) or there(files) == {}
    assert files.written == Written(dropped={files.final_path(f"{files.root}/a")})


def test_a_file_whose_task_has_ended_cannot_be_published_any_more(files: FinalFileSystem) -> None:
    late, later = files.open(f"{files.root}/a", "wb"), files.open(f"{files.root}/b", "wb")
    late.write(b"row")
    final_tracker().take(files._scope)
    with pytest.raises(UsageError, match="closed too late"):
        late.close()
    with pytest.raises(UsageError, match="closed too late"), later:
        later.write(b"row")
    late.close()
    assert there(files) == {}
    assert not files.written


def test_a_closed_file_takes_nothing_more(files: FinalFileSystem) -> None:
    file = files.open(f"{files.root}/a", "wb")
    assert (file.writable(), file.readable(), file.seekable()) == (True, False, False)
    file.write(memoryview(b"row"))
    file.flush()
    assert file.tell() == 3
    file.close()
    file.close()
    file.abort()
    with pytest.raises(UsageError, match="committed"):
        file.write(b"more")
    assert there(files) == {f"a{SUFFIX}": b"row"}


class _Failing(MemoryFileSystem):
    """Files in a world of their own, whose writes fail, done or not."""

    def __init__(self, *, done: bool) -> None:
        super().__init__(world=World())
        self.world.create_bucket("bucket")
        self.done = done
        self.failing = True

    def store(self, bucket: str) -> MemoryStore:
        owner = self

        class Store(MemoryStore):
            async def put(self, key: str, body: Any, **options: Any) -> ObjectInfo:
                if not owner.failing:
                    return await super().put(key, body, **options)
                if owner.done:
                    await super().put(key, body, **options)
                raise Unavailable("put", key, "no answer")

        return Store(bucket, self.world)


@pytest.mark.parametrize("done", [False, True])
def test_a_close_that_fails_leaves_a_doubt(done: bool) -> None:
    files = FinalFileSystem(_Failing(done=done), "bucket/sales", (TASK, JOB))
    final = f"bucket/sales/a{SUFFIX}"
    with pytest.raises(Unavailable), files.open("bucket/sales/a", "w") as file:
        file.write("row")
    assert files.written.doubtful == {final}
    assert not files.written.finished
    assert not files.written.open
    with pytest.raises(Unavailable):
        files.cp_file(final, "bucket/sales/b") if done else files.touch("bucket/sales/b")
    assert len(files.written.doubtful) == 2
    files.fs.failing = False
    files.pipe_file("bucket/sales/a", b"row")
    files.pipe_file("bucket/sales/b", b"row")
    assert not files.written.doubtful
    assert len(files.written.finished) == 2
    final_tracker().clear()


def test_readers_of_a_local_destination_never_see_a_part(tmp_path: Path) -> None:
    files = FinalFileSystem(LocalFileSystem(), f"{tmp_path}/sales", (ATTEMPT, JOB))
    with files.open(f"{tmp_path}/sales/a.csv", "wb") as file:
        file.write(b"row")
        (hidden,) = (tmp_path / "sales").iterdir()
        assert is_unfinished(hidden.name)
        assert list(attempts_named(hidden.name, JOB)) == [ATTEMPT]
    assert [one.name for one in (tmp_path / "sales").iterdir()] == [f"a-{ATTEMPT}-{JOB}.csv"]


def test_a_directory_in_the_way_of_a_local_file_fails_its_close(tmp_path: Path) -> None:
    files = FinalFileSystem(LocalFileSystem(), f"{tmp_path}/sales", (TASK, JOB))
    (tmp_path / f"sales/a{SUFFIX}").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        files.pipe_file(f"{tmp_path}/sales/a", b"row")
    assert [one.name for one in (tmp_path / "sales").iterdir()] == [f"a{SUFFIX}"]
    assert files.written.doubtful
    final_tracker().clear()


@pytest.mark.process
def test_a_file_of_the_parent_is_not_the_childs(files: FinalFileSystem) -> None:
    file = files.open(f"{files.root}/a", "wb")
    file.write(b"row")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert not final_tracker().snapshot(files._scope)
            try:
                file.write(b"more")
            except UsageError as error:
                code = 0 if "another process" in str(error) else 2
            del file
            gc.collect()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    file.close()
    assert there(files) == {f"a{SUFFIX}": b"row"}


# -- transactions ------------------------------------------------------------------------------------------


def test_a_transaction_publishes_all_files_at_its_end(files: FinalFileSystem) -> None:
    with files.transaction:
        files.pipe_file(f"{files.root}/a", b"row")
        with files.open(f"{files.root}/b", "wb") as file:
            file.write(b"row")
        assert not files.written.finished
        assert not [name for name in files.fs.find(files.root) if not is_unfinished(name.rpartition("/")[2])]
    assert there(files) == {f"a{SUFFIX}": b"row", f"b{SUFFIX}": b"row"}
    assert len(files.written.finished) == 2


def test_a_transaction_that_fails_publishes_nothing(files: FinalFileSystem) -> None:
    def fail() -> None:
        with files.transaction:
            files.pipe_file(f"{files.root}/a", b"row")
            raise RuntimeError("bad row")

    with pytest.raises(RuntimeError, match="bad row"):
        fail()
    assert not files.fs.exists(files.root) or there(files) == {}
    assert not files.written


# -- looking, reading, removing ----------------------------------------------------------------------------


def test_a_task_lists_only_what_it_wrote_under_final_names(files: FinalFileSystem) -> None:
    files.fs.makedirs(files.root, exist_ok=True)
    files.fs.pipe_file(f"{files.root}/old.csv", b"old")
    assert files.find(files.root) == []
    assert files.ls(files.root) == []
    assert files.ls(f"{files.root}/old.csv", detail=False) == [f"{files.root}/old.csv"]
    assert files.cat_file(f"{files.root}/old.csv") == b"old"
    files.pipe_file(f"{files.root}/a.csv", b"row")
    files.pipe_file(f"{files.root}/day=1/b.csv", b"rows")
    assert files.find(files.root) == [f"{files.root}/a{SUFFIX}.csv", f"{files.root}/day=1/b{SUFFIX}.csv"]
    assert files.ls(files.root, detail=False) == [f"{files.root}/a{SUFFIX}.csv", f"{files.root}/day=1"]
    assert [one["size"] for one in files.ls(f"{files.root}/day=1")] == [4]
    assert files.glob(f"{files.root}/*.csv") == [f"{files.root}/a{SUFFIX}.csv"]
    assert [one[0] for one in files.walk(files.root)] == [files.root, f"{files.root}/day=1"]
    other = FinalFileSystem(files.fs, files.root, ("000008", JOB))
    assert other.find(files.root) == []
    assert not other.exists(f"{files.root}/a.csv")
    with pytest.raises(FileNotFoundError):
        files.ls(f"{files.root}/nothing")


def test_reading_by_the_given_name(files: FinalFileSystem, tmp_path: Path) -> None:
    path = f"{files.root}/a.csv"
    with pytest.raises(FileNotFoundError):
        files.cat_file(path)
    files.pipe_file(path, b"a row")
    final = f"{files.root}/a{SUFFIX}.csv"
    assert files.info(path)["name"] == final
    assert files.exists(path)
    assert files.isfile(path)
    assert files.size(path) == 5
    assert files.cat_file(path, start=2) == b"row"
    assert files.cat(path) == b"a row"
    with files.open(path, "r") as text:
        assert text.read() == "a row"
    with files.open(path, "rb") as file:
        assert file.read() == b"a row"
    files.get_file(path, str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == b"a row"
    assert files.modified(path) == files.modified(final)
    assert files.checksum(path) == files.checksum(final)
    assert files.unstrip_protocol(final).endswith(f"/a{SUFFIX}.csv")
    files.invalidate_cache()
    final_tracker().clear()
    assert not files.exists(path), "another process knows only final names"
    assert files.exists(final)


def test_a_task_removes_only_what_it_wrote(files: FinalFileSystem) -> None:
    files.fs.makedirs(files.root, exist_ok=True)
    files.fs.pipe_file(f"{files.root}/old.csv", b"old")
    files.pipe({f"{files.root}/{name}": b"row" for name in ("a", "b[1]", "d/c", "d/e")})
    with pytest.raises(UsageError, match="not written by this task"):
        files.rm(f"{files.root}/old.csv")
    with pytest.raises(FileNotFoundError):
        files.rm(f"{files.root}/nothing")
    files.rm([f"{files.root}/a", f"{files.root}/b[1]"])
    files.rm(f"{files.root}/d/c")
    assert there(files) == {"old.csv": b"old", f"d/e{SUFFIX}": b"row"}
    files.rm(files.root, recursive=True)
    assert there(files) == {"old.csv": b"old"}
    assert not files.written


def test_directories_are_made_on_this_machine_only(files: FinalFileSystem) -> None:
    files.mkdir(f"{files.root}/a/b")
    files.makedirs(f"{files.root}/a/b", exist_ok=True)
    assert files.fs.isdir(f"{files.root}/a/b") is files._local
    files.rmdir(f"{files.root}/a/b")
    assert not files.fs.isdir(f"{files.root}/a/b")
    if not files._local:
        files.makedirs("no-such-bucket/sales")
        assert files.fs.world.buckets() == ["bucket"]


# -- writers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behaviour", ["error", "overwrite_or_ignore", "delete_matching"])
def test_pyarrow_writes_a_partitioned_dataset_beside_old_data(files: FinalFileSystem, behaviour: Any) -> None:
    table = pa.table({"day": ["mon", "tue"] * 5, "amount": list(range(10))})
    files.fs.makedirs(f"{files.root}/day=mon", exist_ok=True)
    files.fs.pipe_file(f"{files.root}/day=mon/old.parquet", b"old")
    pa.dataset.write_dataset(
        table,
        files.root,
        filesystem=files,
        format="parquet",
        partitioning=["day"],
        partitioning_flavor="hive",
        existing_data_behavior=behaviour,
    )
    assert sorted(there(files)) == [
        "day=mon/old.parquet",
        f"day=mon/part-0{SUFFIX}.parquet",
        f"day=tue/part-0{SUFFIX}.parquet",
    ]
    found = pa.dataset.dataset(sorted(files.written.finished), filesystem=files, format="parquet")
    assert sorted(found.to_table()["amount"].to_pylist()) == list(range(10))


def test_pandas_writes_through_open(files: FinalFileSystem) -> None:
    frame = pd.DataFrame({"amount": [1, 2]})
    with files.open(f"{files.root}/a.csv", "w") as text:
        frame.to_csv(text, index=False)
    with files.open(f"{files.root}/a.parquet", "wb") as file:
        frame.to_parquet(file)
    frame.to_parquet(f"{files.root}/b.parquet", filesystem=files)
    names = [f"a{SUFFIX}.csv", f"a{SUFFIX}.parquet", f"b{SUFFIX}.parquet"]
    assert sorted(there(files)) == names
    with files.open(f"{files.root}/b.parquet", "rb") as written:
        assert pd.read_parquet(written).equals(frame)


# -- pickles -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [LocalFileSystem(), MemoryFileSystem()])
def test_it_pickles_and_remembers_nothing(wrapped: Any, tmp_path: Path) -> None:
    root = f"{tmp_path}/sales" if isinstance(wrapped, LocalFileSystem) else "final-files-pickled/sales"
    files = FinalFileSystem(wrapped, root, (ATTEMPT, JOB))
    copy = pickle.loads(pickle.dumps(files))
    assert (copy.root, copy._suffix, type(copy.fs)) == (root, (ATTEMPT, JOB), type(wrapped))
    copy.pipe_file(f"{root}/a", b"row")
    assert files.exists(f"{root}/a-{ATTEMPT}-{JOB}")
    wrapped.rm(root, recursive=True)
    final_tracker().clear()


def test_secrets_stay_out_of_pickles_and_descriptions() -> None:
    wrapped = S3FileSystem(
        key="a-key-id", secret="s3cr3t", endpoint_url="http://127.0.0.1:1", skip_instance_cache=True
    )
    files = FinalFileSystem(wrapped, "bucket/sales", (TASK, JOB))
    raw = pickle.dumps(files)
    assert b"s3cr3t" not in raw
    assert "s3cr3t" not in files.to_json() + repr(files)
    copy = pickle.loads(raw)
    assert (copy.fs.endpoint_url, copy.fs.secret, copy.root) == ("http://127.0.0.1:1", None, "bucket/sales")


# -- the tracker -------------------------------------------------------------------------------------------


def test_the_tracker_keeps_scopes_apart_and_forgets_empty_ones() -> None:
    tracker, scope = FinalTracker(), Scope("memory:1/bucket", "bucket/sales", JOB, TASK)
    ticket = tracker.opened(scope, "a")
    assert tracker.is_open(scope, ticket)
    assert not tracker.is_open(scope._replace(label="other"), ticket)
    tracker.discarded(scope, ticket)
    tracker.discarded(scope, ticket)
    tracker.removed(scope, "a")
    assert tracker.scopes_of("memory:1/bucket", "bucket/sales", JOB) == []
    tracker.finished(scope, tracker.opened(scope, "a"), "a")
    tracker.doubtful(scope, ["b"])
    assert tracker.wrote(scope, "a")
    assert not tracker.wrote(scope, "b")
    assert tracker.scopes_of("memory:1/bucket", "bucket/sales", JOB) == [scope]
    assert tracker.scopes_of("memory:1/bucket", "bucket/sales", "other") == []
    tracker.removed(scope, "b")
    assert tracker.take(scope).finished == {"a"}
    assert not tracker.snapshot(scope)


def test_errors_are_of_the_tree() -> None:
    assert issubclass(UsageError, MagicError)
