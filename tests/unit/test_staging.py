"""Tasks of the staging committers: what is uploaded, under which names, and what a failure leaves.

Many of these are the cases of Hadoop's ``TestStagingCommitter``, ``TestPaths`` and
``TestStagingPartitionedFileListing``, with parts of 100 bytes as there.
"""

from __future__ import annotations

import os
import pickle
import resource
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.committers.registry import StagingOptions
from magicfs.errors import (
    CommitFailed,
    CommitOutcomeUnknown,
    MagicError,
    StoreError,
    Unavailable,
    UsageError,
)
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.task import Task
from magicfs.protocol.parts import PartLimits, even_part_size
from magicfs.protocol.readback import WRITE_ID
from magicfs.report import Progress
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import MemoryStore, World
from magicfs.stores.port import Capabilities
from magicfs.testing.store_faults import Fault, Kind, Request
from proofs.scenes.staged_scene import StagedScene, write

KINDS = pytest.mark.parametrize("committer", ["directory", "partitioned"])


@pytest.fixture
def scene(tmp_path: Path) -> StagedScene:
    return StagedScene(tmp_path)


def attempt(job: magicfs.Job, files: dict[str, bytes], task: int = 0) -> Task:
    """A task that has written."""
    made = Task(job.spec, job.task(task).id).setup()
    write(made.path, files)
    return made


def stored(scene: StagedScene, commit: TaskCommit) -> PendingSet:
    """The pending set of a commit, as it lies in the store."""
    assert commit.set_key is not None
    return PendingSet.from_bytes("set", scene.objects()[commit.set_key][0])


def finals(scene: StagedScene) -> list[str]:
    """Final keys of pending uploads, below the destination."""
    return [key.removeprefix("sales/") for key, _ in scene.uploads()]


# -- where attempts write ------------------------------------------------------------------------------


def test_attempt_writes_in_a_local_directory_named_by_job_and_attempt(scene: StagedScene) -> None:
    job = scene.job()
    task = job.task(3).setup()
    assert Path(task.path) == scene.directory / f"{job.id}-{task.attempt_id}"
    assert Path(task.path).is_dir()
    assert Path(task.path).stat().st_mode & 0o777 == 0o700
    assert task.url("d=1/x.csv") == f"{task.path}/d=1/x.csv"
    task.abort()


def test_two_attempts_have_two_directories(scene: StagedScene) -> None:
    job = scene.job()
    first, second = job.task(0).setup(), job.task(0).setup()
    assert first.path != second.path
    assert len([name for name in scene.local() if not name.endswith(".lock")]) == 2
    first.abort()
    second.abort()
    assert scene.local() == []


@pytest.mark.process
def test_every_local_writer_may_be_used(scene: StagedScene) -> None:
    import fsspec
    import pandas as pd
    import pyarrow as pa
    import pyarrow.dataset as ds

    job = scene.job()
    with job.task(0) as task:
        Path(task.path, "a").mkdir()
        Path(task.path, "a", "plain.txt").write_text("plain")
        task.filesystem.pipe_file(f"{task.path}/b/by-fsspec.txt", b"fsspec")
        with fsspec.open(task.url("c.txt"), "wb", **task.storage_options) as file:
            file.write(b"url")
        pd.DataFrame({"x": [1]}).to_csv(f"{task.path}/pandas.csv")
        ds.write_dataset(pa.table({"x": [1]}), f"{task.path}/arrow", format="parquet")
        ds.write_dataset(
            pa.table({"x": [2]}), f"{task.path}/arrow2", format="csv", filesystem=task.filesystem
        )
        subprocess.run(
            [sys.executable, "-c", f"open({task.path + '/other.txt'!r}, 'w').write('x')"], check=True
        )
    assert job.commit(job.commits).files == 7
    stems = {name.split(f"-{task.id}-")[0] for name in scene.data()}
    assert stems == {
        *("a/plain", "b/by-fsspec", "c", "pandas", "other"),
        *("arrow/part-0", "arrow2/part-0"),
    }


