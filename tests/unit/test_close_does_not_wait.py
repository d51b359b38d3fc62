"""``open`` and ``close`` of a task's files do not wait: its commit does, and says what has failed."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.latency_job import BY_NAME, play
from benchmarks.latency_store import Rates
from magicfs.errors import CommitFailed, PermissionDenied, ProtocolViolation, UsageError
from magicfs.filesystem.tracking import tracker
from magicfs.job.job import Job
from magicfs.job.task import Task
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.port import Store
from proofs.scenes.arranged import arranged
from proofs.scenes.instead import instead
from proofs.scenes.known import all_ended
from proofs.scenes.memory_scene import MemoryScene

NAMES = ("a.csv", "day=1/a b%+#é.csv", "deep/deep/…/x", "a.csv.pending-not")
URL = "memory://bucket/dataset 1"


class Gate(DelegatingStore):
    """Holds requests of some operations back until it is opened, and has some of them fail."""

    def __init__(self, inner: Store, rules: Rules) -> None:
        super().__init__(inner)
        self.rules = rules

    async def _around(self, operation: str, key: str, request: Callable[[], Any]) -> Any:
        if operation in self.rules.held:
            await asyncio.to_thread(self.rules.opened.wait)
        if any(operation == one and part in key for one, part in self.rules.failing):
            raise PermissionDenied(operation, f"{self.bucket}/{key}", "no")
        return await request()


class Rules:
    """What the gate does."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.opened = threading.Event()
        self.failing: list[tuple[str, str]] = []


@pytest.fixture
def rules() -> Iterator[Rules]:
    one = Rules()
    yield one
    one.opened.set()
    all_ended()


@pytest.fixture
def scene(rules: Rules) -> MemoryScene:
    return MemoryScene(lambda store: Gate(store, rules))


@pytest.fixture(params=["store", "memory"])
def job(request: pytest.FixtureRequest, scene: MemoryScene) -> Job:
    options = arranged(tracking=request.param, part_size=1000)
    return Job(URL, mode="append", filesystem=scene.wrapped, **options).setup()


def write(task: Task, name: str, body: bytes = b"row\n") -> str:
    path = f"{task.path}/{name}"
    with task.filesystem.open(path, "wb") as file:
        file.write(body)
    return path


@pytest.mark.parametrize("operation", ["create_upload", "put_part"])
def test_files_are_opened_written_and_closed_while_nothing_is_answered(
    job: Job, rules: Rules, scene: MemoryScene, operation: str
) -> None:
    rules.held = {operation}
    task = job.task(0).setup()
    for name in NAMES:
        write(task, name)
    task.filesystem.pipe_file(f"{task.path}/piped", bytearray(b"piped"))
    rules.opened.set()
    commit = task.commit()
    assert commit.files == len(NAMES) + 1
    assert job.commit([commit]).files == len(NAMES) + 1
    assert scene.uploads() == []


def test_what_its_owner_changes_after_a_pipe_is_not_published(job: Job, rules: Rules) -> None:
    rules.held = {"create_upload"}
    task = job.task(0).setup()
    body = bytearray(b"right")
    task.filesystem.pipe_file(f"{task.path}/a", body)
    body[:] = b"wrong"
    rules.opened.set()
    assert task.filesystem.cat_file(f"{task.path}/a") == b"right"


def test_the_task_commit_names_each_file_that_failed(job: Job, rules: Rules, scene: MemoryScene) -> None:
    rules.held = {"put_part"}
    rules.failing = [("put_part", "first"), ("put_part", "second")]
    task = job.task(0).setup()
    paths = [write(task, f"{name} é%.csv") for name in ("first", "good", "second")]
    rules.opened.set()
    with pytest.raises(CommitFailed) as caught:
        task.commit()
    told = "\n".join((str(caught.value), *caught.value.__notes__))
    assert [path in told for path in paths] == [True, False, True]
    assert scene.uploads() == []
    with pytest.raises(UsageError):
        task.commit()


