"""Jobs where the store keeps objects: soft delete, holds, retention, on the doubles of Google and Azure."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from adlfs import AzureBlobFileSystem
from gcsfs.core import GCSFileSystem

import magicfs
from magicfs.errors import (
    CommitDenied,
    CommitFailed,
    CommitUnfinished,
    OutputExists,
    PermissionDenied,
    ProtocolViolation,
    StoreError,
)
from magicfs.job.job import Job
from magicfs.stores.azure import folders as azure_folders
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.adls_server import AdlsDouble
from proofs.doubles.gcs_operations import gcs_operation
from proofs.doubles.gcs_server import GcsDouble
from proofs.scenes.arranged import arranged

pytestmark = pytest.mark.sample(most=1)


class Place(ABC):
    """A bucket, and what keeps objects in it."""

    server: Any

    def __init__(self, bucket: str) -> None:
        self.bucket = bucket

    @property
    def url(self) -> str:
        return f"{self.server.scheme}://{self.bucket}/sales"

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.server.storage_options())

    @abstractmethod
    def hold(self, key: str, *, on: bool) -> None:
        """Hold one object, or release it."""

    @abstractmethod
    def hold_all(self, *, on: bool) -> None:
        """Hold every object that is written from now on, or release all."""

    @abstractmethod
    def retain(self, *, on: bool) -> None:
        """Retain every object for an hour, or none."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Delete an object past magicfs."""

    @abstractmethod
    def keep_deleted(self, *, on: bool) -> None:
        """Switch soft delete on or off."""

    def release(self) -> None:
        self.keep_deleted(on=False)
        self.retain(on=False)
        self.hold_all(on=False)

    def job(self, **more: Any) -> Job:
        return Job(self.url, **arranged(**{"mode": "append", "storage_options": self.options, **more}))

    def written(self, *names: str, **more: Any) -> Job:
        """A job that has one task, which has written and committed files."""
        job = self.job(**more).setup()
        with job.task(0) as task:
            for name in names:
                task.filesystem.pipe_file(f"{task.path}/{name}", f"{name} of {job.id}".encode())
        return job

    def visible(self) -> list[str]:
        found = self.server.visible_keys(self.bucket, "sales/")
        return sorted(key.removeprefix("sales/") for key in found)

    def plain(self) -> list[str]:
        """What is visible, without the ids in the names."""
        return sorted(key.split("-")[0] for key in self.visible())

    def key(self, start: str) -> str:
        [found] = [key for key in self.visible() if key.startswith(start)]
        return f"sales/{found}"

    def work(self) -> list[str]:
        return [key for key in self.server.all_keys(self.bucket) if "/__magic" in key]

    def in_manifests(self) -> int:
        """How many files readers of manifests see, all of which are there."""
        report = magicfs.Dataset(self.url, storage_options=self.options).verify()
        assert (report.missing, report.altered) == ((), ())
        return report.files

    def recover(self, **how: Any) -> Any:
        return magicfs.Dataset(self.url, storage_options=self.options).recover(**how)


class GcsPlace(Place):
    server: GcsDouble

    def hold(self, key: str, *, on: bool) -> None:
        self.server.change_object(self.bucket, key, temporaryHold=on)

    def hold_all(self, *, on: bool) -> None:
        self.server.change_bucket(self.bucket, defaultEventBasedHold=on)
        for key in () if on else self.server.all_keys(self.bucket):
            self.server.change_object(self.bucket, key, eventBasedHold=False)

    def retain(self, *, on: bool) -> None:
        self.server.change_bucket(self.bucket, retentionPolicy={"retentionPeriod": "3600"} if on else {})

    def delete(self, key: str) -> None:
        self.server.ask("DELETE", f"/storage/v1/b/{self.bucket}/o/{quote(key, safe='')}")

    def keep_deleted(self, *, on: bool) -> None:
        days = 7 if on else 0
        self.server.change_bucket(
            self.bucket, softDeletePolicy={"retentionDurationSeconds": str(days * 24 * 3600)}
        )


