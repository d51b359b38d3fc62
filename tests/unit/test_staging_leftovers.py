"""What dead attempts of the staging committers leave on a machine, and who may remove it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from magicfs.committers.staging import attempts
from magicfs.errors import ProtocolViolation, UsageError
from magicfs.job.task import Task
from proofs.scenes.staged_scene import StagedScene, write

pytestmark = pytest.mark.process

WORKER = """
import os, sys
from magicfs.committers.staging import attempts as local_attempts
from magicfs.committers.work_places import local_directory

directory, job, attempt, how = sys.argv[1:]
local_attempts.begin(directory, job, attempt)
path = local_directory(directory, job, attempt)
os.mkdir(path + "/d")
with open(path + "/d/a.txt", "w") as file:
    file.write("of an attempt that dies")
print("ready", flush=True)
sys.stdin.readline()
if how == "forget":
    os._exit(0)
"""


@pytest.fixture
def work(tmp_path: Path) -> str:
    return str(tmp_path / "staged")


@pytest.fixture
def scene(tmp_path: Path) -> StagedScene:
    return StagedScene(tmp_path)


class Worker:
    """Another process that runs an attempt."""

    def __init__(self, work: str, job: str, attempt: str, how: str = "forget") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", WORKER, work, job, attempt, how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Let it end by itself."""
        self.process.communicate(b"\n")


@pytest.fixture
def start(work: str) -> Iterator[type[Worker]]:
    started: list[Worker] = []

    class Started(Worker):
        def __init__(self, job: str, attempt: str, how: str = "forget") -> None:
            super().__init__(work, job, attempt, how)
            started.append(self)

    yield Started
    for one in started:
        if one.process.poll() is None:
            os.kill(one.process.pid, signal.SIGKILL)
        one.process.communicate()


def names(work: str) -> list[str]:
    return sorted(path.name for path in Path(work).iterdir())


def test_attempt_of_a_live_process_is_left_alone(work: str, start: type[Worker]) -> None:
    start("job", "attempt-000000-a")
    assert attempts.remove_dead(work, "job") == []
    assert names(work) == ["job-attempt-000000-a", "job-attempt-000000-a.lock"]


@pytest.mark.parametrize("end", ["kill", "end"])
def test_attempt_of_a_dead_process_is_removed_by_the_next_one(
    work: str, start: type[Worker], end: str
) -> None:
    dead, alive = start("job", "attempt-000000-a"), start("job", "attempt-000001-a")
    getattr(dead, end)()
    assert "job-attempt-000000-a" in names(work)
    attempts.begin(work, "job", "attempt-000000-b")
    found = names(work)
    assert [name for name in found if "000000-a" in name] == []
    assert [name for name in found if "000001-a" in name] != []
    attempts.remove(work, "job", "attempt-000000-b")
    alive.kill()
    assert attempts.remove_dead(work, "job") == []
    assert names(work) == []


def test_process_that_exits_removes_what_it_neither_committed_nor_aborted(
    work: str, start: type[Worker]
) -> None:
    start("job", "attempt-000000-a", "exit").end()
    assert names(work) == []


def test_what_other_jobs_have_left_is_not_touched(work: str, start: type[Worker]) -> None:
    for job in ("job", "job-attempt", "job-attempt-000000", "jo", "jobs"):
        start(job, "attempt-000000-a").kill()
    attempts.remove_dead(work, "job")
    left = [name for name in names(work) if not name.endswith(".lock")]
    assert left == sorted(
        f"{job}-attempt-000000-a" for job in ("job-attempt", "job-attempt-000000", "jo", "jobs")
    )


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"job": "other"}', b'{"job": "job"}', b'{"job": "job", "host": "else"}']
)
def test_lock_that_does_not_prove_whose_it_is_proves_nothing(work: str, content: bytes) -> None:
    Path(work, "job-attempt-000000-a").mkdir(parents=True)
    Path(work, "job-attempt-000000-a.lock").write_bytes(content)
    attempts.remove_dead(work, "job")
    assert len(names(work)) == 2


def test_directory_without_a_lock_is_left(work: str) -> None:
    Path(work, "job-attempt-000000-a").mkdir(parents=True)
    attempts.remove_dead(work, "job")
    assert names(work) == ["job-attempt-000000-a"]


def test_removal_that_was_cut_is_finished(work: str, start: type[Worker]) -> None:
    start("job", "attempt-000000-a").kill()
    Path(work, "job-attempt-000000-a").rename(Path(work, "job-attempt-000000-a.ended"))
    attempts.remove_dead(work, "job")
    assert names(work) == []