@pytest.mark.parametrize("large", [False, True])
def test_a_failed_file_is_reported_by_the_next_write_or_close_and_still_by_the_commit(
    job: Job, rules: Rules, large: bool
) -> None:
    rules.failing = [("put_part", "first")]
    task = job.task(0).setup()
    path = write(task, "first")
    all_ended()
    with pytest.raises(PermissionDenied, match="first"):
        write(task, "second", b"x" * (2**18 if large else 1))
    write(task, "third")  # told once
    with pytest.raises(CommitFailed) as caught:
        task.commit()
    assert path in str(caught.value)


def test_a_failed_create_is_reported_by_the_next_write_of_its_file(job: Job, rules: Rules) -> None:
    rules.failing = [("create_upload", "first")]
    task = job.task(0).setup()
    with pytest.raises(PermissionDenied), task.filesystem.open(f"{task.path}/first", "wb") as file:
        for _ in range(1000):
            file.write(b"x" * 2**17)
    assert task.commit().files == 0, "its writer knows"


def test_a_file_that_is_written_again_is_not_missed(job: Job, rules: Rules) -> None:
    rules.failing = [("put_part", "first")]
    task = job.task(0).setup()
    write(task, "first")
    all_ended()
    rules.failing = []
    write(task, "first", b"again")
    assert (task.commit().files, task.committed.bytes) == (1, 5)  # type: ignore[union-attr]


def test_the_last_of_two_files_of_one_name_counts_whichever_is_faster(
    job: Job, rules: Rules, scene: MemoryScene
) -> None:
    rules.held = {"put_part"}
    task = job.task(0).setup()
    for body in (b"1", b"22", b"333"):
        write(task, "day=1/a", body)
    rules.opened.set()
    commit = task.commit()
    job.commit([commit])
    held = [body for key, body in scene.objects().items() if "day=1/" in key]
    assert (held, scene.uploads()) == ([b"333"], [])


@pytest.mark.parametrize("look", ["exists", "info", "ls", "find", "cat_file", "mv", "rm", "modified", "ukey"])
def test_what_was_closed_is_there_at_once(job: Job, rules: Rules, look: str) -> None:
    rules.held = {"put_part"}
    task = job.task(0).setup()
    fs, path = task.filesystem, write(task, "day=1/a é")
    threading.Timer(0.05, rules.opened.set).start()
    match look:
        case "exists":
            assert fs.exists(path)
        case "info":
            assert fs.info(path)["size"] == 4
        case "ls" | "find":
            assert list(getattr(fs, look)(path.rpartition("/")[0], detail=False)) == [path]
        case "cat_file":
            assert fs.cat_file(path) == b"row\n"
        case "mv":
            fs.mv(path, f"{task.path}/b")
            assert [fs.exists(path), fs.exists(f"{task.path}/b")] == [False, True]
        case "rm":
            fs.rm(path)
            assert not fs.exists(path)
        case _:
            assert getattr(fs, look)(path)
    assert task.commit().files == (look != "rm")


def test_a_path_that_is_closing_is_taken(job: Job, rules: Rules) -> None:
    rules.held = {"put_part"}
    task = job.task(0).setup()
    path = write(task, "a")
    with pytest.raises(FileExistsError):
        task.filesystem.open(path, "xb")


@pytest.mark.parametrize("of_job", [False, True])
def test_an_abort_waits_and_leaves_nothing(job: Job, rules: Rules, scene: MemoryScene, of_job: bool) -> None:
    rules.held = {"put_part"}
    task = job.task(0).setup()
    for name in NAMES:
        write(task, name)
    threading.Timer(0.05, rules.opened.set).start()
    (job if of_job else task).abort()
    assert scene.uploads() == []
    assert [key for key in scene.objects() if "/tasks/" in key] == []
    assert tracker().closing() == []


def test_a_file_aborted_after_its_close_is_no_file_of_the_task(job: Job, rules: Rules) -> None:
    rules.held = {"put_part"}
    task = job.task(0).setup()
    file = task.filesystem.open(f"{task.path}/a", "wb")
    file.write(b"1")
    file.close()
    threading.Timer(0.05, rules.opened.set).start()
    file.abort()
    assert task.commit().files == 0


