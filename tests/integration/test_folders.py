"""Jobs in buckets that have folders, on Google Cloud Storage and Azure Data Lake Storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from adlfs import AzureBlobFileSystem
from fsspec.asyn import get_loop, sync
from gcsfs.core import GCSFileSystem

import magicfs
from magicfs.errors import ObjectNotFound, PermissionDenied, StoreError, UsageError
from magicfs.job.job import Job
from magicfs.stores import resolve
from magicfs.stores.azure import folders as azure_folders
from magicfs.stores.trees import tree_of
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.committer_exam.drivers import dying, dying_task
from proofs.doubles.azure_operations import azure_operation
from proofs.doubles.gcs_operations import gcs_operation
from proofs.doubles.gcs_server import GcsDouble
from proofs.scenes.arranged import arranged

RENAMING = [("manifest", {}), ("file", {"algorithm": 1}), ("file", {"algorithm": 2})]
# Work files are written by gcsfs and adlfs themselves, and they send them in a way that aiohttp warns of.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning"),
    pytest.mark.sample(most=1),
]


@dataclass
class Place:
    """A bucket, and how its requests are called."""

    server: Any
    bucket: str
    operation: Callable[..., str]
    asks: str
    """The request that tells whether there are folders."""
    moves: str

    def options(self, endpoint: str | None) -> dict[str, Any]:
        if endpoint is None:
            return dict(self.server.storage_options())
        if isinstance(self.server, GcsDouble):
            return self.server.storage_options() | {"endpoint_url": endpoint}
        return {"connection_string": self.server.connection_string(endpoint)}

    def job(self, committer: str, endpoint: str | None = None, **more: Any) -> Job:
        settings = {"mode": "append", "unique_names": False, **more}
        return Job(
            f"{self.server.scheme}://{self.bucket}/a b/sales",
            committer=committer,
            storage_options=self.options(endpoint),
            **arranged(**settings),
        )

    def visible(self) -> dict[str, bytes | None]:
        found = self.server.visible_keys(self.bucket, "a b/sales/")
        return {key.removeprefix("a b/sales/"): self.server.read(self.bucket, key) for key in found}

    def work(self) -> list[str]:
        """Objects and folders of work, and of nothing else."""
        names = self.server.all_keys(self.bucket) + self.server.folders(self.bucket)
        return [name for name in names if "__magic" in name or "_temporary" in name]


ON_GCS = (gcs_operation, "buckets.getStorageLayout", "objects.move")
ON_ADLS = (azure_operation, "Get Account Information", "Path Rename")


@pytest.fixture(params=["gcs", "adls"])
def place(
    server: Callable[[str], Any], bucket_factory: Callable[..., str], request: pytest.FixtureRequest
) -> Iterator[Place]:
    running = server(request.param)
    if request.param == "gcs":
        bucket = bucket_factory(running, "folders", hierarchicalNamespace={"enabled": True})
        yield Place(running, bucket, *ON_GCS)
    else:
        yield Place(running, bucket_factory(running, "folders"), *ON_ADLS)
    forget()


@pytest.fixture(params=["gcs", "azurite"])
def flat(
    server: Callable[[str], Any], bucket_factory: Callable[..., str], request: pytest.FixtureRequest
) -> Iterator[Place]:
    running = server(request.param)
    yield Place(running, bucket_factory(running, "flat"), *(ON_GCS if request.param == "gcs" else ON_ADLS))
    forget()


def forget() -> None:
    for kind in (GCSFileSystem, AzureBlobFileSystem):
        kind.clear_instance_cache()
    azure_folders._known.clear()


def write(job: Job, number: int) -> Any:
    with job.task(number) as task:
        task.filesystem.pipe_file(f"{task.path}/day={number}/ä+%20.csv", b"%d" % number)
    return task.committed


WRITTEN = {"day=0/ä+%20.csv": b"0", "day=1/ä+%20.csv": b"1"}


@pytest.mark.parametrize(("committer", "options"), [("magic", {}), ("directory", {}), *RENAMING])
def test_no_folder_of_a_jobs_work_is_left(place: Place, committer: str, options: dict[str, Any]) -> None:
    job = place.job(committer, committer_options=options).setup()
    commits = [write(job, number) for number in range(2)]
    with pytest.raises(ZeroDivisionError), job.task(2) as task:
        task.filesystem.pipe_file(f"{task.path}/lost.csv", b"2")
        raise ZeroDivisionError
    job.commit(commits)
    assert place.visible() == WRITTEN
    assert place.work() == []
    assert magicfs.Dataset(job.url, storage_options=place.options(None)).verify().ok
    job = place.job(committer, committer_options=options).setup()
    write(job, 7)
    job.abort()
    at_once = {"day=7/ä+%20.csv": b"7"} if options.get("algorithm") == 2 else {}  # visible at task commit
    assert place.visible() == WRITTEN | at_once
    assert place.work() == []


@pytest.mark.parametrize("committer", ["manifest", "file"])
def test_job_whose_driver_died_between_two_renames_is_finished_or_taken_back(
    place: Place, committer: str
) -> None:
    job = place.job(committer, unique_names=True).setup()
    options = {"storage_options": place.options(None)}
    dying(job, [write(job, number) for number in range(2)], "complete_upload", 1)
    assert len(place.visible()) == 1
    (undone,) = magicfs.Dataset(job.url, **options).recover(rollback=True).jobs
    assert (undone.action, place.visible(), place.work()) == ("reverted", {}, [])
    job = place.job(committer, unique_names=True).setup()
    dying(job, [write(job, number) for number in range(2)], "complete_upload", 1)
    (done,) = magicfs.Dataset(job.url, **options).recover().jobs
    assert (done.action, len(place.visible()), place.work()) == ("finished", 2, [])
    assert magicfs.Dataset(job.url, **options).verify(deep=True).ok


def test_task_of_algorithm_2_that_died_between_two_renames_is_published_whole(place: Place) -> None:
    job = place.job("file", committer_options={"algorithm": 2}).setup()
    write(job, 0)
    task = job.task(1)
    task.setup()
    for name in ("day=1/ä+%20.csv", "day=1/b.csv"):
        task.filesystem.pipe_file(f"{task.path}/{name}", b"1")
    dying_task(job, task, "complete_upload", 1)
    assert len(place.visible()) == 2
    job.commit()
    assert place.visible() == WRITTEN | {"day=1/b.csv": b"1"}
    assert place.work() == []
    assert magicfs.Dataset(job.url, storage_options=place.options(None)).verify().ok


@pytest.mark.parametrize("committer", ["manifest", "file"])
def test_files_whose_renames_were_not_answered_are_told_as_they_are_listed(
    place: Place, committer: str
) -> None:
    with FaultProxy(place.server.endpoint, place.operation) as proxy:
        job = place.job(committer, proxy.endpoint).setup()
        commits = [write(job, number) for number in range(2)]
        proxy.add(Rule(place.moves, Action.LOST, times=1))
        job.commit(commits)
    assert place.visible() == WRITTEN
    options = {"storage_options": place.options(None)}
    assert magicfs.Dataset(job.url, **options).verify().ok
    # Each file is deleted by the ETag that the manifest has.
    job = place.job(committer, mode="overwrite").setup()
    report = job.commit([write(job, 5)])
    assert place.visible() == {"day=5/ä+%20.csv": b"5"}
    assert [one.partition(":")[0] for one in report.warnings] == [
        "2 partitions are deleted without new data, such as day=0, day=1"
    ]
    assert magicfs.Dataset(job.url, **options).verify().ok


def test_manifest_committer_refuses_a_bucket_without_folders_and_changes_nothing(flat: Place) -> None:
    forget()
    with pytest.raises(UsageError, match=r"hierarchical namespace.*committer='magic'") as caught:
        flat.job("manifest").setup()
    assert "manifest" not in str(caught.value).partition("possible are")[2]
    assert flat.server.all_keys(flat.bucket) == []


def test_who_may_not_ask_for_the_layout_is_taken_to_have_no_folders(place: Place) -> None:
    with FaultProxy(place.server.endpoint, place.operation) as proxy:
        for asks in (place.asks, "Path Get Properties"):
            proxy.add(Rule(asks, Action.ERROR, status=403, code="AccessDenied"))
        with pytest.raises(UsageError, match="these credentials cannot see it"):
            place.job("manifest", proxy.endpoint).setup()
        job = place.job("file", proxy.endpoint).setup()
        job.commit([write(job, number) for number in range(2)])
    assert place.visible() == WRITTEN


@pytest.mark.parametrize(
    ("status", "code"), [(403, "AuthorizationPermissionMismatch"), (404, "ResourceNotFound")]
)
def test_who_may_not_ask_about_the_account_asks_for_the_roots_acl(
    server: Callable[[str], Any], bucket_factory: Callable[..., str], status: int, code: str
) -> None:
    forget()
    running = server("adls")
    place = Place(running, bucket_factory(running, "asks"), *ON_ADLS)
    with FaultProxy(place.server.endpoint, place.operation) as proxy:
        proxy.add(Rule(place.asks, Action.ERROR, status=status, code=code))
        job = place.job("manifest", proxy.endpoint).setup()
        job.commit([write(job, number) for number in range(2)])
        assert proxy.counts["Path Get Properties"] == 1
    assert place.visible() == WRITTEN


def test_file_whose_rename_was_not_answered_is_published(place: Place) -> None:
    with FaultProxy(place.server.endpoint, place.operation) as proxy:
        job = place.job("manifest", proxy.endpoint).setup()
        commits = [write(job, number) for number in range(2)]
        proxy.add(Rule(place.moves, Action.LOST, times=1, match="day"))
        job.commit(commits)
        assert proxy.counts[place.moves] >= 2
    assert place.visible() == WRITTEN
    assert place.work() == []


def test_manifest_whose_rename_lost_its_answer_is_seen_to_be_there(place: Place) -> None:
    with FaultProxy(place.server.endpoint, place.operation) as proxy:
        job = place.job("manifest", proxy.endpoint).setup()
        proxy.add(Rule(place.moves, Action.LOST, times=1, match="manifest"))
        commits = [write(job, number) for number in range(2)]
        lost = [one for one in proxy.requests if one.action is Action.LOST]
        assert [one.operation for one in lost] == [place.moves]
        job.commit(commits)
    assert place.visible() == WRITTEN
    assert place.work() == []


def test_what_stands_in_the_way_of_a_directory_is_named(place: Place) -> None:
    filesystem = resolve.filesystem(place.server.scheme, place.options(None))
    tree = tree_of(resolve.open_store(filesystem, place.bucket))

    async def go() -> None:
        await tree.make_directory("from/empty")
        with pytest.raises(ObjectNotFound, match=r"'no'|parent directory"):
            await tree.rename("from", "no/where")
        await tree.write("file", b"")
        with pytest.raises(StoreError, match="is a file"):
            await tree.rename("from", "file")
        assert await tree.look("from/empty") is not None

    sync(filesystem.loop, go)


def test_operation_that_goes_on_is_waited_for_whatever_the_service_answers(gcs: GcsDouble) -> None:
    bucket = gcs.create_bucket("folders-poll", hierarchicalNamespace={"enabled": True})
    try:
        with FaultProxy(gcs.endpoint, gcs_operation) as proxy:
            store = resolve.open_store(
                resolve.filesystem("gs", gcs.storage_options() | {"endpoint_url": proxy.endpoint}), bucket
            )
            tree = tree_of(store)
            on_loop(tree.make_directory("a/b"))
            proxy.add(Rule("operations.get", Action.ERROR, times=3, status=503))
            on_loop(tree.rename("a/b", "a/c"))
            assert proxy.counts["operations.get"] > 3
            proxy.clear()
            proxy.add(Rule("folders.delete", Action.ERROR, status=403, code="AccessDenied"))
            with pytest.raises(PermissionDenied):
                on_loop(tree.delete("a/c"))
    finally:
        gcs.remove_bucket(bucket)
        GCSFileSystem.clear_instance_cache()


def on_loop(work: Any) -> Any:
    """Run a coroutine on the loop of fsspec."""

    async def run() -> Any:
        return await work

    return sync(get_loop(), run)


def publish(job: Job, name: str) -> None:
    with job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/{name}", name.encode())
