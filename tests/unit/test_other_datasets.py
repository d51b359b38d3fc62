"""Other datasets and jobs, below a destination and above it: a job that deletes is refused by name."""

from __future__ import annotations

import time
from typing import Any

import pytest

import magicfs
from magicfs import datasets
from magicfs.datasets.connection import open_destination
from magicfs.errors import CommitDenied, UsageError
from magicfs.past.expire import expire_kept
from proofs.scenes.lake_scene import Lake

DELETING = ["overwrite", "overwrite_partitions"]


@pytest.fixture
def lake() -> Lake:
    return Lake()


# -- below -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", DELETING)
def test_dataset_below_is_refused_by_name_and_nothing_is_changed(lake: Lake, mode: str) -> None:
    lake.publish("d/p=1/sub", "in.txt")
    lake.publish("d", "p=1/old.txt")
    before = lake.data()
    with pytest.raises(
        (UsageError, CommitDenied), match=r"memory://bucket/d/p=1/sub is another dataset.*also_overwrite"
    ):
        lake.publish("d", "p=1/new.txt", mode=mode)
    assert lake.data() == before
    assert magicfs.Dataset(lake.url("d/p=1/sub"), filesystem=lake.filesystem).verify().ok
    lake.assert_tidy()


def test_refusal_comes_at_setup_and_tells_what_to_do(lake: Lake) -> None:
    lake.publish("d/sub", "in.txt")
    with pytest.raises(UsageError, match=r"nothing was changed.*also_overwrite=\['memory://bucket/d/sub'\]"):
        lake.job("d", "overwrite").setup()
    lake.assert_tidy()


def test_dataset_that_appears_after_the_setup_is_seen_before_the_commit_point(lake: Lake) -> None:
    job = lake.job("d", "overwrite").setup()
    commit = lake.write(job, "o.txt")
    lake.publish("d/sub", "in.txt")
    with pytest.raises(
        CommitDenied, match=r"memory://bucket/d/sub is another dataset.*nothing was published"
    ):
        job.commit([commit])
    job.abort()
    assert lake.data() == {"d/sub/in.txt"}
    lake.assert_tidy()


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("d/t/_delta_log/00000000000000000000.json", "a table of Delta Lake"),
        ("d/t/metadata/v1.metadata.json", "a table of Apache Iceberg"),
        ("d/t/metadata/version-hint.text", "a table of Apache Iceberg"),
        ("d/t/.hoodie/hoodie.properties", "a table of Apache Hudi"),
        ("d/t/year=1/.hoodie_partition_metadata", "a table of Apache Hudi"),
        ("d/t/_spark_metadata/0", "a stream of Spark"),
        ("d/t/_temporary/0/_temporary/attempt_1/part-0", "an unfinished job"),
    ],
)
def test_tables_and_work_of_others_below_are_refused(lake: Lake, key: str, told: str) -> None:
    lake.put(key)
    lake.put("d/t/part-0.parquet")
    with pytest.raises(UsageError, match=rf"memory://bucket/d/t.* is .*{told}.*{key}"):
        lake.publish("d", "new.txt", mode="overwrite")
    assert "d/t/part-0.parquet" in lake.everything()


def test_dataset_below_goes_whole_if_it_is_named(lake: Lake) -> None:
    lake.publish("d/sub", "in.txt")
    lake.publish("d", "old.txt")
    lake.publish("d", "new.txt", mode="overwrite", also_overwrite=[lake.url("d/sub")])
    assert lake.data() == {"d/new.txt"}
    assert not [key for key in lake.everything() if key.startswith("d/sub")]
    lake.publish("d", "again.txt", mode="overwrite")
    assert lake.data() == {"d/again.txt"}


def test_only_what_is_named_goes(lake: Lake) -> None:
    for one in ("d/a", "d/b", "d/a/deeper"):
        lake.publish(one, "in.txt")
    with pytest.raises(UsageError, match=r"d/a/deeper is another.*d/b is another"):
        lake.publish("d", "new.txt", mode="overwrite", also_overwrite=[lake.url("d/a")])
    assert len(lake.data()) == 3


def test_dataset_beside_the_partitions_that_are_replaced_is_no_matter(lake: Lake) -> None:
    lake.publish("d/p=1/sub", "in.txt")
    lake.publish("d", "p=1/x.txt", "p=2/x.txt")
    lake.publish("d", "p=2/new.txt", mode="overwrite_partitions")
    assert lake.data() == {"d/p=1/sub/in.txt", "d/p=1/x.txt", "d/p=2/new.txt"}


