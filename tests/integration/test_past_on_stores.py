"""Keeping, expiring and rolling back on real servers of every kind, a bucket with versions among them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import magicfs
from magicfs.errors import ObjectNotFound, UsageError
from proofs.scenes.arranged import arranged

NAME = "lake 1/sales +#%ü"
STORES = (
    *("seaweedfs", "ministack", "moto", "gcs", "azurite"),
    *("versions on moto", "versions on ministack", "versions on seaweedfs"),
)


class Place:
    """A destination on a server."""

    def __init__(self, server: Any, bucket: str, *, keeps_versions: bool) -> None:
        self.server = server
        self.keeps_versions = keeps_versions
        self.bucket = bucket
        self.url = f"{server.scheme}://{bucket}/{NAME}"
        self.how = {"storage_options": server.storage_options()}

    def publish(self, values: dict[int, int], **how: Any) -> magicfs.Job:
        """A file with a value for each partition."""
        with (
            magicfs.Job(self.url, **arranged(**{"mode": "append", **how, **self.how})) as job,
            job.task(0) as task,
        ):
            for part, value in values.items():
                task.filesystem.pipe_file(f"{task.path}/p={part}/a b.csv", f"n\n{value}\n".encode())
        return job

    def rows(self, **how: Any) -> list[int]:
        table = magicfs.Dataset(self.url, **self.how).to_arrow(format="csv", **how).to_table()
        return sorted(table["n"].to_pylist())

    def listed(self) -> list[int]:
        """What somebody reads who lists."""
        keys = self.server.visible_keys(self.bucket, f"{NAME}/")
        bodies = [self.server.read(self.bucket, key) for key in keys]
        return sorted(int(body.decode().split()[1]) for body in bodies if body is not None)

    def wait_until_over(self) -> None:
        """Until every promise has ended."""
        kept = [one.kept_until for one in magicfs.Dataset(self.url, **self.how).history() if one.kept_until]
        time.sleep(max(0.0, max(kept).timestamp() - time.time()) + 0.01)

    def left(self) -> list[str]:
        """Work objects and pending uploads."""
        keys = [key for key in self.server.all_keys(self.bucket) if "__magic" in key]
        return keys + [key for key, _ in self.server.uploads(self.bucket)]


# In the gate each sentence is put to one of the stores.
pytestmark = pytest.mark.sample(most=1)


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, bucket_factory: Callable[..., str]) -> Place:
    name = request.param.removeprefix("versions on ")
    server = request.getfixturevalue(name)
    bucket = bucket_factory(server, "past")
    if name != request.param:
        server.keep_versions(bucket)
    return Place(server, bucket, keeps_versions=name != request.param)


def test_replaced_files_are_read_until_they_expire(place: Place) -> None:
    place.publish({1: 1, 2: 2}, run_id="monday")
    held = magicfs.Dataset(place.url, **place.how).to_arrow(format="csv")
    second = place.publish({1: 3}, mode="overwrite", keep=timedelta(seconds=20))
    assert place.rows() == [3]
    assert place.listed() == place.rows()
    assert place.rows(as_of="monday") == [1, 2] == sorted(held.to_table()["n"].to_pylist())
    assert magicfs.Dataset(place.url, **place.how).expire().files == 0
    assert magicfs.Dataset(place.url, **place.how).verify().kept == 0, "none where others list"
    third = place.publish({1: 4}, mode="overwrite_partitions", keep=timedelta(milliseconds=1))
    assert place.listed() == place.rows()
    newest, before, _ = magicfs.Dataset(place.url, **place.how).history()
    assert (newest.job_id, before.job_id) == (third.id, second.id)
    assert isinstance(before.kept_until, datetime)
    time.sleep(0.05)
    done = magicfs.Dataset(place.url, **place.how).expire()
    assert (done.jobs, done.files, done.altered, done.keeping) == ((third.id,), 1, (), 1)
    assert place.listed() == place.rows()
    assert place.rows(as_of="monday") == [1, 2]
    with pytest.raises(ObjectNotFound, match="1 of 1 files"):
        place.rows(as_of=second.id)
    assert place.left() == []


def test_a_rollback_is_published_and_rolled_back(place: Place) -> None:
    first = place.publish({1: 1, 2: 2})
    second = place.publish({1: 3}, mode="overwrite", keep="1h")
    magicfs.Dataset(place.url, **place.how).tag("month-end", first.id)
    report = magicfs.Dataset(place.url, **place.how).rollback(to="month-end", keep="1h", run_id="back")
    assert place.rows() == [1, 2]
    assert place.listed() == place.rows()
    again = magicfs.Dataset(place.url, **place.how).rollback(to="month-end", run_id="back", keep=None)
    assert again.published_before
    assert magicfs.Dataset(place.url, **place.how).history()[0].restores == first.id
    magicfs.Dataset(place.url, **place.how).rollback(to=f"job:{second.id}", keep=None)
    assert place.rows() == [3]
    assert place.listed() == place.rows()
    assert report.files == 2
    assert place.left() == []
    assert magicfs.Dataset(place.url, **place.how).verify().ok


def test_what_has_expired_is_rolled_back_to_by_nobody(place: Place) -> None:
    first = place.publish({1: 1})
    place.publish({1: 3}, mode="overwrite", keep=timedelta(milliseconds=1))
    place.wait_until_over()
    assert place.rows(as_of=first.id) == [1], "its time is over, and nobody has expired it"
    assert magicfs.Dataset(place.url, **place.how).expire().files == 1
    with pytest.raises(ObjectNotFound, match="nothing was changed"):
        magicfs.Dataset(place.url, **place.how).rollback(to=first.id, keep=None)
    assert (place.rows(), place.listed(), place.left()) == ([3], [3], [])


def test_partitions_hide_what_a_rollback_has_shown_again(place: Place) -> None:
    first = place.publish({1: 1, 2: 2})
    place.publish({1: 3}, mode="overwrite", keep="1h")
    magicfs.Dataset(place.url, **place.how).rollback(to=first.id, keep=None)
    place.publish({1: 4}, mode="overwrite_partitions")
    assert place.rows() == [2, 4]
    assert place.rows(as_of=first.id) == [1, 2]


def test_a_job_that_is_open_meanwhile_replaces_what_the_rollback_shows(place: Place) -> None:
    first = place.publish({1: 1})
    place.publish({1: 2}, mode="overwrite", keep="1h")
    job = magicfs.Job(place.url, mode="overwrite", **arranged(**place.how)).setup()
    magicfs.Dataset(place.url, **place.how).rollback(to=first.id, keep=None)
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/p=1/a.csv", b"n\n5\n")
    job.commit([task.committed])
    assert place.rows() == [5]
    assert place.listed() == place.rows()
    assert place.left() == []


def test_rows_that_do_not_fit_are_appended_by_nobody(place: Place) -> None:
    url = f"{place.url} tables"
    magicfs.write(pa.table({"n": [1, 2]}), url, mode="append", **place.how)
    before = place.server.all_keys(place.bucket)
    with pytest.raises(
        UsageError, match="column 'n' is int64 in the existing files, and double in the new rows"
    ):
        magicfs.write(pa.table({"n": [1.5]}), url, mode="append", **place.how)
    assert place.server.all_keys(place.bucket) == before
    magicfs.write(pa.table({"n": [3]}), url, mode="append", **place.how)
    assert sorted(magicfs.Dataset(url, **place.how).to_arrow().to_table()["n"].to_pylist()) == [1, 2, 3]
