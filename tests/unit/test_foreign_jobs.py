"""Jobs of Hadoop's magic committer whose driver died: told, finished or discarded, and never in part."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.datasets import abort, commit, recover
from magicfs.datasets.abort import abort_job
from magicfs.datasets.commit import commit_listed
from magicfs.datasets.recover import recover_jobs
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, CommitFailed, MagicError, PermissionDenied, UsageError
from magicfs.protocol.paths import Location
from magicfs.stores.memory.store import MemoryStore, default_world
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash, Fault, Kind, Request
from proofs.scenes.hadoop_jobs import HadoopJob
from proofs.scenes.unfinished import Bucket
from tests.sample import Some

pytestmark = pytest.mark.sample(most=2)

DESTINATION = "día 50% + #1/sales"
LAYOUTS = ("__magic_job", "__magic")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(f"b-{uuid4().hex[:8]}")


@pytest.fixture
def url(bucket: Bucket) -> str:
    return bucket.url(DESTINATION)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_command(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        told = capsys.readouterr()
        return code, told.out, told.err

    return run_command


def theirs(bucket: Bucket, **how: Any) -> HadoopJob:
    return HadoopJob(bucket, DESTINATION, **how)


def left(bucket: Bucket) -> tuple[dict[str, bytes], list[str]]:
    return bucket.objects(), bucket.uploads()


def work(bucket: Bucket) -> list[str]:
    return [key for key in bucket.objects() if "__magic" in key]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("completed", [0, 3])
def test_recover_tells_of_it_and_changes_nothing(
    bucket: Bucket, url: str, run: Run, layout: str, completed: int
) -> None:
    job = theirs(bucket, layout=layout, attempt=1)
    job.leave(0, 7)
    job.complete(completed)
    before = left(bucket)
    code, out, _ = run("recover", url)
    assert code == 1
    for told in (
        job.id,
        "Hadoop's magic committer",
        "2 tasks, 4 files",
        f"{5 - completed} uploads",
    ):
        assert told in out
    assert ("3 of the files, by its driver" in out) is bool(completed)
    assert f"magicfs recover {shlex.quote(url)} --job {job.id} --commit --driver-is-dead" in out
    [one] = json.loads(run("recover", url, "--json", "--job", job.id)[1])["jobs"]
    assert one["found"] == "hadoop"
    assert one["foreign"] == {
        "committer": "magic",
        "attempt": 1,
        "tasks": 2,
        "files": 4,
        "bytes": 20,
        "published": completed,
        "uploads": 5 - completed,
        "gone": 0,
        "doubtful": 0,
        "problem": "",
    }
    assert left(bucket) == before


@pytest.mark.parametrize("how", ["abort", "rollback"])
def test_recover_ends_none_without_the_promise(bucket: Bucket, url: str, how: str) -> None:
    job = theirs(bucket)
    before = left(bucket)
    for named in (None, job.id):
        with pytest.raises(UsageError, match="--driver-is-dead"):
            recover(url, job=named, **{how: True})
    with pytest.raises(UsageError, match="--driver-is-dead"):
        abort(url)
    assert left(bucket) == before


def test_it_is_told_beside_one_of_ours(bucket: Bucket, url: str) -> None:
    job, ours = theirs(bucket), magicfs.Job(url, mode="append").setup()
    assert {(one.job_id, one.found) for one in recover(url).jobs} == {(ours.id, "open"), (job.id, "hadoop")}
    assert [one.job_id for one in recover(url, abort=True).jobs] == [ours.id]
    assert [one.job_id for one in recover(url).jobs] == [job.id]


def test_job_of_a_neighbour_is_none_of_ours(bucket: Bucket) -> None:
    HadoopJob(bucket, "dataset10")
    assert recover(bucket.url("dataset1")).jobs == ()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pending_and_show_say_how_to_end_it(bucket: Bucket, url: str, run: Run, layout: str) -> None:
    job = theirs(bucket, layout=layout)
    named = f"'{url}' --job {job.id}"
    code, out, _ = run("uploads", url)
    assert code == 1
    for command in (
        f"to end: magicfs recover {named} --commit --driver-is-dead, or ",
        f"magicfs recover {named} --abort --driver-is-dead\n",
    ):
        assert command in out
    place = f"__magic_job-{job.id}" if layout == "__magic_job" else f"__magic/job-{job.id}"
    code, out, _ = run("show", f"{url}/{place}")
    assert code == 0
    assert "2 tasks, 4 files" in out


@pytest.mark.parametrize("layout", LAYOUTS)
def test_job_of_which_nothing_is_published_is_discarded(
    bucket: Bucket, url: str, run: Run, layout: str
) -> None:
    job = theirs(bucket, layout=layout)
    job.leave(0, 7)
    bucket.put(f"{DESTINATION}/old.bin", b"old")
    bucket.create_upload(f"{DESTINATION}/part-00009-{job.id}.c000.bin")  # a task had just opened it
    before = left(bucket)
    abort = ("recover", "--abort", url, "--job", job.id, "--driver-is-dead")
    code, out, _ = run(*abort, "--dry-run")
    assert (code, "discards   6 uploads" in out, "waiting    5 uploads" in out) == (1, True, True)
    assert left(bucket) == before
    code, out, _ = run(*abort)
    assert (code, "aborted" in out, "discarded  6 uploads" in out, "waiting" in out) == (0, True, True, False)
    assert left(bucket) == ({f"{DESTINATION}/old.bin": b"old"}, [])
    assert run("recover", "--abort", url, "--job", job.id, "--driver-is-dead")[0] == 0


def test_a_look_needs_no_promise(bucket: Bucket, url: str, run: Run) -> None:
    job = theirs(bucket)
    before = left(bucket)
    for end in ("--abort", "--commit"):
        code, out, _ = run("recover", url, "--job", job.id, end, "--dry-run")
        assert (code, f"would {end[2:]}" in out) == (1, True)
        assert run("recover", url, "--job", job.id, end)[0] == 2
    assert left(bucket) == before


def test_a_look_works_where_uploads_may_not_be_listed(
    bucket: Bucket, url: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = theirs(bucket)

    def denied(store: MemoryStore, prefix: str) -> Any:
        raise PermissionDenied("list_uploads", prefix, "you may not")

    monkeypatch.setattr(MemoryStore, "list_uploads", denied)
    code, out, _ = run("recover", url, "--job", job.id, "--abort", "--dry-run")
    assert (code, "would abort" in out) == (1, True)


def test_uploads_that_no_record_of_the_job_names_are_left_and_said(
    bucket: Bucket, url: str, run: Run
) -> None:
    """Spark names files by an id that is not the job's, and a task was writing one."""
    job = theirs(bucket)
    key = f"{DESTINATION}/part-00009-{uuid4()}.c000.bin"
    bucket.create_upload(key)
    said = f"open uploads that no record of job {job.id} names stay open: 1;"
    for dry in (["--dry-run"], []):
        code, out, _ = run("recover", "--abort", url, "--job", job.id, "--driver-is-dead", *dry)
        assert (code, said in out, f"magicfs uploads {shlex.quote(url)}" in out) == (len(dry), True, True)
    assert (work(bucket), bucket.uploads()) == ([], [key])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_work_that_a_driver_has_left_on_purpose_is_no_unfinished_job(
    bucket: Bucket, url: str, layout: str
) -> None:
    """With ``fs.s3a.committer.magic.cleanup.enabled=false``."""
    job = theirs(bucket, layout=layout)
    job.complete(3)
    bucket.put(f"{DESTINATION}/_SUCCESS")
    assert [one.job_id for one in recover(url).jobs] == [job.id], "a file is missing"
    bucket.delete(f"{DESTINATION}/_SUCCESS")
    (last,) = list(job.files)[3:]
    bucket.complete(last, *job._uploads[last])
    assert [one.job_id for one in recover(url).jobs] == [job.id], "its driver may be about to end it"
    bucket.put(f"{DESTINATION}/_SUCCESS")
    assert recover(url).jobs == ()
    assert bucket.data(DESTINATION) == job.files


