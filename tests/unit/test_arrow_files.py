"""Published files as pyarrow reads them: what is read, and by which requests."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.formats.manifest import ManifestFile
from magicfs.reading.named_reads import NamedReads
from magicfs.reading.published_file import PublishedFile

MIB = 2**20


class Ranges:
    """A filesystem of one file, which writes down what is asked for."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.asked: list[tuple[int, int]] = []

    def cat_file(self, _path: str, start: int, end: int) -> bytes:
        assert 0 <= start < end <= len(self.body), "an empty range is no request"
        self.asked.append((start, end))
        return self.body[start:end]


def published(source: Any) -> PublishedFile:
    return PublishedFile(NamedReads(source), "b/k", ManifestFile(key="k", size=len(source.body), etag=""))


def opened(size: int) -> tuple[Any, Ranges]:
    source = Ranges(bytes(n * 7 % 251 for n in range(1024)) * (size // 1024) + b"x" * (size % 1024))
    return published(source), source


PLACES = st.integers(0, 3 * MIB + 99)
SIZES = st.sampled_from([0, 1, 2**18, 2**18 + 1, 3 * MIB + 7])


@given(SIZES, st.lists(st.tuples(PLACES, PLACES), max_size=9))
def test_reads_anywhere_are_those_of_the_bytes(size: int, reads: list[tuple[int, int]]) -> None:
    file, source = opened(size)
    same = io.BytesIO(source.body)
    for place, length in reads:
        assert file.seek(place) == same.seek(place)
        assert file.read(length) == same.read(length)
        assert file.tell() == same.tell()
    same.seek(0, io.SEEK_END)
    assert file.seek(0, io.SEEK_END) == size
    assert file.seek(-size, io.SEEK_CUR) == 0
    assert file.read() == source.body


def test_large_reads_are_made_as_they_are_asked_for() -> None:
    file, source = opened(40 * MIB)
    file.seek(-65536, io.SEEK_END)
    file.read(65536)
    file.seek(4)
    file.read(9 * MIB)
    file.seek(20 * MIB)
    file.read(3 * MIB)
    assert source.asked == [(40 * MIB - 65536, 40 * MIB), (4, 9 * MIB + 4), (20 * MIB, 23 * MIB)]


def test_small_reads_in_a_row_become_few_requests() -> None:
    file, source = opened(64 * MIB)
    while file.read(65536):
        pass
    assert len(source.asked) == 7  # 1, 2, 4, 8 and 16 MiB, and again
    assert sum(end - start for start, end in source.asked) == 64 * MIB


def test_small_reads_here_and_there_do_not_grow() -> None:
    file, source = opened(64 * MIB)
    for place in (30, 10, 50, 20):
        file.seek(place * MIB)
        file.read(10)
        file.read(10)
    assert source.asked == [(place * MIB, (place + 1) * MIB) for place in (30, 10, 50, 20)]


def test_text_is_read_in_order() -> None:
    rows = pa.table({"n": list(range(600_000))})
    sink = io.BytesIO()
    pa.csv.write_csv(rows, sink)
    source = Ranges(sink.getvalue())
    file = pa.PythonFile(published(source), mode="r")
    assert pa.csv.read_csv(file) == rows
    assert len(source.body) > 3 * MIB
    assert len(source.asked) == 2  # of 1 and of 2 MiB at least


def test_seek_before_the_beginning_is_refused() -> None:
    with pytest.raises(ValueError, match="negative seek"):
        opened(10)[0].seek(-11, io.SEEK_END)