@pytest.mark.parametrize("given", ["relative/path", "hdfs://namenode/tmp", "file:///tmp", ""])
def test_work_directory_must_be_an_absolute_local_path(scene: StagedScene, given: str) -> None:
    with pytest.raises(UsageError, match=r"work_directory=.* is not the absolute path of a local directory"):
        scene.job(committer_options={"work_directory": given})


def test_work_directory_that_cannot_be_made_fails_the_setup_of_the_task(tmp_path: Path) -> None:
    (tmp_path / "staged").write_text("a file is in the way")
    job = StagedScene(tmp_path).job()
    task = job.task(0)
    with pytest.raises(
        UsageError, match=r"local directory .* cannot be created: .*; free space there, or choose"
    ):
        task.setup()
    (tmp_path / "staged").unlink()
    with task:
        write(task.path, {"a.txt": b"x"})
    assert job.commit(job.commits).files == 1


def test_default_work_directory_is_this_users_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = tmp_path / f"magicfs-{os.geteuid()}"
    own.mkdir(mode=0o777)
    with StagedScene(tmp_path).job(committer_options={}).task(0) as task:
        assert Path(task.path).parent == own
        assert own.stat().st_mode & 0o7777 == 0o700


@pytest.mark.parametrize("what", ["link", "file"])
def test_default_work_directory_that_somebody_else_has_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own, private = tmp_path / f"magicfs-{os.geteuid()}", tmp_path / "private"
    private.mkdir()
    if what == "link":
        own.symlink_to(private)
    else:
        own.touch()
    task = StagedScene(tmp_path).job(committer_options={}).task(0)
    with pytest.raises(UsageError, match="does not belong to this user: somebody else created it"):
        task.setup()
    assert list(private.iterdir()) == []


def test_options_pickle_without_secrets() -> None:
    options = StagingOptions(
        work_directory="/scratch",
        cluster_directory="hdfs://nn/stage",
        cluster_storage_options={"user": "etl", "password": "hunter2", "nested": {"token": "t", "a": 1}},
        cluster_user="somebody",
    )
    copy = pickle.loads(pickle.dumps(options))
    assert copy.cluster_storage_options == {"user": "etl", "nested": {"a": 1}}
    assert (copy.work_directory, copy.cluster_user) == ("/scratch", "somebody")
    assert "hunter2" not in repr(options)


