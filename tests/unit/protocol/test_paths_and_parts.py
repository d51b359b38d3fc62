from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import UsageError
from magicfs.protocol import paths
from magicfs.protocol.parts import DEFAULT_PART_SIZE, PartLimits, part_size, part_size_early

NAME = st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=10).filter(
    lambda name: name not in {".", ".."}
)
KEY = st.lists(NAME, min_size=1, max_size=4).map("/".join)


@given(bucket=NAME, key=KEY)
def test_urls_come_back_as_they_were(bucket: str, key: str) -> None:
    location = paths.parse_url(f"s3://{bucket}/{key}")
    assert location == paths.Location("s3", bucket, key.rstrip("/"))
    assert paths.parse_url(location.url) == location


@pytest.mark.parametrize(
    "url",
    [
        *("bucket/key", "://b/k", "s3://", "s3:///key", "magic::s3://b/k", "s3://b/../k", "s3://b/./k"),
        *("s3://b//k", "s3://b/a//k/", "s3://b/k?versionId=1"),
    ],
)
def test_urls_that_name_no_place_are_refused(url: str) -> None:
    with pytest.raises(UsageError):
        paths.parse_url(url)


@given(scheme=st.sampled_from(["file", "local"]), key=KEY)
def test_urls_of_files_come_back_as_they_were_and_have_no_bucket(scheme: str, key: str) -> None:
    location = paths.parse_url(f"{scheme}:///{key}")
    assert location == paths.Location(scheme, "", key)
    assert (location.path, location.url) == (f"/{key}", f"{scheme}:///{key}")
    assert paths.parse_url(location.url) == location


@pytest.mark.parametrize("url", ["file:///tmp//x/y/", "file:////tmp/x//y", "file:///tmp/x/y"])
def test_one_file_has_one_location(url: str) -> None:
    assert paths.parse_url(url) == paths.Location("file", "", "tmp/x/y")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("file://tmp/x", "absolute"),
        ("file://", "absolute"),
        ("local://x", "absolute"),
        ("file:///", "root"),
        ("file://///", "root"),
        ("file:///tmp/../x", r"'\.\.'"),
        ("file:///tmp/./x", r"'\.\.'"),
        ("file:/tmp/x", "scheme"),
        ("magic::file:///tmp/x", "chained"),
        ("memory:///tmp/x", "bucket"),
    ],
)
def test_urls_that_name_no_file_are_refused(url: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        paths.parse_url(url)


def test_bare_path_without_a_bucket_is_refused_as_ever() -> None:
    with pytest.raises(UsageError, match="bucket"):
        paths.parse_path("/tmp/x")


def test_two_slashes_in_a_row_are_refused_with_the_one_spelling() -> None:
    with pytest.raises(UsageError, match="write it as 's3://b/a/k'"):
        paths.parse_url("s3://b//a///k/")
    assert paths.parse_url("s3://b/a/k//") == paths.parse_url("s3://b/a/k")


@given(directory=KEY, name=NAME)
def test_siblings_with_a_common_beginning_are_not_under_each_other(directory: str, name: str) -> None:
    assert paths.is_under(f"{directory}/{name}", directory)
    assert not paths.is_under(directory, directory)
    assert not paths.is_under(f"{directory}0", directory)
    assert not paths.is_under(f"{directory}0/{name}", directory)


def test_dataset10_is_not_dataset1() -> None:
    assert not paths.is_under("dataset10/part-0", "dataset1")
    with pytest.raises(UsageError, match="is not under"):
        paths.relative_to("dataset10/part-0", "dataset1")


@pytest.mark.parametrize(
    ("key", "visible"),
    [
        ("sales/a.parquet", True),
        ("sales/day=1/a.parquet", True),
        ("sales/_day=1/a.parquet", True),
        ("sales/_a=1.parquet", True),
        ("sales/_day/a=1.parquet", False),
        ("sales/.day=1/a.parquet", False),
        ("sales/_SUCCESS", False),
        ("sales/day=1/.a", False),
        ("sales/__magic_job-1/a.parquet", False),
        ("sales/.tmp/a.parquet", False),
        ("sales", False),
        ("sales10/a.parquet", False),
        ("_x/sales/a", False),
    ],
)
def test_visible_keys_have_no_hidden_element_below_the_destination(key: str, visible: bool) -> None:
    assert paths.is_visible(key, "sales") is visible


def test_hidden_elements_above_the_destination_do_not_matter() -> None:
    assert paths.is_visible("_x/sales/a", "_x/sales")


def test_default_parts_reach_terabytes_with_the_allowed_count() -> None:
    limits = PartLimits()
    total = sum(part_size(n, DEFAULT_PART_SIZE, limits) for n in range(1, limits.count_max + 1))
    assert total > 7 * 2**40
    assert {part_size(n, DEFAULT_PART_SIZE, limits) for n in range(1, 1001)} == {DEFAULT_PART_SIZE}


@given(first=st.integers(5 * 2**20, 5 * 2**30), number=st.integers(1, 10_000))
def test_parts_never_shrink_and_never_exceed_the_largest(first: int, number: int) -> None:
    limits = PartLimits()
    size = part_size(number, first, limits)
    assert first <= size <= limits.size_max
    assert number == 1 or part_size(number - 1, first, limits) <= size


MIB = 2**20


@pytest.mark.parametrize(
    ("number", "first", "limits", "early"),
    [
        (1, DEFAULT_PART_SIZE, PartLimits(), 5 * MIB),
        (1, DEFAULT_PART_SIZE, PartLimits(size_min=1), 4 * MIB),
        (1, DEFAULT_PART_SIZE, PartLimits(size_min=20 * MIB), DEFAULT_PART_SIZE),
        (2, DEFAULT_PART_SIZE, PartLimits(), DEFAULT_PART_SIZE),
        (1, 16 * MIB, PartLimits(), 16 * MIB),  # somebody's choice
        (1, DEFAULT_PART_SIZE, PartLimits(equal_sizes=True), DEFAULT_PART_SIZE),
    ],
)
def test_first_part_sets_out_early_where_nobody_chose_a_size(
    number: int, first: int, limits: PartLimits, early: int
) -> None:
    assert part_size_early(number, first, limits) == early


def test_one_part_too_many_is_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match="larger part_size"):
        part_size(10_001, DEFAULT_PART_SIZE, PartLimits())


def test_equal_sizes_stay_equal() -> None:
    limits = PartLimits(equal_sizes=True)
    assert {part_size(n, 6 * 2**20, limits) for n in (1, 5000, 10_000)} == {6 * 2**20}


@pytest.mark.parametrize("size", [0, 1, 5 * 2**20 - 1, 5 * 2**30 + 1])
def test_part_size_that_the_store_refuses_is_refused_first(size: int) -> None:
    with pytest.raises(UsageError, match="outside the limits of the store"):
        PartLimits().check(size)
