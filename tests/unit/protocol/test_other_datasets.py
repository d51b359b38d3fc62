"""Which other dataset a key belongs to, and what of it a job's scope concerns: no store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.protocol import paths
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.modes import is_replaced, is_work
from magicfs.protocol.other_datasets import Others, ancestors, concerns, other_of, reaches
from magicfs.protocol.replacement import OldFile, Replacement, Scope
from magicfs.testing import strategies

JOB = "0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11"
SIGNS = {
    "_magicfs/current.json": "dataset",
    "_magicfs/x/y": "dataset",
    "_delta_log/0.json": "table",
    "metadata/v1.metadata.json": "table",
    "metadata/version-hint.text": "table",
    ".hoodie/hoodie.properties": "table",
    ".hoodie_partition_metadata": "table",
    "_spark_metadata/0": "table",
    "_temporary/0/x": "work",
    f"__magic_job-{JOB}/job-{JOB}/job.json": "job",
    f"__magic/job-{JOB}/job.json": "job",
    f"__magic_job-{JOB}/job-{JOB}/job-location.json": "visitor",
}
NO_SIGNS = (
    *("metadata/x.parquet", "metadata.json", "_magicfs", "_delta_log", "_delta_log/", "x_delta_log/0.json"),
    *("_temporary/x", "_magicfs2/current.json", "__magicfs", ".hoodie", "_SUCCESS", "part-0.parquet"),
    f"__magic_job-{JOB}/job-{JOB}/job.00001.json",
    f"__magic_job-other/job-{JOB}/job.json",
    f"__magic_job-{JOB}/job-{JOB}/00/tasks/a/__base/sub/_magicfs/current.json",
    f"__magic_job-{JOB}/job-{JOB}/00/tasks/a/__base/job.json",
)
PLAIN = strategies.elements().filter(lambda one: not one.startswith(("_", ".", "metadata")))
DIRECTORIES = st.lists(PLAIN, min_size=0, max_size=3).map("/".join)
BELOW = st.lists(PLAIN, min_size=1, max_size=3).map("/".join)


@given(DIRECTORIES, BELOW, st.sampled_from(sorted(SIGNS)))
def test_every_sign_is_seen_at_any_depth_and_names_its_directory(dest: str, below: str, sign: str) -> None:
    directory = paths.join(dest, below)
    key = f"{directory}/{sign}"
    other = other_of(key, dest)
    assert other is not None
    assert (other.directory, other.kind, other.key) == (directory, SIGNS[sign], key)
    if other.layout is not None:
        assert other.layout == WorkLayout(directory, other.layout.job, 0, other.layout.name)
        assert key in {other.layout.job_object_key, other.layout.job_location_key(directory)}


@given(DIRECTORIES, DIRECTORIES, st.sampled_from(NO_SIGNS))
def test_what_is_no_sign_shows_nobody(dest: str, below: str, name: str) -> None:
    assert other_of(paths.join(dest, below) + f"/{name}" if dest or below else name, dest) is None


@given(DIRECTORIES, st.sampled_from([s for s in sorted(SIGNS) if SIGNS[s] != "table"]))
def test_the_destinations_own_manifests_and_jobs_are_no_others(dest: str, sign: str) -> None:
    assert other_of(f"{paths.prefix_of(dest)}{sign}", dest) is None


@given(strategies.keys(), st.sampled_from(["", "dataset1", "a/b"]))
def test_no_key_is_too_strange(key: str, dest: str) -> None:
    other = other_of(f"{paths.prefix_of(dest)}{key}", dest)
    assert other is None or other.key.startswith(other.directory)
    assert other_of(f"elsewhere/{key}", "else") is None


@given(DIRECTORIES)
def test_ancestors_are_all_directories_above_and_the_bucket(directory: str) -> None:
    found = ancestors(directory)
    assert len(found) == len(paths.elements(directory))
    assert all(paths.is_under(directory, one) for one in found)
    assert sorted(found, key=len, reverse=True) == list(found)


def test_ancestors_of_a_bucket_are_none() -> None:
    assert (ancestors(""), ancestors("a"), ancestors("a/b/c")) == ((), ("",), ("a/b", "a", ""))


@pytest.mark.parametrize(
    ("directory", "partitions", "concerned"),
    [
        ("d/sub", None, True),
        ("d", None, True),
        ("d/p=1", ("p=1",), True),
        ("d/p=1/sub", ("p=1",), True),
        ("d/p=1", ("p=1/q=2",), True),
        ("d/p=10", ("p=1",), False),
        ("d/p=2/sub", ("p=1", "p=3"), False),
    ],
)
def test_partitions_decide_who_is_concerned(
    directory: str, partitions: tuple[str, ...] | None, concerned: bool
) -> None:
    assert concerns(directory, "d", partitions) == concerned
    assert concerns(directory.removeprefix("d/"), "", partitions) == concerned or directory == "d"


@pytest.mark.parametrize(
    ("above", "theirs", "destination", "partitions", "touches"),
    [
        ("", None, "d", None, True),
        ("d", ("sub",), "d/sub", None, True),
        ("d", ("sub/p=1",), "d/sub", ("p=2",), False),
        ("d", ("sub/p=1",), "d/sub", ("p=1",), True),
        ("d", ("other",), "d/sub", None, False),
        ("d", (), "d/sub", None, False),
        ("d/p=1", None, "d", ("p=1/q=1",), True),
        ("d", ("x",), "d", None, True),
    ],
)
def test_job_above_reaches_what_it_has_in_common(
    above: str,
    theirs: tuple[str, ...] | None,
    destination: str,
    partitions: tuple[str, ...] | None,
    touches: bool,
) -> None:
    assert reaches(above, theirs, destination, partitions) == touches


@given(st.lists(st.tuples(BELOW, st.sampled_from([*SIGNS, *NO_SIGNS])), max_size=8))
def test_everything_that_goes_is_data_or_was_given_up(found: list[tuple[str, str]]) -> None:
    keys = sorted({f"d/{below}/{name}" for below, name in found})
    replacement = Replacement(Scope("d", whole=True, also=("d/given",)))
    for key in keys + [f"d/given/{key[2:]}" for key in keys]:
        replacement.add(OldFile(key, '"e"', 1))
    for one in replacement.deleted:
        assert is_replaced(one.key, "d") or one.key.startswith("d/given/")
        assert not is_work(one.key)
    given_up = {one.key for one in replacement.deleted if one.key.startswith("d/given/")}
    assert given_up == {f"d/given/{key[2:]}" for key in keys if not is_work(key)}


@given(
    st.lists(st.tuples(BELOW, st.sampled_from([*SIGNS, *NO_SIGNS])), max_size=8),
    st.sampled_from(["", "d", "d/e"]),
)
def test_a_replacement_tells_all_whom_the_listing_shows(found: list[tuple[str, str]], dest: str) -> None:
    keys = [paths.join(dest, below) + f"/{name}" for below, name in found]
    replacement, others = Replacement(Scope(dest, whole=True)), Others(dest)
    for key in keys:
        replacement.add(OldFile(key, '"e"', 1))
        others.add(key)
    assert replacement.others == others


def test_each_other_is_told_once() -> None:
    others = Others("d")
    for number in range(5):
        others.add(f"d/a/_magicfs/{number}.json")
        others.add(f"d/a/{number}.parquet")
    assert [one.key for one in others.concerned(None)] == ["d/a/_magicfs/0.json"]
    assert others.concerned(("b",)) == []