@pytest.mark.parametrize("completed", [1, 3, 4])
def test_job_that_is_published_in_part_is_finished_and_not_discarded(
    bucket: Bucket, url: str, run: Run, completed: int
) -> None:
    job = theirs(bucket)
    job.complete(completed)
    before = left(bucket)
    code, _, err = run("recover", "--abort", url, "--job", job.id, "--driver-is-dead")
    assert (code, f"{completed} of 4 files" in err) == (4, True)
    assert left(bucket) == before
    assert run("recover", "--commit", url, "--job", job.id, "--driver-is-dead")[0] == 0
    assert bucket.data(DESTINATION) == job.files
    assert (work(bucket), bucket.uploads()) == ([], [])


def test_doctor_names_it_and_the_command_that_shows_it(bucket: Bucket, url: str, run: Run) -> None:
    job = theirs(bucket)
    code, out, _ = run("doctor", url, "--read-only")
    assert code == 1
    assert f"1 unfinished of other programs, such as {job.id}" in out
    assert f"magicfs recover {url} shows each" in out


@pytest.mark.parametrize("completed", [0, 1])
def test_job_with_a_file_that_a_task_of_python_wrote_is_finished(
    bucket: Bucket, url: str, completed: int
) -> None:
    """As one writes with ``MagicFileSystem(hadoop=…)`` into a JVM's job, which has no job object."""
    job = theirs(bucket)
    key = max(name for name in work(bucket) if name.endswith(".pendingset"))
    document = json.loads(bucket.objects()[key])
    document["commits"][-1]["extraData"] = {"magicfs-write-id": uuid4().hex}
    bucket.put(key, json.dumps(document).encode())
    job.complete(completed)
    commit(url, job.id, driver_is_dead=True)
    assert bucket.data(DESTINATION) == job.files
    assert (work(bucket), bucket.uploads()) == ([], [])