def test_the_collector_takes_no_file_that_was_closed_and_every_one_that_was_not(
    job: Job, rules: Rules
) -> None:
    rules.held = {"create_upload"}
    task = job.task(0).setup()
    write(task, "a")
    lost = task.filesystem.open(f"{task.path}/lost", "wb")
    lost.write(b"1")
    gone = weakref.ref(lost)
    del lost
    gc.collect()
    rules.opened.set()
    end = time.monotonic() + 10
    while gone() is not None:  # the loop may hold it for a moment
        assert time.monotonic() < end
        gc.collect()
        time.sleep(0.01)
    with pytest.raises(CommitFailed, match=r"lost (was opened and never closed|is still open)"):
        task.commit()


def test_so_many_files_go_on_at_once_and_no_more(job: Job, rules: Rules, scene: MemoryScene) -> None:
    rules.held = {"put_part"}
    task = job.task(0).setup()
    ended = threading.Event()

    def write_all() -> None:
        for number in range(40):
            write(task, f"part-{number}")
        ended.set()

    thread = threading.Thread(target=write_all)
    thread.start()
    while len(tracker().closing()) < 32:
        ended.wait(0.01)
    assert not ended.wait(0.2)
    assert len(tracker().closing()) == 32
    rules.opened.set()
    thread.join()
    assert task.commit().files == 40


def test_a_process_that_did_not_set_the_task_up_waits(job: Job, scene: MemoryScene) -> None:
    task = job.task(0).setup()
    other = "1" if task.attempt_id.endswith("0") else "0"
    path = task.path.replace(task.attempt_id, f"{task.attempt_id[:-1]}{other}")
    if job.spec.options.tracking == "memory":
        with pytest.raises(UsageError, match="another process"):
            task.filesystem.pipe_file(f"{path}/a", b"1")
        return
    task.filesystem.pipe_file(f"{path}/a", b"1")
    assert tracker().closing() == []


def test_a_path_of_ones_own_is_recorded_when_it_is_closed(scene: MemoryScene) -> None:
    scene.filesystem.pipe_file("bucket/d/__magic/mine/__base/a", b"1")
    assert tracker().closing() == []
    assert scene.run(scene.wrapped.store("bucket").head("d/__magic/mine/__base/a.pending")).size


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_knows_what_it_cannot_commit(job: Job, rules: Rules) -> None:
    rules.held = {"put_part"}
    task = job.task(0).setup()
    path = write(task, "a")
    scope = next(one.scope for one in tracker().closing())
    pid = os.fork()
    if not pid:
        lost = tracker().snapshot(scope).lost
        os._exit(0 if path in lost and "another process" in str(lost[path]) else 1)
    assert os.waitpid(pid, 0)[1] == 0
    rules.opened.set()
    assert task.commit().files == 1


class CtrlC:
    """Interrupts each of so many waits of this thread, once nothing moves any more but behind the gate."""

    def __init__(self, rules: Rules, times: int, opens: bool) -> None:
        self.rules, self.times, self.opens = rules, times, opens

    def wait(self, running: threading.Lock) -> None:
        if self.times:
            if running.acquire(timeout=0.1):
                return
            self.times -= 1
            if self.opens and not self.times:
                threading.Timer(0.5, self.rules.opened.set).start()  # time for the interruption to arrive
            raise KeyboardInterrupt
        assert running.acquire(timeout=30)


@contextmanager
def interrupted(rules: Rules, times: int = 1, *, opens: bool = False) -> Iterator[None]:
    waits = CtrlC(rules, times, opens).wait
    with instead("magicfs.runtime.interrupt._wait", waits), pytest.raises(KeyboardInterrupt):
        yield


def work_of(scene: MemoryScene) -> list[str]:
    return [key for key in scene.objects() if "/tasks/" in key]


@pytest.mark.parametrize("aborts", [False, True])
@pytest.mark.parametrize("look", ["exists", "find", "cat_file", "rm"])
def test_ctrl_c_stops_a_look_and_not_what_it_waits_for(
    job: Job, rules: Rules, scene: MemoryScene, look: str, aborts: bool
) -> None:
    rules.held = {"put_part"}
    task = job.task(0).setup()
    path = write(task, "day=1/a é")
    with interrupted(rules):
        getattr(task.filesystem, look)(path)
    assert [one.path for one in tracker().closing()] == [path]
    rules.opened.set()
    if aborts:
        task.abort()
        assert (scene.uploads(), work_of(scene)) == ([], [])
        return
    assert (task.commit().files, job.commit(job.commits).files) == (1, 1)
    assert b"row\n" in scene.objects().values()
    assert scene.uploads() == []