class AdlsPlace(Place):
    server: AdlsDouble

    def hold(self, key: str, *, on: bool) -> None:
        self.server.client().get_blob_client(self.bucket, key).set_legal_hold(on)

    def hold_all(self, *, on: bool) -> None:
        self.server.keep(self.bucket, legal_hold=on)

    def retain(self, *, on: bool) -> None:
        self.server.keep(self.bucket, retention_s=3600 if on else 0)

    def delete(self, key: str) -> None:
        self.server.client().get_blob_client(self.bucket, key).delete_blob()

    def keep_deleted(self, *, on: bool) -> None:
        self.server.keep_deleted(7 if on else 0)


@pytest.fixture(params=["gcs", "gcs with folders", "adls"])
def place(
    server: Callable[[str], Any], bucket_factory: Callable[..., str], request: pytest.FixtureRequest
) -> Iterator[Place]:
    running = server(request.param.split()[0])
    made: Place
    if request.param == "adls":
        made = AdlsPlace(bucket_factory(running, "kept"))
    else:
        how = {"hierarchicalNamespace": {"enabled": True}} if "folders" in request.param else {}
        made = GcsPlace(bucket_factory(running, "kept", **how))
    made.server = running
    yield made
    made.release()
    for kind in (GCSFileSystem, AzureBlobFileSystem):
        kind.clear_instance_cache()
    azure_folders._known.clear()


@pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
def test_soft_deleted_objects_are_seen_by_no_job_and_no_recovery(place: Place, mode: str) -> None:
    place.keep_deleted(on=True)
    place.written("day=1/old.txt", "day=2/old.txt").commit()
    report = place.written("day=1/new.txt", mode=mode).commit()
    assert report.files == 1
    again = place.written("day=1/new.txt", mode=mode).commit()
    assert again.files_deleted == (0 if mode == "append" else 1)
    left = {
        "append": ["day=1/new", "day=1/new", "day=1/old", "day=2/old"],
        "overwrite": ["day=1/new"],
        "overwrite_partitions": ["day=1/new", "day=2/old"],
    }
    assert place.plain() == left[mode]
    place.written("day=1/aborted.txt", mode=mode).abort()
    dead = place.written("day=1/dead.txt", mode=mode)
    assert place.recover(job=dead.id, abort=True).jobs[0].action == "aborted"
    assert place.recover().jobs == ()
    assert (place.plain(), place.work()) == (left[mode], [])
    assert place.in_manifests() == len(left[mode])
    kept = place.server.deleted_keys(place.bucket, "sales/")
    assert any("/__magic" in key for key in kept)
    assert any("/old-" in key for key in kept) == (mode != "append")


def test_name_and_destination_whose_files_are_soft_deleted_are_free(place: Place) -> None:
    place.keep_deleted(on=True)
    plain = {"unique_names": False, "mode": "error"}
    for _ in range(2):
        place.written("a.txt", **plain).commit()
        with pytest.raises(OutputExists):
            place.job(**plain).setup()
        for key in place.server.all_keys(place.bucket):
            place.delete(key)
    assert place.server.deleted_keys(place.bucket).count("sales/a.txt") == 2


@pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions"])
def test_old_file_that_is_kept_stays_until_it_is_released_and_a_recovery(place: Place, mode: str) -> None:
    place.written("day=1/kept.txt", "day=1/old.txt").commit()
    kept = place.key("day=1/kept")
    body = place.server.read(place.bucket, kept)
    place.server.write(place.bucket, "beside/sales.txt", b"theirs")
    place.hold(kept, on=True)
    job = place.written("day=1/new.txt", mode=mode)
    with pytest.raises(CommitUnfinished) as caught:
        job.commit()
    told = r"the files are published .*kept-.*(release the hold|hold cleared).*then run magicfs recover"
    assert re.search(told, str(caught.value))
    assert place.plain() == ["day=1/kept", "day=1/new"]
    assert place.in_manifests() == 1
    for undo in (
        job.abort,
        lambda: place.recover(job=job.id, abort=True),
        lambda: place.recover(job=job.id, rollback=True),
    ):
        with pytest.raises((CommitDenied, ProtocolViolation), match=r"published|run recover to finish it"):
            undo()
    [again] = place.recover().jobs
    assert (again.action, len(again.warnings)) == ("not finished", 1)
    assert re.search(told, again.warnings[0])
    assert place.server.read(place.bucket, kept) == body
    place.hold(kept, on=False)
    [done] = place.recover().jobs
    assert (done.action, done.warnings) == ("finished", ())
    assert (place.plain(), place.work()) == (["day=1/new"], [])
    assert place.server.read(place.bucket, "sales/_SUCCESS")
    assert place.server.read(place.bucket, "beside/sales.txt") == b"theirs"