def test_same_attempt_cannot_run_twice_at_once(
    work: str, start: type[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "_PAUSE_S", 0.001)
    worker = start("job", "attempt-000000-a")
    with pytest.raises(ProtocolViolation, match="is already running on this machine"):
        attempts.begin(work, "job", "attempt-000000-a")
    worker.kill()
    attempts.begin(work, "job", "attempt-000000-a")
    assert list(Path(work, "job-attempt-000000-a").iterdir()) == []
    attempts.remove(work, "job", "attempt-000000-a")
    assert names(work) == []


def test_attempt_of_the_same_name_as_a_dead_one_begins_empty(work: str, start: type[Worker]) -> None:
    start("job", "attempt-000000-a").kill()
    Path(work, "job-attempt-000000-a.lock").unlink()
    attempts.begin(work, "job", "attempt-000000-a")
    assert list(Path(work, "job-attempt-000000-a").iterdir()) == []
    attempts.remove(work, "job", "attempt-000000-a")


def test_directory_that_cannot_be_made_leaves_no_lock(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    Path(work).mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", full)
        with pytest.raises(UsageError, match="No space left on device"):
            attempts.begin(work, "job", "attempt-000000-a")
    assert names(work) == []
    attempts.begin(work, "job", "attempt-000000-a")
    attempts.remove(work, "job", "attempt-000000-a")
    attempts.remove(work, "job", "attempt-000000-a")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_that_lives_on_does_not_keep_the_attempts_of_its_parent(work: str) -> None:
    attempts.begin(work, "job", "attempt-000000-a")
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    try:
        # As if this process had died: only the child could hold the lock now.
        for descriptor in list(attempts._locks.values()):
            os.close(descriptor)
        attempts._locks.clear()
        assert attempts.remove_dead(work, "job") == []
        assert names(work) == []
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)
        for descriptor in (*ready, *go):
            os.close(descriptor)


FORKING = """
import os, sys
from pathlib import Path
from magicfs.committers.staging import attempts as local_attempts

local_attempts.begin(sys.argv[1], "job", "attempt-000000-a")
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
assert Path(sys.argv[1], "job-attempt-000000-a").is_dir(), "the child took it along"
"""


def test_child_that_exits_leaves_the_attempts_of_its_parent(work: str) -> None:
    subprocess.run([sys.executable, "-c", FORKING, work], check=True)
    assert names(work) == []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_may_write_and_its_parent_commit(scene: StagedScene) -> None:
    job = scene.job()
    task = job.task(0).setup()
    child = os.fork()
    if child == 0:
        write(task.path, {"a.txt": b"by a child"})
        os._exit(0)
    os.waitpid(child, 0)
    assert task.commit().files == 1
    assert scene.local() == []


def test_lock_tells_job_host_and_process(scene: StagedScene) -> None:
    job = scene.job()
    task = job.task(0).setup()
    lock = Path(f"{task.path}.lock")
    told = json.loads(lock.read_text())
    assert (told["job"], told["pid"]) == (job.id, os.getpid())
    with lock.open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    task.abort()


# -- through Job and Task ------------------------------------------------------------------------------


@pytest.mark.sample(most=1)
@pytest.mark.parametrize("how", ["next attempt", "commit", "abort"])
def test_dead_attempt_of_a_job_goes_with_the_next_one_or_with_the_job(
    scene: StagedScene, start: type[Worker], how: str
) -> None:
    job = scene.job()
    dead, alive = start(job.id, "attempt-000007-dead"), start(job.id, "attempt-000008-alive")
    dead.kill()
    assert len([name for name in scene.local() if "dead" in name]) == 4
    match how:
        case "next attempt":
            Task(job.spec, job.task(7).id).setup().abort()
        case "commit":
            job.commit([])
        case "abort":
            job.abort()
    assert [name for name in scene.local() if "dead" in name] == []
    assert len([name for name in scene.local() if "alive" in name]) == 4
    alive.kill()


def test_job_does_not_touch_attempts_of_another_job(scene: StagedScene, start: type[Worker]) -> None:
    other = scene.job()
    start(other.id, "attempt-000007-dead").kill()
    before = scene.local()
    scene.published({"a.txt": b"1"})
    assert scene.local() == before
    other.abort()
    assert scene.local() == []


def test_local_directory_that_cannot_be_removed_is_told_by_the_report(
    scene: StagedScene, start: type[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = scene.job()
    commits = scene.wrote(job, {})
    start(job.id, "attempt-000007-dead").kill()

    def busy(path: str) -> None:
        raise OSError(16, "Device or resource busy", path)

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", busy)
        report = job.commit(commits)
    (warning,) = report.warnings
    assert "the files are published but cleaning up failed: delete of" in warning
    assert "Device or resource busy" in warning
    scene.job().abort()  # of another job: its leftovers stay
    assert scene.local() != []
    attempts.remove_dead(scene.options["work_directory"], job.id)
    assert scene.local() == []