@pytest.mark.parametrize("way", ["open", "pipe_file", "pipe_file of parts", "put_file"])
def test_ctrl_c_in_a_close_that_waits_for_its_turn_takes_that_file_alone(
    job: Job, rules: Rules, scene: MemoryScene, way: str, tmp_path: Path
) -> None:
    rules.held = {"put_part"}
    task = job.task(0).setup()
    for number in range(32):
        write(task, f"part-{number}")
    last = f"{task.path}/last"
    (tmp_path / "last").write_bytes(b"last")
    with interrupted(rules, opens=True):
        match way:
            case "open":
                write(task, "last")
            case "put_file":
                task.filesystem.put_file(str(tmp_path / "last"), last)
            case _:
                task.filesystem.pipe_file(last, b"last" * (1 + 1000 * way.endswith("parts")))
    assert not task.filesystem.exists(last)
    assert task.commit().files == 32
    assert job.commit(job.commits).files == 32
    assert scene.uploads() == []
    assert [key for key in scene.objects() if "last" in key] == []


def test_ctrl_c_in_a_task_commit_that_waits_for_files_aborts_the_task(
    job: Job, rules: Rules, scene: MemoryScene
) -> None:
    rules.held = {"put_part"}
    task = job.task(0).setup()
    for name in NAMES:
        write(task, name)
    with interrupted(rules, opens=True):
        task.commit()
    assert repr(task).endswith("aborted>")
    assert (scene.uploads(), work_of(scene), tracker().closing()) == ([], [], [])
    with pytest.raises(ProtocolViolation, match="already aborted"):
        task.commit()
    again = job.task(0).setup()
    write(again, NAMES[0])
    assert job.commit([again.commit()]).files == 1


@pytest.mark.parametrize("of_job", [False, True])
def test_ctrl_c_in_an_abort_that_waits_for_files_is_raised_when_nothing_is_left(
    job: Job, rules: Rules, scene: MemoryScene, of_job: bool
) -> None:
    rules.held = {"put_part"}
    task = job.task(0).setup()
    for name in NAMES:
        write(task, name)
    with interrupted(rules, opens=True):
        (job if of_job else task).abort()
    assert (tracker().closing(), scene.uploads(), work_of(scene)) == ([], [], [])


def test_ctrl_c_in_the_body_of_a_job_while_files_go_on_leaves_nothing(
    rules: Rules, scene: MemoryScene
) -> None:
    job = Job(URL, mode="append", filesystem=scene.wrapped)
    with pytest.raises(KeyboardInterrupt), job, job.task(0) as task:
        rules.held = {"create_upload"}
        for name in NAMES:
            write(task, name)
        threading.Timer(0.05, rules.opened.set).start()
        raise KeyboardInterrupt
    assert repr(job).endswith("aborted>")
    assert (tracker().closing(), scene.uploads(), list(scene.objects())) == ([], [], [])


def test_a_second_ctrl_c_leaves_an_abort_that_goes_on_to_its_end(
    job: Job, rules: Rules, scene: MemoryScene
) -> None:
    rules.held = {"put_part"}
    task = job.task(0).setup()
    for name in NAMES:
        write(task, name)
    with interrupted(rules, times=2):
        task.abort()
    assert len(tracker().closing()) == len(NAMES)
    rules.opened.set()
    scene.settle()
    assert (tracker().closing(), scene.uploads(), work_of(scene)) == ([], [], [])


@pytest.mark.parametrize(("name", "most_s"), [("magic", 0.6), ("magic, memory", 0.35)])
def test_one_task_of_200_files_waits_for_few_requests_in_a_row(name: str, most_s: float) -> None:
    """In virtual time, 20 ms a request; with a wait at each ``open`` and ``close`` it was 16 s and 8 s."""
    assert play(BY_NAME[name], 1, 200, Rates(0.02)).work.seconds < most_s