@pytest.mark.parametrize("name", ["", "..", "a/b", ".x"])
def test_cluster_user_is_one_safe_name(name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid directory name"):
        StagingOptions(cluster_user=name)


# -- what is uploaded ----------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("unique", [True, False])
def test_one_file_is_one_upload_and_one_set_named_by_the_attempt(
    tmp_path: Path, committer: str, unique: bool
) -> None:
    scene = StagedScene(tmp_path, committer)
    job = scene.job(part_size=100, unique_names=unique)
    task = attempt(job, {"part-0.csv": b"x" * 250})
    commit = task.commit()
    assert commit.set_key == job.spec.work_layout.set_key(task.attempt_id)
    assert [key for key in scene.work() if key.endswith(".pendingset")] == [
        commit.set_key.removeprefix("sales/")
    ]
    (pending,) = stored(scene, commit).commits
    name = f"part-0-{task.id}-{job.id}.csv" if unique else "part-0.csv"
    assert (pending.bucket, pending.destination_key) == (scene.bucket, f"sales/{name}")
    assert scene.uploads() == [(pending.destination_key, pending.upload_id)]
    assert (pending.length, len(pending.parts)) == (250, 3)
    assert (pending.job_id, pending.task_id) == (job.id, task.attempt_id)
    assert pending.uri == f"memory://{scene.bucket}/sales/{name}"
    assert scene.data() == {}
    assert scene.local() == []
    job.commit([commit])
    assert scene.data() == {name: b"x" * 250}


def test_published_object_bears_the_write_id_of_its_upload(scene: StagedScene) -> None:
    job = scene.job()
    (commit,) = scene.wrote(job, {"a.txt": b"x"})
    write_id = stored(scene, commit).commits[0].extra_data[WRITE_ID]
    job.commit([commit])
    (key,) = (f"sales/{name}" for name in scene.data())
    head = scene.elsewhere(lambda engine: engine.store.head(key))
    assert head.metadata[WRITE_ID] == write_id


@pytest.mark.parametrize("unique", [True, False])
def test_three_files_keep_their_directories(scene: StagedScene, unique: bool) -> None:
    job = scene.job(unique_names=unique)
    (commit,) = scene.wrote(job, {"a": b"1", "d=1/b.x.y": b"2", "d=1/e=2/.c": b"3", "d=1/e=2/d.csv": b"4"})
    label = f"-000000-{job.id}" if unique else ""
    expected = [f"a{label}", f"d=1/b{label}.x.y", f"d=1/e=2/d{label}.csv"]
    assert finals(scene) == sorted(expected)
    assert commit.files == 3


LEFT_OUT = {"_metadata": b"", ".x.partial": b"", "d=1/_committed": b"", "_d=1/.part.crc": b"", "_x/.y": b""}
PUBLISHED = {"d=1/x_.csv": b"1", "_d=1/x.csv": b"2", "_d=1/_x=1.csv": b"3", "_x/y/z.csv": b"4", ".x/y": b"5"}


def test_a_files_own_name_decides_whether_it_is_left_out_as_in_hadoop(
    scene: StagedScene, caplog: pytest.LogCaptureFixture
) -> None:
    job = scene.job(unique_names=False)
    task = attempt(job, LEFT_OUT | PUBLISHED)
    commit = task.commit()
    assert commit.files == len(PUBLISHED)
    assert finals(scene) == sorted(PUBLISHED)
    (said,) = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert said.startswith(f"task {task.id}: {len(LEFT_OUT)} local files were left out")
    (warning,) = job.commit([commit]).warnings
    assert f"{len(LEFT_OUT)} local files were left out" in warning
    assert job.report.statistics.counters["committer_files_left_out"] == len(LEFT_OUT)


def test_files_with_hidden_names_are_published_where_they_are_data(
    scene: StagedScene, caplog: pytest.LogCaptureFixture
) -> None:
    job = scene.job(unique_names=False, committer_options={**scene.options, "hidden_files": "data"})
    commit = attempt(job, LEFT_OUT | PUBLISHED).commit()
    assert finals(scene) == sorted(LEFT_OUT | PUBLISHED)
    assert job.commit([commit]).warnings == ()
    assert not [one for one in caplog.records if one.levelname == "WARNING"]
    task = (
        scene.job(mode="append", committer_options={**scene.options, "hidden_files": "data"}).task(1).setup()
    )
    with (Path(task.path) / ".metadata").open("wb"), pytest.raises(CommitFailed, match="still open"):
        task.commit()


def test_hidden_files_are_data_or_skipped() -> None:
    with pytest.raises(UsageError, match="hidden_files='drop' is unknown; choose one of skip, data"):
        StagingOptions(hidden_files="drop")  # type: ignore[arg-type]


def test_an_attempt_whose_files_are_all_left_out_is_committed_so_that_somebody_hears_of_it(
    scene: StagedScene,
) -> None:
    job = scene.job()
    task = attempt(job, {"_metadata": b"1"})
    assert task.needs_commit()
    assert "1 local file was left out" in job.commit([task.commit()]).warnings[0]


@pytest.mark.parametrize("name", ["_temporary/0/x.csv", "d=1/_magicfs/x", "__magic/x"])
def test_files_in_places_kept_for_committers_fail_the_task(scene: StagedScene, name: str) -> None:
    job = scene.job()
    with pytest.raises(CommitFailed, match="reserved for committers"):
        attempt(job, {name: b"1", "a": b"2"}).commit()
    assert finals(scene) == []


def test_empty_directories_are_nothing(scene: StagedScene) -> None:
    job = scene.job()
    task = attempt(job, {})
    Path(task.path, "d=1", "e=2").mkdir(parents=True)
    assert not task.needs_commit()
    assert task.commit().files == 0


@pytest.mark.parametrize(
    "name", ["a b%20#?+.csv", "größe=1/naïve ☃.csv", "-", "a\nb", "x" * 200, "a\\b", "*?[a]"]
)
def test_hostile_names_are_published_as_they_are(scene: StagedScene, name: str) -> None:
    job = scene.job(unique_names=False)
    job.commit(scene.wrote(job, {name: b"body"}))
    assert scene.data() == {name: b"body"}


def test_name_that_is_no_utf_8_fails_the_task(scene: StagedScene) -> None:
    job = scene.job()
    task = attempt(job, {"a.txt": b"1"})
    Path(os.fsdecode(os.fsencode(task.path) + b"/\xff.txt")).write_bytes(b"2")
    with pytest.raises(CommitFailed, match=r"'\\udcff\.txt' has a name that is not UTF-8, as keys must be"):
        task.commit()
    assert (scene.uploads(), scene.local()) == ([], [])


# -- links and special files ---------------------------------------------------------------------------


def test_link_to_a_file_of_the_attempt_is_that_file(scene: StagedScene) -> None:
    job = scene.job(unique_names=False)
    task = attempt(job, {"d/a.txt": b"content"})
    Path(task.path, "b.txt").symlink_to("d/a.txt")
    task.commit()
    job.commit()
    assert scene.data() == {"b.txt": b"content", "d/a.txt": b"content"}


@pytest.mark.parametrize("kind", ["out", "absolute", "broken", "directory", "loop", "pipe"])
def test_what_is_no_file_of_the_attempt_fails_the_task(scene: StagedScene, tmp_path: Path, kind: str) -> None:
    (tmp_path / "secret.txt").write_text("not the task's")
    job = scene.job()
    task = attempt(job, {"good.txt": b"1", "d/x.txt": b"2"})
    odd = Path(task.path, "odd.txt")
    told = {
        "out": "is a symbolic link out of the attempt's directory",
        "absolute": "is a symbolic link out of the attempt's directory",
        "broken": "is a symbolic link that leads nowhere",
        "directory": "is not a file, but a symbolic link to a directory",
        "loop": "is a symbolic link that leads nowhere",
        "pipe": "is not a file, but a pipe, socket or device",
    }
    match kind:
        case "out":
            odd.symlink_to("../../secret.txt")
        case "absolute":
            odd.symlink_to(tmp_path / "secret.txt")
        case "broken":
            odd.symlink_to("nothing")
        case "directory":
            odd.symlink_to("d")
        case "loop":
            odd.symlink_to("odd.txt")
        case "pipe":
            os.mkfifo(odd)
    assert task.needs_commit()
    with pytest.raises(CommitFailed, match=f"task 000000 was not committed: 'odd.txt' {told[kind]}"):
        task.commit()
    assert (scene.uploads(), scene.local(), scene.bodies()) == ([], [], [])


@pytest.mark.parametrize("instead", ["directory", "pipe", "link", "nothing", "longer", "shorter", "other"])
def test_file_that_is_exchanged_while_the_task_commits_fails_it(
    scene: StagedScene, tmp_path: Path, instead: str
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_bytes(b"s" * 300)
    job = scene.job(part_size=100, concurrency=1)
    made: list[Task] = []

    def exchange(request: Request) -> None:
        path = Path(made[0].path, "b.txt")
        if request.operation == "put_part" and path.is_file() and path.stat().st_size == 300:
            old = path.stat()
            if instead in {"directory", "pipe", "link", "nothing"}:
                path.unlink()
            match instead:
                case "link":
                    os.utime(secret, ns=(old.st_atime_ns, old.st_mtime_ns))
                    path.symlink_to(secret)
                case "directory":
                    path.mkdir()
                case "pipe":
                    os.mkfifo(path)
                case "longer":
                    path.write_bytes(b"b" * 301)
                case "shorter":
                    path.write_bytes(b"b" * 120)
                case "other":
                    path.write_bytes(b"c" * 300)
                    os.utime(path, ns=(1, 1))

    worker, _ = scene.worker(job, before=exchange)
    made.append(attempt(worker, {"a.txt": b"a", "b.txt": b"b" * 300}))
    with pytest.raises(CommitFailed, match=r"the local file .*/b\.txt (cannot be read|was changed)"):
        made[0].commit()
    assert (scene.uploads(), scene.local()) == ([], [])


def test_directory_that_is_removed_while_the_task_commits_fails_it(scene: StagedScene) -> None:
    job = scene.job(part_size=100, concurrency=1)
    made: list[Task] = []

    def remove(request: Request) -> None:
        if request.operation == "put_part":
            Path(made[0].path).rename(f"{made[0].path}-elsewhere")

    worker, _ = scene.worker(job, before=remove)
    made.append(attempt(worker, {"a.txt": b"a"}))
    with pytest.raises(
        CommitFailed, match=r"is not on this machine, .*, or was removed; nothing was committed"
    ):
        made[0].commit()
    assert scene.uploads() == []


# -- what can be known of files that are not whole -----------------------------------------------------


def test_file_that_is_still_open_for_writing_fails_the_task(scene: StagedScene) -> None:
    job = scene.job()
    task = attempt(job, {"a.txt": b"x"})
    with Path(task.path, "b.txt").open("w") as file, Path(task.path, "_log").open("w"):
        file.write("is still in the buffer")
        with pytest.raises(CommitFailed, match=r"'b\.txt' is still open for writing; close every file"):
            task.commit()
    assert (scene.uploads(), scene.local()) == ([], [])


def test_files_that_are_open_for_reading_do_not_matter(scene: StagedScene) -> None:
    job = scene.job()
    task = attempt(job, {"a.txt": b"x"})
    with Path(task.path, "a.txt").open("rb"), Path(task.path, "_log").open("w"):
        assert task.commit().files == 1


FULL = """
import resource, sys
import magicfs
from pathlib import Path
from proofs.scenes.staged_scene import StagedScene

scene = StagedScene(Path(sys.argv[1]))
job = scene.job()
task = job.task(0).setup()
resource.setrlimit(resource.RLIMIT_FSIZE, (2048, resource.RLIM_INFINITY))
try:
    with open(task.path + "/a.txt", "wb") as file:
        file.write(bytes(10_000))
except OSError as error:
    print("the writer met", type(error).__name__)
assert 0 < Path(task.path, "a.txt").stat().st_size < 10_000
try:
    task.commit()
except magicfs.errors.CommitFailed as error:
    print(error)
assert scene.uploads() == [] and scene.local() == []
"""


@pytest.mark.process
def test_writer_that_hid_its_error_on_a_full_disk_cannot_commit(tmp_path: Path) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert soft == resource.RLIM_INFINITY
    shown = subprocess.run(
        [sys.executable, "-W", "error", "-c", FULL, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    assert "the writer met OSError" in shown.stdout
    assert "nothing can be written in" in shown.stdout
    assert "so files may be short" in shown.stdout


# -- failures of the store -----------------------------------------------------------------------------


def failed(scene: StagedScene, files: dict[str, bytes], *faults: Fault, **options: Any) -> MagicError:
    """The error of a task commit that meets faults; afterwards nothing of the attempt is left."""
    job = scene.job(part_size=100, **options)
    worker, traffic = scene.worker(job, *faults)
    task = attempt(worker, files)
    with pytest.raises(MagicError) as caught:
        task.commit()
    assert traffic.met
    assert scene.local() == []
    assert scene.data() == {}
    return caught.value


def test_upload_that_cannot_be_opened_fails_the_task_and_aborts_the_others(scene: StagedScene) -> None:
    error = failed(
        scene,
        {"a.txt": b"1", "b.txt": b"2"},
        Fault(Kind.ERROR_BEFORE, operation="create_upload", skip=1),
        concurrency=1,
    )
    assert isinstance(error, Unavailable)
    assert scene.uploads() == []


@pytest.mark.parametrize(("files", "skip"), [({"a.txt": 300}, 2), ({"a.txt": 300, "b.txt": 300}, 5)])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_part_that_cannot_be_sent_fails_the_task_and_aborts_all(
    scene: StagedScene, files: dict[str, int], skip: int, concurrency: int
) -> None:
    error = failed(
        scene,
        {name: b"x" * size for name, size in files.items()},
        Fault(Kind.ERROR_BEFORE, operation="put_part", skip=skip),
        concurrency=concurrency,
    )
    assert isinstance(error, Unavailable)
    assert scene.uploads() == []


def test_nothing_more_is_sent_after_a_failure(scene: StagedScene) -> None:
    job = scene.job(part_size=100, concurrency=2)
    worker, traffic = scene.worker(job, Fault(Kind.ERROR_BEFORE, operation="put_part", skip=3))
    task = attempt(worker, {f"{number}.txt": b"x" * 1000 for number in range(20)})
    with pytest.raises(Unavailable):
        task.commit()
    sent = [request for request in traffic.log if request.operation in {"create_upload", "put_part"}]
    assert len(sent) <= 8
    assert scene.uploads() == []


def test_abort_that_fails_is_a_note_and_the_first_error_is_raised(scene: StagedScene) -> None:
    error = failed(
        scene,
        {"a.txt": b"1" * 300},
        Fault(Kind.ERROR_BEFORE, operation="put_part", skip=1),
        Fault(Kind.ERROR_BEFORE, operation="abort_upload", times=None),
        concurrency=1,
    )
    assert isinstance(error, Unavailable)
    assert error.operation == "put_part"
    assert any("abort_upload" in note and "the job's end tries again" in note for note in error.__notes__)
    assert len(scene.uploads()) == 1


def test_leftover_uploads_of_a_failed_task_go_with_the_job(scene: StagedScene) -> None:
    job = scene.job()
    worker, _ = scene.worker(
        job,
        Fault(Kind.ERROR_BEFORE, operation="put_part"),
        Fault(Kind.ERROR_BEFORE, operation="abort_upload", times=None),
    )
    with pytest.raises(Unavailable):
        attempt(worker, {"a.txt": b"1"}).commit()
    assert len(scene.uploads()) == 1
    job.commit(scene.wrote(job, {"a.txt": b"2"}))
    assert (scene.bodies(), scene.uploads(), scene.work()) == ([b"2"], [], [])


def test_set_that_the_store_refuses_fails_the_task(scene: StagedScene, monkeypatch: Any) -> None:
    job = scene.job()
    task = attempt(job, {"a.txt": b"1"})

    async def refuse(self: Any, key: str, *args: Any, **kwargs: Any) -> None:
        raise magicfs.errors.PermissionDenied("put", key, "as the test wants")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "put", refuse)
        with pytest.raises(StoreError, match="as the test wants"):
            task.commit()
    assert (scene.uploads(), scene.local()) == ([], [])


@pytest.mark.parametrize("kind", [Kind.ERROR_BEFORE, Kind.REPLY_LOST])
def test_set_whose_fate_is_unknown_leaves_all_and_can_be_committed_again(
    scene: StagedScene, kind: Kind
) -> None:
    job = scene.job()
    prefix = f"{job.spec.work_layout.sets_directory}/"
    worker, traffic = scene.worker(job, Fault(kind, operation="put", prefix=prefix))
    task = attempt(worker, {"a.txt": b"1", "b.txt": b"2"})
    with pytest.raises(CommitOutcomeUnknown, match="nothing was aborted; commit the task again"):
        task.commit()
    assert traffic.met
    assert len(scene.uploads()) == 2
    assert len(scene.local()) == 4
    first = {upload_id for _, upload_id in scene.uploads()}
    commit = task.commit()
    assert scene.local() == []
    chosen = {pending.upload_id for pending in stored(scene, commit).commits}
    if kind is Kind.REPLY_LOST:
        assert chosen == first == {upload_id for _, upload_id in scene.uploads()}
    else:
        assert not chosen & first
    job.commit([commit])
    assert (scene.bodies(), scene.uploads()) == ([b"1", b"2"], [])


# -- calls that come twice, late or elsewhere ----------------------------------------------------------


def committer_of(job: magicfs.Job) -> Any:
    return job.spec.make_committer()


def run(job: magicfs.Job, work: Any, *args: Any) -> Any:
    from fsspec.asyn import sync

    return sync(job.spec.loop, work, *args)


def test_second_task_commit_returns_what_the_first_persisted(scene: StagedScene) -> None:
    job = scene.job()
    task = attempt(job, {"a.txt": b"1"})
    commit = task.commit()
    assert run(job, committer_of(job).commit_task, task.id, task.attempt_id) == commit
    assert len(scene.uploads()) == 1


def test_attempt_that_was_set_up_elsewhere_cannot_be_committed_here(scene: StagedScene) -> None:
    job = scene.job()
    committer = committer_of(job)
    for call in (
        lambda: run(job, committer.commit_task, "000000", "attempt-000000-elsewhere"),
        lambda: run(job, committer.needs_task_commit, "attempt-000000-elsewhere"),
    ):
        with pytest.raises(CommitFailed, match=r"is not on this machine, .*, or was removed"):
            call()
    run(job, committer.abort_task, "attempt-000000-elsewhere")
    assert (scene.uploads(), scene.local()) == ([], [])


def test_abort_of_a_task_removes_its_directory_and_asks_nothing_of_the_store(scene: StagedScene) -> None:
    job = scene.job()
    worker, traffic = scene.worker(job)
    task = attempt(worker, {"a.txt": b"1", "d/b.txt": b"2"})
    other = attempt(worker, {"a.txt": b"1"}, task=1)
    task.abort()
    task.abort()
    run(worker, committer_of(worker).abort_task, task.attempt_id)
    assert traffic.log == []
    assert not Path(task.path).exists()
    assert Path(other.path).exists()
    other.abort()
    assert scene.local() == []


def test_directory_that_somebody_else_made_is_not_committed(scene: StagedScene, tmp_path: Path) -> None:
    job = scene.job()
    task = attempt(job, {"a.txt": b"1"})
    Path(task.path).rename(tmp_path / "away")
    Path(task.path).symlink_to(tmp_path / "away")
    with pytest.raises(CommitFailed, match="does not belong to this user: somebody else created it"):
        task.commit()
    assert scene.uploads() == []
    Path(task.path).unlink()


def test_directory_of_another_user_is_not_committed(
    scene: StagedScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = scene.job()
    task = attempt(job, {"a.txt": b"1"})
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: 54321)
        with pytest.raises(CommitFailed, match="does not belong to this user: somebody else created it"):
            task.commit()
    assert scene.uploads() == []
    assert Path(task.path).is_dir(), "what is another's is not removed"
    run(job, committer_of(job).abort_task, task.attempt_id)


def test_tasks_in_threads_do_not_meet(scene: StagedScene) -> None:
    job = scene.job()
    commits: list[TaskCommit] = []

    def one(number: int) -> None:
        with Task(job.spec, job.task(number).id) as task:
            write(task.path, {f"d={number % 2}/part-0.txt": b"%d" % number})
        assert task.committed is not None
        commits.append(task.committed)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert job.commit(commits).files == 16
    assert scene.bodies() == sorted(b"%d" % number for number in range(16))
    assert scene.local() == []


# -- parts and progress --------------------------------------------------------------------------------


def test_progress_is_told_after_every_part(scene: StagedScene) -> None:
    job = scene.job(part_size=100)
    task = attempt(job, {"a.txt": b"x" * 250, "b.txt": b"", "c.txt": b"y" * 100})
    told: list[Progress] = []
    task.commit(progress=told.append)
    assert len(told) == 5
    assert {(one.stage, one.files_total, one.bytes_total) for one in told} == {("upload", 3, 350)}
    assert [one.bytes_done for one in told] == sorted(one.bytes_done for one in told)
    assert (told[-1].files_done, told[-1].bytes_done) == (3, 350)


def test_progress_callback_that_raises_changes_nothing(
    scene: StagedScene, caplog: pytest.LogCaptureFixture
) -> None:
    job = scene.job(part_size=100)
    task = attempt(job, {"a.txt": b"x" * 250})
    calls: list[Progress] = []

    def raising(progress: Progress) -> None:
        calls.append(progress)
        raise SystemExit("from the callback")

    assert task.commit(progress=raising).files == 1
    assert len(calls) == 1
    assert "the progress callback raised SystemExit('from the callback')" in caplog.text


@pytest.mark.parametrize("files", [{"one.bin": 5000}, {f"{number}.bin": 950 for number in range(8)}])
def test_no_more_parts_are_in_memory_than_requests_are_allowed(
    scene: StagedScene, files: dict[str, int]
) -> None:
    job = scene.job(part_size=100, concurrency=3)
    sending = {"put_part", "create_upload"}
    inside, seen = 0, set[int]()

    def entered(request: Request) -> float:
        nonlocal inside
        inside += request.operation in sending
        seen.add(inside)
        return 0.002

    def left(request: Request) -> None:
        nonlocal inside
        inside -= request.operation in sending

    worker, _ = scene.worker(job, latency=entered, after=left)
    task = attempt(worker, {name: b"x" * size for name, size in files.items()})
    assert task.commit().bytes == sum(files.values())
    assert max(seen) == 3


@pytest.mark.parametrize(
    ("committer", "mode", "listings"),
    [
        ("directory", "append", 0),
        ("directory", "error", 0),
        ("partitioned", "append", 0),
        ("partitioned", "error", 2),
    ],
)
def test_task_commit_costs_two_requests_a_file_and_one(
    tmp_path: Path, committer: str, mode: str, listings: int
) -> None:
    scene = StagedScene(tmp_path, committer)
    job = scene.job(mode)
    worker, traffic = scene.worker(job)
    attempt(worker, {f"p={number % 2}/{number}.txt": b"x" for number in range(10)}).commit()
    found = Counter(request.operation for request in traffic.log)
    assert found == Counter({"create_upload": 10, "put_part": 10, "put": 1, "list": listings})


LIMITS = PartLimits(size_min=10, size_max=1000, count_max=10, object_max=9000)


@pytest.mark.parametrize(
    ("length", "first", "size"),
    [(0, 100, 100), (1000, 100, 100), (1001, 100, 101), (9000, 100, 900), (9000, 1000, 1000)],
)
def test_parts_are_as_large_as_their_number_asks(length: int, first: int, size: int) -> None:
    assert even_part_size(length, first, LIMITS) == size
    assert -(-length // size) <= LIMITS.count_max


@pytest.mark.parametrize("limits", [LIMITS, PartLimits(size_min=10, size_max=100, count_max=10)])
def test_file_beyond_the_limits_is_refused(limits: PartLimits) -> None:
    with pytest.raises(UsageError, match=r"a file of 9001 bytes is larger than (9000|1000); write several"):
        even_part_size(9001, 100, limits)


def test_file_that_needs_too_many_parts_has_larger_ones(tmp_path: Path) -> None:
    scene = StagedScene(tmp_path)
    scene.filesystem = MemoryFileSystem(world=World(capabilities=Capabilities(parts=LIMITS)))
    scene.filesystem.world.create_bucket(scene.bucket)
    scene.plain = MemoryStore(scene.bucket, scene.filesystem.world)
    job = scene.job(part_size=100, unique_names=False)
    (commit,) = scene.wrote(job, {"a.bin": bytes(range(250)) * 20})
    (pending,) = stored(scene, commit).commits
    assert len(pending.parts) == 10
    job.commit([commit])
    assert scene.data() == {"a.bin": bytes(range(250)) * 20}
    late = scene.job(part_size=100)
    task = attempt(late, {"b.bin": bytes(9001)})
    with pytest.raises(UsageError, match="is larger than 9000"):
        task.commit()
    assert (scene.uploads(), scene.local()) == ([], [])