def test_files_that_somebody_has_deleted_may_be_discarded(bucket: Bucket, url: str) -> None:
    job = theirs(bucket)
    job.complete(2)
    bucket.delete(*bucket.data(DESTINATION))
    abort(url, job=job.id, driver_is_dead=True)
    assert left(bucket) == ({}, [])


def test_published_file_that_cannot_be_told_from_others_is_no_leaving(bucket: Bucket, url: str) -> None:
    """As where parts are encrypted with keys of KMS: the object's ETag is not that of its parts."""
    job = theirs(bucket)
    key = next(iter(job.files))
    asyncio.run(MemoryStore(bucket.name, default_world()).abort_upload(key, job._uploads[key][0]))
    bucket.put(key, b"other")  # of the same length
    with pytest.raises(CommitDenied, match="may or may not have been published"):
        abort(url, job=job.id, driver_is_dead=True)
    assert bucket.data(DESTINATION) == {key: b"other"}
    assert len(bucket.uploads()) == 3


@pytest.mark.parametrize("completed", [0, 2])
def test_job_whose_uploads_are_gone_is_refused_before_anything_is_changed(
    bucket: Bucket, url: str, completed: int
) -> None:
    job = theirs(bucket)
    job.complete(completed)
    last = list(job.files)[-1]
    asyncio.run(MemoryStore(bucket.name, default_world()).abort_upload(last, job._uploads[last][0]))
    before = left(bucket)
    with pytest.raises(CommitFailed, match=r"abort\.pending\.uploads") as caught:
        commit(url, job.id, driver_is_dead=True)
    assert list(caught.value.failed) == [last]
    assert left(bucket) == before
    [one] = recover(url).jobs
    assert one.foreign is not None
    assert (one.foreign.gone, one.foreign.published) == (1, completed)


def test_malformed_set_keeps_it_from_being_committed_and_not_from_being_told(
    bucket: Bucket, url: str
) -> None:
    job = theirs(bucket)
    bucket.put(f"{job.work}/task_202601010000_0001_m_000001.pendingset", b"{")
    [one] = recover(url).jobs
    assert one.foreign is not None
    assert "malformed" in one.foreign.problem
    with pytest.raises(CommitFailed, match="malformed"):
        commit(url, job.id, driver_is_dead=True)
    job.complete(1)
    with pytest.raises(CommitDenied, match="published by its driver"):
        abort(url, job=job.id, driver_is_dead=True)


def test_driver_that_has_only_set_up_is_told_and_discarded(bucket: Bucket, url: str) -> None:
    job = str(uuid4())
    bucket.put(f"{DESTINATION}/__magic_job-{job}/")
    [one] = recover(url).jobs
    assert (one.job_id, one.foreign and one.foreign.tasks) == (job, 0)
    abort(url, job=job, driver_is_dead=True)
    assert left(bucket) == ({}, [])


def test_open_job_of_ours_that_a_jvm_has_published_in_part_is_not_discarded(bucket: Bucket, url: str) -> None:
    job = theirs(bucket)
    ours = magicfs.Job(url, mode="append", job_id=job.id).setup()
    job.complete(1)
    for end in (lambda: abort(url, job=ours.id), lambda: recover(url, abort=True)):
        with pytest.raises(CommitDenied, match="published by its driver"):
            end()
    commit(url, ours.id)
    assert bucket.data(DESTINATION) == job.files
    assert (work(bucket), bucket.uploads()) == ([], [])