def test_old_file_of_an_equal_name_that_is_kept_is_not_written_over(place: Place) -> None:
    place.written("a.txt", unique_names=False).commit()
    body = place.server.read(place.bucket, "sales/a.txt")
    place.hold("sales/a.txt", on=True)
    job = place.written("a.txt", "b.txt", mode="overwrite", unique_names=False)
    told = (
        r"a\.txt could not be .*can no longer be rolled back.*run magicfs recover.*(release the hold|cleared)"
    )
    for commit in (job.commit, place.recover):
        with pytest.raises(CommitFailed, match=told) as caught:
            commit()
        assert caught.value.failed == ("sales/a.txt",)
    assert place.server.read(place.bucket, "sales/a.txt") == body
    place.hold("sales/a.txt", on=False)
    assert [one.action for one in place.recover().jobs] == ["finished"]
    assert place.server.read(place.bucket, "sales/a.txt") == f"a.txt of {job.id}".encode()
    assert (place.visible(), place.work()) == (["a.txt", "b.txt"], [])


@pytest.mark.parametrize("tried", [False, True])
@pytest.mark.parametrize("kept", ["retention", "hold"])
def test_bucket_that_keeps_every_object_is_refused_at_setup(place: Place, kept: str, tried: bool) -> None:
    keep = place.retain if kept == "retention" else place.hold_all
    if tried:
        place.written("old.txt").commit()
    before = place.server.all_keys(place.bucket)
    keep(on=True)
    job = place.job(mode="overwrite")
    with pytest.raises(StoreError, match="a job has to overwrite and delete its own objects") as caught:
        job.setup()
    assert not caught.value.retryable
    told = str(caught.value)
    left = [key for key in place.server.all_keys(place.bucket) if key not in before]
    assert len(left) == (1 if tried else 3)  # its job object, and two that were tried
    assert told.partition("stay: ")[2].partition("; ")[0] == ", ".join(left)
    assert f"magicfs recover {place.url} --job {job.id} --abort" in told
    assert re.search("retention ends or release the hold|policy ends or have the legal hold", told)
    with pytest.raises(StoreError, match=r"retention|hold"):
        place.recover(job=job.id, abort=True)
    keep(on=False)
    assert place.recover(job=job.id, abort=True).jobs[0].action == "aborted"
    assert place.server.all_keys(place.bucket) == before


@pytest.mark.parametrize("kept", ["retention", "hold"])
def test_policy_that_comes_while_tasks_write_keeps_the_job_from_being_published(
    place: Place, kept: str
) -> None:
    keep = place.retain if kept == "retention" else place.hold_all
    place.written("old.txt").commit()
    job = place.written("new.txt", mode="overwrite")
    keep(on=True)
    for end in (job.commit, job.abort, lambda: place.recover(job=job.id, abort=True)):
        with pytest.raises(StoreError, match=r"retention|hold"):
            end()
        assert place.plain() == ["old"]
    keep(on=False)
    assert job.commit().warnings == ()
    assert (place.plain(), place.work()) == (["new"], [])


@pytest.mark.parametrize("place", ["gcs"], indirect=True)
def test_setup_that_is_refused_for_another_reason_leaves_no_job_object(place: Place) -> None:
    with FaultProxy(place.server.endpoint, gcs_operation) as proxy:
        proxy.add(Rule("objects.insert", Action.ERROR, skip=1, status=403, code="forbidden"))
        options = place.options | {"endpoint_url": proxy.endpoint}
        with pytest.raises(PermissionDenied, match="a conditional request, which jobs depend on, was denied"):
            place.job(storage_options=options).setup()
        assert proxy.counts["objects.insert"] >= 2
    assert place.server.all_keys(place.bucket) == []
