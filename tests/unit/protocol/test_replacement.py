"""What a job replaces, as a function of values: no store, no clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.protocol.modes import is_replaced
from magicfs.protocol.replacement import OldFile, Replacement, Scope

DEST = "lake/trips"
NAMES = st.sampled_from(
    ["a", "b c", "day=1", "day=10", "day=1%", "_SUCCESS", ".x", "__magic_job-1", "_magicfs", "ü+#"]
)
KEYS = st.lists(NAMES, min_size=1, max_size=4).map(lambda names: "/".join([DEST, *names]))
LISTINGS = st.lists(KEYS, unique=True, max_size=20)


def taken(
    scope: Scope, keys: list[str], ours: dict[str, str | None] | None = None
) -> tuple[Replacement, int]:
    """What came out, and how many of the listed keys were looked at."""
    found = Replacement(scope, ours or {})
    for number, key in enumerate(keys, 1):
        if not found.add(OldFile(key, f'"etag of {key}"', number)):
            return found, number
    return found, len(keys)


@given(LISTINGS)
def test_the_whole_destination_loses_its_data_and_nothing_else(keys: list[str]) -> None:
    found, looked = taken(Scope(DEST, whole=True), keys)
    assert [one.key for one in found.deleted] == [key for key in keys if is_replaced(key, DEST)]
    assert (found.equal_keys, found.older_files, looked) == ([], False, len(keys))


@given(LISTINGS, st.lists(st.sampled_from(["", "day=1", "a/b c", "day=10/day=1", "none"]), unique=True))
def test_partitions_lose_what_lies_below_them_and_tell_of_the_rest(
    keys: list[str], partitions: list[str]
) -> None:
    found, looked = taken(Scope(DEST, partitions=tuple(partitions)), keys)
    data = [key for key in keys if is_replaced(key, DEST)]
    below = [k for k in data if any(k.startswith(f"{DEST}/{p}/" if p else f"{DEST}/") for p in partitions)]
    assert [one.key for one in found.deleted] == below
    assert found.older_files == (len(below) < len(data))
    assert looked == len(keys)


def test_a_partition_is_not_its_longer_namesake() -> None:
    found, _ = taken(
        Scope(DEST, partitions=("day=1",)), [f"{DEST}/day=10/x", f"{DEST}/day=1/x", f"{DEST}/day=1"]
    )
    assert [one.key for one in found.deleted] == [f"{DEST}/day=1/x"]


@given(LISTINGS)
def test_appending_looks_until_it_has_seen_one_file(keys: list[str]) -> None:
    found, looked = taken(Scope(DEST), keys)
    data = [number for number, key in enumerate(keys, 1) if is_replaced(key, DEST)]
    assert (found.deleted, found.older_files) == ([], bool(data))
    assert looked == (data[0] if data else len(keys))


@pytest.mark.parametrize("whole", [True, False])
def test_names_that_are_taken_are_found_and_the_listing_read_to_its_end(*, whole: bool) -> None:
    keys = [f"{DEST}/{name}" for name in ("a", "b", "c")]
    found, looked = taken(Scope(DEST, whole), keys, {keys[1]: None, keys[2]: "other"})
    assert found.equal_keys == keys[1:]
    assert looked == 3


def test_a_file_that_hadoops_driver_has_published_is_neither_old_nor_in_the_way() -> None:
    key = f"{DEST}/part-0"
    found, _ = taken(Scope(DEST, whole=True), [key], {key: f"etag of {key}"})
    assert (found.deleted, found.equal_keys, found.older_files) == ([], [], False)
