"""Readers who hold the list of a dataset's files while a job replaces them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import magicfs

NAME = "día 50% + #1"


@pytest.fixture(params=["memory", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{uuid4().hex}/{NAME}" if request.param == "memory" else str(tmp_path / NAME)


def days(first: int) -> pa.Table:
    """60 rows, of which each day has 20."""
    return pa.table({"day": [n // 20 for n in range(60)], "n": range(first, first + 60)})


def publish(url: str, first: int, **how: Any) -> None:
    magicfs.write(days(first), url, partition_by="day", **how)


def numbers(rows: Any) -> list[int]:
    return sorted(rows["n"].to_pylist())


def pieces(url: str) -> Iterator[list[int]]:
    """The rows of one file after the other, by the list of now."""
    fragments = list(magicfs.Dataset(url).to_arrow().get_fragments())
    return (numbers(fragment.to_table()) for fragment in fragments)


@pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions"])
class TestReplace:
    def test_read_that_has_begun_fails_where_a_file_is_gone(self, url: str, mode: str):
        publish(url, 0)
        held = magicfs.Dataset(url).to_arrow()
        read = pieces(url)
        assert len(next(read)) == 20
        publish(url, 1000, mode=mode)
        with pytest.raises(FileNotFoundError):
            next(read)
        with pytest.raises(FileNotFoundError):
            held.to_table()
        assert numbers(magicfs.Dataset(url).to_arrow().to_table()) == list(range(1000, 1060))

    def test_read_that_has_begun_ends_well_where_replaced_files_are_kept(self, url: str, mode: str):
        publish(url, 0)
        held = magicfs.Dataset(url).to_arrow()
        read = pieces(url)
        seen = next(read)
        publish(url, 1000, mode=mode, keep="1d")
        for more in read:
            seen += more
        assert sorted(seen) == list(range(60))
        assert numbers(held.to_table()) == list(range(60))
        assert numbers(magicfs.Dataset(url).to_arrow().to_table()) == list(range(1000, 1060))