def test_dataset_between_destination_and_partition_is_refused(lake: Lake) -> None:
    lake.publish("d", "p=1/q=2/x.txt", "p=2/q=2/y.txt")
    lake.publish("d/p=1", "q=2/in.txt")
    with pytest.raises(CommitDenied, match="memory://bucket/d/p=1 is another dataset, which has files here"):
        lake.publish("d", "p=1/q=2/new.txt", mode="overwrite_partitions")
    lake.publish("d", "p=2/q=2/new.txt", mode="overwrite_partitions")
    lake.publish("d", "p=1/q=2/new.txt", mode="overwrite_partitions", also_overwrite=[lake.url("d/p=1")])
    assert lake.data() == {"d/p=1/q=2/new.txt", "d/p=2/q=2/new.txt"}


@pytest.mark.parametrize("hadoop", [None, "3.3"])
def test_unfinished_job_below_refuses_whatever_is_named(lake: Lake, hadoop: str | None) -> None:
    inner = lake.job("d/sub", "append", hadoop=hadoop).setup()
    for also in ([], [lake.url("d/sub")]):
        with pytest.raises(
            UsageError, match=rf"job {inner.id} .*is open.*magicfs recover memory://bucket/d/sub"
        ):
            lake.job("d", "overwrite", also_overwrite=also).setup()
    inner.abort()
    lake.publish("d", "new.txt", mode="overwrite")


def test_job_object_below_that_cannot_be_read_refuses(lake: Lake) -> None:
    lake.put("d/p=1/__magic/job-x/job.json", b"{}")
    with pytest.raises(UsageError, match=r"job object of job x cannot be read .*memory://bucket/d/p=1"):
        lake.publish("d", "new.txt", mode="overwrite")


def test_whole_job_below_between_two_pages_of_the_listing_is_seen(lake: Lake) -> None:
    lake.publish("d", "t/z.txt")
    outer = lake.job("d", "overwrite").setup()
    commit = lake.write(outer, "new.txt")
    # Where the listing has passed the directory of jobs, and not yet the data.
    lake.between_pages = ("d/t/_z", lambda: lake.publish("d/t", "in.txt"))
    with pytest.raises(CommitDenied, match="memory://bucket/d/t is another dataset"):
        outer.commit([commit])
    outer.abort()
    assert lake.data() == {"d/t/z.txt", "d/t/in.txt"}


def test_job_below_that_is_half_published_between_two_pages_is_seen(lake: Lake) -> None:
    lake.publish("d", "t/z.txt")
    outer = lake.job("d", "overwrite").setup()
    commit = lake.write(outer, "new.txt")
    rivals = []
    lake.between_pages = (
        "d/t/_z",
        lambda: rivals.append(lake.half_published("d/t", "append", "in.txt", "in2.txt")),
    )
    with pytest.raises(CommitDenied, match=r"is committing .*memory://bucket/d/t"):
        outer.commit([commit])
    outer.abort()
    [(inner, theirs)] = rivals
    inner.commit([theirs])
    assert lake.data() == {"d/t/z.txt", "d/t/in.txt", "d/t/in2.txt"}


def test_job_that_begins_below_after_the_setup_is_seen_before_the_commit_point(lake: Lake) -> None:
    outer = lake.job("d", "overwrite").setup()
    commit = lake.write(outer, "o.txt")
    inner = lake.job("d/sub", "append").setup()
    with pytest.raises(CommitDenied, match=rf"job {inner.id} .*is open"):
        outer.commit([commit])
    lake.finish(inner, "i.txt")
    with pytest.raises(CommitDenied, match="d/sub is another dataset"):
        outer.commit([commit])
    outer.abort()
    assert lake.data() == {"d/sub/i.txt"}


@pytest.mark.parametrize("mode", ["error", "append"])
def test_jobs_that_delete_nothing_do_not_look(lake: Lake, mode: str) -> None:
    lake.put("d/sub/_magicfs/current.json")
    lake.put("_delta_log/0.json")
    lake.publish("d", "new.txt", mode=mode)


# -- above -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", DELETING)
def test_files_of_a_dataset_above_are_refused_by_name(lake: Lake, mode: str) -> None:
    lake.publish("d", "sub/p=1/a.txt", "b.txt")
    before = lake.data()
    told = r"memory://bucket/d is another dataset, which has files here, such as d/sub/p=1/a"
    with pytest.raises((UsageError, CommitDenied), match=told):
        lake.publish("d/sub", "p=1/new.txt", mode=mode)
    assert lake.data() == before
    lake.publish("d/sub", "p=1/new.txt", mode=mode, also_overwrite=[lake.url("d")])
    assert lake.data() == {"d/b.txt", "d/sub/p=1/new.txt"}


