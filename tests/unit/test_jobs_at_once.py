"""Two jobs at once in one process: what it remembers of one is never taken for the other's."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import fsspec
import pytest
from s3fs import S3FileSystem

import magicfs
from magicfs.job.job import Job
from magicfs.stores.conditions import Conditions, assume
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.port import Store
from magicfs.stores.s3.store import S3Store
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import BUCKET, JobScene

pytestmark = pytest.mark.sample(most=2)

NAME = "day=1 é/a b%2F+#.txt"
"""Every task of every job writes a file of this name."""
KINDS: dict[str, dict[str, Any]] = {
    "magic": {},
    "magic in memory": {"tracking": "memory"},
    "directory": {"committer": "directory"},
    "task-completing": {"committer": "task-completing"},
    "direct": {"committer": "direct"},
    "stocator": {"committer": "stocator"},
}


def url_of(destination: str) -> str:
    return f"memory://{BUCKET}/{destination}"


def one_after_another(job: Job, body: bytes, *, published: bool) -> Iterator[None]:
    """The life of a job, step by step."""
    job.setup()
    yield
    task = job.task(0).setup()
    path = f"{task.path}/{NAME}"
    task.filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    task.filesystem.pipe_file(path, body)
    yield
    commit = task.commit()
    yield
    if published:
        assert job.commit([commit]).files == 1
    else:
        job.abort()


def whole(job: Job, body: bytes, *, published: bool) -> None:
    for _ in one_after_another(job, body, published=published):
        pass


def left(scene: JobScene) -> set[bytes]:
    """The files of all destinations; nothing else may be left."""
    assert scene.uploads() == []
    objects = scene.objects()
    assert not [key for key in objects if "__magic" in key]
    return {body for key, (body, _, _) in objects.items() if key.endswith(".txt")}


def every_order() -> Iterator[list[int]]:
    """Whose turn it is, for all orders of the four steps of each of two jobs."""
    for first in itertools.combinations(range(8), 4):
        yield [0 if step in first else 1 for step in range(8)]


@pytest.mark.slow
@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize(
    ("kind", "places"),
    [*((kind, ("sales", "sales")) for kind in KINDS), ("magic in memory", ("dataset1", "dataset10"))],
)
def test_two_jobs_in_every_order_of_their_steps(kind: str, places: tuple[str, str], published: bool) -> None:
    for turns in every_order():
        scene = JobScene()
        jobs = [
            magicfs.Job(url_of(at), mode="append", filesystem=scene.filesystem, **arranged(**KINDS[kind]))
            for at in places
        ]
        lives = [
            one_after_another(jobs[0], b"first", published=True),
            one_after_another(jobs[1], b"second", published=published),
        ]
        for turn in turns:
            next(lives[turn], None)
        assert left(scene) == ({b"first", b"second"} if published else {b"first"}), turns


class Standing(MemoryFileSystem):
    """A driver that stands still before one of its requests, while something else is done."""

    def __init__(self, scene: JobScene, number: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(world=scene.filesystem.world)
        self.requests = itertools.count()
        self.number = number
        self.meanwhile = meanwhile
        self.stood = False

    def store(self, bucket: str) -> Store:
        return StandingStore(super().store(bucket), self)


class StandingStore(DelegatingStore):
    def __init__(self, inner: Store, filesystem: Standing) -> None:
        super().__init__(inner)
        self.filesystem = filesystem

    async def _around(self, operation: str, key: str, request: Any) -> Any:
        if next(self.filesystem.requests) == self.filesystem.number:
            self.filesystem.stood = True
            await asyncio.to_thread(self.filesystem.meanwhile)
        return await request()


@pytest.mark.slow
@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_job_beside_another_that_stands_still_before_any_of_its_requests(
    kind: str, published: bool
) -> None:
    for number in itertools.count():
        scene = JobScene()
        assume(scene.plain, Conditions())  # else the other one waits until the slow one has tried the store

        def meanwhile(scene: JobScene = scene) -> None:
            other = magicfs.Job(
                scene.url, mode="append", filesystem=scene.filesystem, **arranged(**KINDS[kind])
            )
            whole(other, b"other", published=published)

        filesystem = Standing(scene, number, meanwhile)
        job = magicfs.Job(scene.url, mode="append", filesystem=filesystem, **arranged(**KINDS[kind]))
        whole(job, b"slow", published=True)
        if not filesystem.stood:
            break
        assert left(scene) == ({b"slow", b"other"} if published else {b"slow"}), number


def run_some(scene: JobScene, number: int, wait: Callable[[], Any]) -> None:
    """One job of many, at one of two destinations; each third one is aborted by an error of its body."""
    options = list(KINDS.values())[number % len(KINDS)]
    fails = number % 3 == 2
    job = magicfs.Job(
        url_of(f"dataset{number % 2}"), mode="append", filesystem=scene.filesystem, **arranged(**options)
    )
    try:
        with job:
            for task_number in range(3):
                wait()
                with job.task(task_number) as task:
                    path = f"{task.path}/{NAME}"
                    task.filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
                    task.filesystem.pipe_file(path, b"%d %d" % (number, task_number))
            wait()
            if fails:
                raise ValueError("of the user")
    except ValueError:
        assert fails
    else:
        assert job.report.files == 3


def expected(jobs: int) -> set[bytes]:
    return {b"%d %d" % (job, task) for job in range(jobs) if job % 3 != 2 for task in range(3)}


def test_jobs_in_threads_at_the_same_steps() -> None:
    scene, barrier = JobScene(), threading.Barrier(12, timeout=30)
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda number: run_some(scene, number, barrier.wait), range(12)))
    assert left(scene) == expected(12)
    for destination in ("dataset0", "dataset1"):
        assert magicfs.Dataset(url_of(destination), filesystem=scene.filesystem).verify().missing == ()


def test_jobs_of_one_asyncio_program() -> None:
    scene = JobScene()

    async def program() -> None:
        await asyncio.gather(
            *(asyncio.to_thread(run_some, scene, number, lambda: None) for number in range(12))
        )

    asyncio.run(program())
    assert left(scene) == expected(12)


def test_coroutines_that_take_turns_in_one_thread() -> None:
    scene = JobScene()

    async def live(number: int) -> None:
        job = magicfs.Job(url_of("sales"), mode="append", filesystem=scene.filesystem)
        for _ in one_after_another(job, b"%d" % number, published=number % 3 != 2):
            await asyncio.sleep(0)

    async def program() -> None:
        await asyncio.gather(*(live(number) for number in range(12)))

    asyncio.run(program())
    assert left(scene) == {b"%d" % number for number in range(12) if number % 3 != 2}


def test_jobs_of_equal_options_share_a_filesystem_and_nothing_else() -> None:
    """As of pandas: by URLs, without options, so that fsspec gives all of them one instance."""
    bucket = uuid4().hex
    with (
        magicfs.Job(f"memory://{bucket}/one", mode="append") as one,
        magicfs.Job(
            f"memory://{bucket}/two", mode="append", options={"unique_names": False, "tracking": "store"}
        ) as two,
        one.task(0) as of_one,
        two.task(0) as of_two,
    ):
        for turn in (b"first", b"second"):
            for task in (of_one, of_two):
                with fsspec.open(task.url(f"{turn.decode()}.txt"), "wb") as file:
                    file.write(turn)
    assert sorted(one.report.filenames) == [
        f"memory://{bucket}/one/{turn}-000000-{one.id}.txt" for turn in ("first", "second")
    ]
    assert sorted(two.report.filenames) == [
        f"memory://{bucket}/two/{turn}.txt" for turn in ("first", "second")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_one_job_id_in_two_stores_whose_buckets_have_one_name(kind: str) -> None:
    job_id = str(uuid4())
    for number, turns in enumerate(every_order()):
        published = number % 2 == 0
        scenes = JobScene(), JobScene()
        jobs = [
            magicfs.Job(
                scene.url,
                mode="append",
                job_id=job_id,
                filesystem=scene.filesystem,
                **arranged(**KINDS[kind]),
            )
            for scene in scenes
        ]
        lives = [
            one_after_another(job, body, published=ends)
            for job, body, ends in zip(jobs, (b"here", b"there"), (published, True), strict=True)
        ]
        for turn in turns:
            next(lives[turn], None)
        assert left(scenes[0]) == ({b"here"} if published else set()), turns
        assert left(scenes[1]) == {b"there"}, turns


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({"endpoint_url": "http://minio:9000/"}, {}),
        ({"client_kwargs": {"endpoint_url": "http://minio:9000"}}, {"AWS_PROFILE": "other"}),
        ({}, {"AWS_ENDPOINT_URL": "http://minio:9000"}),
        ({"profile": "other"}, {"AWS_ENDPOINT_URL_S3": "http://minio:9000", "AWS_ENDPOINT_URL": "http://x"}),
    ],
)
def test_one_endpoint_is_one_store_however_it_is_named(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], environment: dict[str, str]
) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    named = S3FileSystem(endpoint_url="http://minio:9000", skip_instance_cache=True)
    expected = S3Store(named, BUCKET).identity
    assert S3Store(S3FileSystem(skip_instance_cache=True), BUCKET).identity != expected
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert S3Store(S3FileSystem(skip_instance_cache=True, **options), BUCKET).identity == expected


def test_settings_of_one_job_id_in_two_stores() -> None:
    scenes = JobScene(), JobScene()
    first = scenes[0].job(job_id="nightly")
    second = scenes[1].job(job_id="nightly", unique_names=False)
    for scene, job in zip(scenes, (first, second), strict=True):
        job.commit(scene.wrote(job, {"a.txt": b"row"}))
    assert list(scenes[0].data()) == ["a-000000-nightly.txt"]
    assert list(scenes[1].data()) == ["a.txt"]


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_one_path_of_ones_own_in_two_stores_whose_buckets_have_one_name(tracking: Any) -> None:
    scenes = JobScene(), JobScene()
    path = f"{BUCKET}/sales/__magic/mine/__base/a.txt"
    for scene, body in zip(scenes, (b"here", b"there"), strict=True):
        magicfs.MagicFileSystem(scene.filesystem, tracking=tracking).pipe_file(path, body)
    for scene, body in zip(scenes, (b"here", b"there"), strict=True):
        directory = path.rpartition("/")[0]
        assert magicfs.MagicFileSystem(scene.filesystem).publish(f"memory://{directory}").files == 1
        assert left(scene) == {body}