def test_job_of_ours_whose_uploads_a_neighbour_purged_is_told_the_cause(bucket: Bucket, url: str) -> None:
    with (
        pytest.raises(CommitFailed, match=r"fs\.s3a\.committer\.abort\.pending\.uploads=true"),
        magicfs.Job(url, mode="append") as job,
    ):
        with job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.bin", b"ours")
        store = MemoryStore(bucket.name, default_world())

        async def purge() -> None:
            for upload in [one async for one in store.list_uploads("")]:
                await store.abort_upload(upload.key, upload.upload_id)

        asyncio.run(purge())
    assert left(bucket) == ({}, [])


@pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions"])
def test_refusal_of_an_empty_job_says_what_it_would_do(url: str, mode: str) -> None:
    job = magicfs.Job(url, mode=mode).setup()
    wanted = (
        "would only delete existing data" if mode == "overwrite" else "would have no partition to replace"
    )
    with pytest.raises(UsageError, match=wanted):
        job.commit([])
    job.abort()


# -- killed anywhere ---------------------------------------------------------------------------------------


def run_once(engine: Engine, name: str, job: str) -> None:
    """One command in a process of its own."""
    location = Location("memory", engine.store.bucket, DESTINATION)

    async def work() -> None:
        try:
            if name == "commit":
                await commit_listed(engine, location, job, driver_is_dead=True)
            elif name == "abort":
                await abort_job(engine, location, job=job, driver_is_dead=True)
            else:
                await recover_jobs(engine, location)
        except (Crash, MagicError):
            return

    asyncio.run(work())


def command(bucket: Bucket, name: str, job: str, *faults: Fault, **told: Any) -> Traffic:
    """One command, whose store fails as told."""
    traffic = Traffic(faults, **told)
    run_once(Engine(faulty(MemoryStore(bucket.name, default_world()), traffic, Actor(name)), 1), name, job)
    return traffic


def end_of(bucket: Bucket, url: str, job: HadoopJob, wish: str) -> None:
    """Bring the job to its end as the recovery page says, and check that it is whole or not there."""
    if any(one.action == "left" for one in recover(url).jobs):
        try:
            if wish == "commit":
                commit(url, job.id, driver_is_dead=True)
            else:
                abort(url, job=job.id, driver_is_dead=True)
        except CommitDenied:
            commit(url, job.id, driver_is_dead=True)
    assert bucket.data(DESTINATION) in ({}, job.files)
    assert (work(bucket), bucket.uploads()) == ([], [])
    assert recover(url).jobs == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["commit", "abort"])
@pytest.mark.parametrize(("completed", "layout"), [(0, "__magic_job"), (2, "__magic")])
def test_command_killed_at_each_of_its_requests(name: str, completed: int, layout: str, some: Some) -> None:
    def begun() -> tuple[Bucket, HadoopJob]:
        bucket = Bucket(f"b-{uuid4().hex[:8]}")
        job = theirs(bucket, layout=layout)
        job.complete(completed)
        return bucket, job

    first, job = begun()
    requests = command(first, name, job.id).count
    assert requests > 10
    for kind in (Kind.CRASH_BEFORE, Kind.CRASH_AFTER):
        for number in some(range(1, requests + 1), 6):
            for wish in ("commit", "abort"):
                bucket, job = begun()
                command(bucket, name, job.id, Fault(kind, number=number))
                end_of(bucket, bucket.url(DESTINATION), job, wish)
                if name == "commit" and wish == "commit":
                    assert bucket.data(DESTINATION) == job.files, f"{kind} {number}"


@pytest.mark.slow
@pytest.mark.parametrize("first", ["commit", "abort"])
@pytest.mark.parametrize("second", ["commit", "abort", "recover"])
def test_commands_at_once_agree(first: str, second: str, some: Some) -> None:
    """The second runs whole before each request of the first."""
    bucket = Bucket(f"b-{uuid4().hex[:8]}")
    requests = command(bucket, first, theirs(bucket).id).count
    for number in some(range(1, requests + 1), 10):
        bucket = Bucket(f"b-{uuid4().hex[:8]}")
        job = theirs(bucket)
        engine = Engine(MemoryStore(bucket.name, default_world()), 4)

        def meanwhile(
            request: Request, number: int = number, job: str = job.id, engine: Engine = engine
        ) -> None:
            if request.number == number:
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(run_once, engine, second, job).result()

        command(bucket, first, job.id, before=meanwhile)
        end_of(bucket, bucket.url(DESTINATION), job, "commit")
