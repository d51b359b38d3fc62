from __future__ import annotations

import time
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import UsageError
from magicfs.protocol import paths
from magicfs.protocol.modes import (
    WRITE_MODES,
    WriteMode,
    is_data,
    is_replaced,
    overlap,
    table_format_of,
    touched_partitions,
)
from magicfs.testing.strategies import keys, sibling_keys

DIRECTORIES = st.just("") | keys()
UNTOUCHABLE = ["__magic", "__magic_job-x", "__magics", "_temporary", "_temporary_0", "_magicfs", "_magicfs2"]


def test_modes_are_those_of_the_type() -> None:
    assert get_args(WriteMode) == WRITE_MODES


@pytest.mark.parametrize(
    ("key", "data", "replaced"),
    [
        ("d/a.parquet", True, True),
        ("d/p=1/q=2/a", True, True),
        ("d/p=1/", False, False),
        ("d", False, False),
        ("d0/a", False, False),
        ("e/a", False, False),
        ("d/_SUCCESS", False, False),
        ("d/p=1/_x", False, False),
        ("d/_x/a", False, False),
        ("d/.x/a", False, False),
        ("d/p=1/.a.crc", False, False),
        ("d/_metadata", False, True),
        ("d/p=1/_common_metadata", False, True),
        ("d/_x/_metadata", False, False),
        ("d/.x/_common_metadata", False, False),
        ("d/_metadata/a", False, False),
        ("d/_metadata2", False, False),
        ("d/_temporary/_metadata", False, False),
        ("d/__magic/_metadata", False, False),
        ("d/_magicfs/x.json", False, False),
        ("d/p=1/__magic_job-x/a", False, False),
        ("d/p=1/_temporary_1/a", False, False),
        ("d/a__magic", True, True),
        ("d/p=_temporary/a", True, True),
    ],
)
def test_what_is_data_and_what_is_replaced(key: str, data: bool, replaced: bool) -> None:
    assert (is_data(key, "d"), is_replaced(key, "d")) == (data, replaced)


@pytest.mark.slow
@pytest.mark.parametrize("element", UNTOUCHABLE)
@given(directory=DIRECTORIES, before=st.none() | keys(), after=st.none() | keys())
def test_nothing_below_work_and_manifests_is_ever_replaced(
    element: str, directory: str, before: str | None, after: str | None
) -> None:
    key = paths.join(directory, *(part for part in (before, element, after) if part is not None))
    assert not is_replaced(key, directory)


@given(directory=DIRECTORIES, key=keys())
def test_data_is_replaced_and_what_is_hidden_is_neither(directory: str, key: str) -> None:
    whole = paths.join(directory, key)
    hidden = any(
        part.startswith(".") or (part.startswith("_") and "=" not in part) for part in key.split("/")
    )
    assert is_data(whole, directory) == (not hidden)
    assert is_replaced(whole, directory) == (not hidden)


@given(names=sibling_keys(), key=keys())
def test_nothing_beside_a_directory_is_data_of_it(names: list[str], key: str) -> None:
    for directory in names:
        for other in names:
            whole = paths.join(other, key)
            if not whole.startswith(f"{directory}/"):
                assert not is_data(whole, directory)
                assert not is_replaced(whole, directory)
                assert table_format_of(whole, directory) is None


@pytest.mark.parametrize(
    ("key", "table"),
    [
        ("_delta_log/0.json", "Delta Lake"),
        ("_delta_log/_last_checkpoint", "Delta Lake"),
        ("_delta_log/", None),
        ("_delta_log", None),
        ("_delta_logs/0.json", None),
        ("p=1/_delta_log/0.json", None),
        ("metadata/v1.metadata.json", "Apache Iceberg"),
        ("metadata/00001-x.metadata.json", "Apache Iceberg"),
        ("metadata/version-hint.text", "Apache Iceberg"),
        ("metadata/notes.json", None),
        ("metadata/version-hint.text.bak", None),
        ("metadata/snap-1.avro", None),
        ("metadata", None),
        ("data/metadata/v1.metadata.json", None),
    ],
)
@pytest.mark.parametrize("directory", ["", "d", "a b%/d"])
def test_table_formats_are_told_by_their_files(key: str, table: str | None, directory: str) -> None:
    assert (
        table_format_of(paths.join(directory, key) + ("/" if key.endswith("/") else ""), directory) == table
    )


# -- partitions ----------------------------------------------------------------------------------------


def test_touched_partitions_are_the_directories_of_the_files() -> None:
    found = touched_partitions(["d/p=2/b", "d/p=1/a", "d/p=1/c"], "d")
    assert found == ("p=1", "p=2")
    assert touched_partitions([], "d") == ()
    assert touched_partitions(["y=1/m=2/a"], "") == ("y=1/m=2",)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        (["d/a"], "a is at the root of the destination, not in a partition"),
        (["d/p=1/a", "d/b"], "b is at the root of the destination"),
        (["d/p=1/a", "d/p=1/q=2/a"], "different depths, such as p=1 and p=1/q=2"),
        (["d/x/y/z/a", "d/p/a", "d/x/y/a"], "different depths, such as p and x/y/z"),
    ],
)
def test_files_of_no_partition_or_of_two_depths_are_refused(files: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        touched_partitions(files, "d")


PARTITIONS = st.lists(st.sampled_from(["p=1", "p=10", "p=2", "p=1/q=1", "p=1/q=10", "p=10/q=1"]), max_size=4)


@given(first=st.none() | PARTITIONS, second=st.none() | PARTITIONS)
def test_overlap_is_having_a_possible_file_in_common(
    first: list[str] | None, second: list[str] | None
) -> None:
    """Against all files that there may be, one by one."""
    files = [f"{one}/a" for one in ("p=1", "p=10", "p=2", "p=1/q=1", "p=1/q=10", "p=10/q=1", "r")]

    def covered(scope: list[str] | None) -> set[str]:
        return {file for file in files if scope is None or any(file.startswith(f"{one}/") for one in scope)}

    a, b = (None if one is None else tuple(one) for one in (first, second))
    expected = bool(covered(first) & covered(second)) or (first is None or second is None)
    assert overlap(a, b) == overlap(b, a) == expected


PARTITIONS = st.lists(st.text("ab/", max_size=6), max_size=4).map(tuple)


@given(PARTITIONS, PARTITIONS)
def test_overlap_is_what_comparing_each_with_each_finds(
    first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    pairs = [(f"{a}/", f"{b}/") for a in first for b in second]
    expected = any(a.startswith(b) or b.startswith(a) for a, b in pairs)
    assert overlap(first, second) == expected == overlap(second, first)


def test_overlap_of_many_partitions_takes_no_time() -> None:
    first = tuple(f"day={number:06d}/hour=1" for number in range(50_000))
    second = tuple(f"day={number:06d}/hour=2" for number in range(50_000))
    started = time.process_time()
    assert not overlap(first, second)
    assert time.process_time() - started < 10