@pytest.mark.parametrize("mode", DELETING)
def test_replaced_files_that_a_dataset_above_keeps_are_refused_by_name(lake: Lake, mode: str) -> None:
    first = lake.publish("d", "sub/p=1/a.txt")
    lake.publish("d", "b.txt", mode="overwrite", keep="1s", keep_in_place=True)
    reason = r"memory://bucket/d is another dataset, which keeps replaced files here .* d/sub/p=1/a"
    with pytest.raises((UsageError, CommitDenied), match=reason):
        lake.publish("d/sub", "p=1/new.txt", mode=mode)
    assert lake.data() == {"d/sub/p=1/a.txt", "d/b.txt"}
    magicfs.Dataset(lake.url("d"), filesystem=lake.filesystem).rollback(to=f"job:{first.id}", keep=None)
    assert lake.data() == {"d/sub/p=1/a.txt"}


@pytest.mark.parametrize("mode", DELETING)
def test_replaced_files_that_a_dataset_above_has_moved_aside_are_in_nobodys_way(
    lake: Lake, mode: str
) -> None:
    first = lake.publish("d", "sub/p=1/a.txt")
    lake.publish("d", "b.txt", mode="overwrite", keep="7d")
    lake.publish("d/sub", "p=1/new.txt", mode=mode)
    above = magicfs.Dataset(lake.url("d"), filesystem=lake.filesystem)
    assert [one.key.rpartition("/")[2][:2] for one in above.files(as_of=f"job:{first.id}")] == ["a-"]


def test_replaced_files_of_a_dataset_above_are_no_matter_once_they_expire(lake: Lake) -> None:
    lake.publish("d", "sub/a.txt", "sub/e.txt")
    lake.publish("d", "b.txt", mode="overwrite", keep="1s", keep_in_place=True)
    destination = open_destination(lake.url("d"), None, lake.filesystem)
    destination.run(expire_kept, now_ms=int(time.time() * 1000) + 60_000)
    lake.publish("d/sub", "new.txt", mode="overwrite")
    assert lake.data() == {"d/b.txt", "d/sub/new.txt"}


def test_replaced_files_of_a_dataset_above_go_if_it_is_named(lake: Lake) -> None:
    lake.publish("d", "sub/a.txt")
    lake.publish("d", "b.txt", mode="overwrite", keep="7d")
    lake.publish("d/sub", "new.txt", mode="overwrite", also_overwrite=[lake.url("d")])
    assert lake.data() == {"d/b.txt", "d/sub/new.txt"}


def test_dataset_above_without_files_here_is_no_matter(lake: Lake) -> None:
    lake.publish("d", "b.txt")
    for name in ("one.txt", "two.txt", "three.txt"):
        lake.publish("d/sub", name, mode="overwrite")
    assert lake.data() == {"d/b.txt", "d/sub/three.txt"}


@pytest.mark.parametrize(
    ("key", "destination"),
    [
        ("lake/t/_delta_log/0.json", "lake/t/year=1"),
        ("_delta_log/0.json", "lake/t"),
        ("lake/t/metadata/v1.metadata.json", "lake/t/data"),
        ("lake/t/metadata/v1.metadata.json", "lake/t/data/year=1"),
    ],
)
def test_table_above_is_refused_where_something_would_be_deleted(
    lake: Lake, key: str, destination: str
) -> None:
    lake.put(key)
    lake.publish(destination, "a.txt", mode="overwrite")
    with pytest.raises(UsageError, match=r"is a table of .*also_overwrite"):
        lake.publish(destination, "b.txt", mode="overwrite")
    assert f"{destination}/a.txt" in lake.data()
    assert f"{destination}/b.txt" not in lake.data()


def test_job_above_that_has_shown_half_of_its_files_refuses(lake: Lake) -> None:
    outer, commit = lake.half_published("d", "append", "sub/a.txt", "sub/b.txt")
    before = lake.data()
    assert len(before) == 1
    with pytest.raises(
        UsageError, match=rf"job {outer.id} .*is committing.*magicfs recover memory://bucket/d"
    ):
        lake.publish("d/sub", "in.txt", mode="overwrite")
    assert lake.data() == before
    outer.commit([commit])
    assert magicfs.Dataset(lake.url("d"), filesystem=lake.filesystem).verify().ok


def test_job_above_whose_partitions_lie_elsewhere_is_no_matter(lake: Lake) -> None:
    lake.publish("d", "p=2/x.txt")
    outer, commit = lake.half_published("d", "overwrite_partitions", "p=2/a.txt", "p=2/b.txt")
    lake.put("d/p=1/old.txt")
    lake.publish("d/p=1", "in.txt", mode="overwrite")
    outer.commit([commit])
    assert {one for one in lake.data() if one.startswith("d/p=1")} == {"d/p=1/in.txt"}


def test_job_above_that_is_open_is_no_matter(lake: Lake) -> None:
    outer = lake.job("d", "append").setup()
    for name in ("one.txt", "two.txt"):
        lake.publish("d/sub", name, mode="overwrite")
    lake.finish(outer, "sub/out.txt")
    assert lake.data() == {"d/sub/two.txt", "d/sub/out.txt"}


def test_parent_that_may_not_be_listed_is_a_warning(lake: Lake) -> None:
    lake.publish("a/d", "old.txt")
    lake.denied = ("_", "a/_")
    report = lake.publish("a/d", "new.txt", mode="overwrite").report
    assert sorted(one.partition(", and these")[0] for one in report.warnings) == [
        "memory://bucket may be another dataset",
        "memory://bucket/a may be another dataset",
    ]
    assert lake.data() == {"a/d/new.txt"}


# -- extra destinations ----------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["extra", "extra/sub", "up"])
def test_replace_does_not_delete_what_a_job_is_publishing_to_its_extra_destination(
    lake: Lake, place: str
) -> None:
    extra = {"extra": "extra", "extra/sub": "extra", "up": "up/extra"}[place]
    lake.publish(place, "old.txt")
    job, commit = lake.half_published("dest", "append", "sub/a.txt", "sub/b.txt", extra=extra)
    before = lake.data()
    told = rf"job {job.id} .*is committing, has its destination at dest.*recover memory://bucket/dest"
    with pytest.raises((CommitDenied, UsageError), match=told):
        lake.publish(place, "new.txt", mode="overwrite")
    assert lake.data() == before
    job.commit([commit])
    assert not magicfs.Dataset(lake.url(extra), filesystem=lake.filesystem).verify().missing
    assert magicfs.Dataset(lake.url("dest"), filesystem=lake.filesystem).verify().ok


def test_fail_sees_what_a_job_is_publishing_to_its_extra_destination(lake: Lake) -> None:
    rival = lake.job("extra", "error").setup()
    mine = lake.write(rival, "new.txt")
    job, commit = lake.half_published("dest", "append", "a.txt", "b.txt", extra="extra", completes=0)
    with pytest.raises(
        CommitDenied, match=rf"cannot be published now: job {job.id} .*recover memory://bucket/dest"
    ):
        rival.commit([mine])
    rival.abort()
    job.commit([commit])
    assert len([one for one in lake.data() if one.startswith("extra/")]) == 2


def test_location_of_a_job_that_has_ended_is_in_nobodys_way(lake: Lake) -> None:
    job = lake.job("dest", "append", extra_destinations=[lake.url("x/extra")]).setup()
    location = next(key for key in lake.everything() if key.endswith("job-location.json"))
    body = lake.read(location)
    job.abort()
    lake.put(location, body)
    lake.put("x/old.txt")
    lake.put("x/extra/old.txt")
    lake.publish("x/extra", "new.txt", mode="overwrite")
    lake.publish("x", "new.txt", mode="overwrite", also_overwrite=[lake.url("x/extra")])


# -- what can be said ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("also", "mode", "told"),
    [
        (["memory://bucket/d/sub"], "append", "deletes none"),
        ("memory://bucket/d/sub", "overwrite", "expected a list, found text"),
        (["memory://other/d/sub"], "overwrite", "is outside"),
        (["memory://bucket/e"], "overwrite", "neither below"),
        (["memory://bucket/d"], "overwrite", "neither below"),
        (["memory://bucket/d/__magic/x"], "overwrite", "neither below"),
    ],
)
def test_also_overwrite_that_cannot_be_right_is_refused(lake: Lake, also: Any, mode: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        lake.job("d", mode, also_overwrite=also)


def test_whoever_commits_the_job_knows_what_it_may_delete(lake: Lake) -> None:
    lake.publish("d/sub", "in.txt")
    job = lake.job("d", "overwrite", also_overwrite=[lake.url("d/sub")]).setup()
    lake.write(job, "new.txt")
    datasets.commit(lake.url("d"), job.id, filesystem=lake.filesystem)
    assert lake.data() == {"d/new.txt"}
