"""An order-free checksum of a dataset: equal for equal rows, however they are cut into files and sorted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

__all__ = ["Fingerprint", "fingerprint"]

_Hashes: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint64]]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a dataset contains."""

    rows: int
    checksum: int  # the sum of the rows' hashes modulo 2**64

    def __str__(self) -> str:
        return f"{self.rows} rows, checksum {self.checksum:016x}"


def fingerprint(batches: Iterable[pa.RecordBatch]) -> Fingerprint:
    """Fingerprint a dataset over all its columns, names included.

    A row's hash does not depend on the order of columns, on the width of integers and strings, or on
    dictionaries: a partition column that comes from a path equals the one that was written. A missing
    value, a NaN and a zero are three different things.
    """
    rows, checksum = 0, 0
    for batch in batches:
        rows += batch.num_rows
        checksum += int(np.sum(_row_hashes(batch), dtype=np.uint64))
    return Fingerprint(rows, checksum % 2**64)


def _row_hashes(batch: pa.RecordBatch) -> _Hashes:
    hashes: _Hashes = np.zeros(batch.num_rows, dtype=np.uint64)
    for name in sorted(batch.schema.names):
        hashes = _mixed(hashes ^ (_values(batch.column(name)) + _of_text(name)))
    return hashes


def _values(column: Any) -> _Hashes:
    """A number for every value of a column, null included."""
    type_ = column.type
    if pa.types.is_dictionary(type_):
        column = column.dictionary_decode()
        type_ = column.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        plain = _of_strings(column)
    elif pa.types.is_floating(type_):
        # Adding zero turns -0.0 into 0.0, which equals it.
        numbers = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) + 0.0
        plain = numbers.view(np.uint64)
    elif pa.types.is_timestamp(type_):
        micros = column.cast(pa.timestamp("us", tz=type_.tz)).cast(pa.int64())
        plain = micros.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    else:
        plain = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    # Mixed first: the number that stands for a null is then no value's own.
    found: _Hashes = np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, _mixed(plain))
    return found


def _of_strings(column: Any) -> _Hashes:
    encoded = column.dictionary_encode()
    words = np.array([0, *map(_of_text, encoded.dictionary.to_pylist())], dtype=np.uint64)
    # The first word stands for missing ones.
    found: _Hashes = words[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False) + 1]
    return found


def _of_text(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()))


def _mixed(values: _Hashes) -> _Hashes:
    """The finaliser of SplitMix64: every bit of a value moves half of the bits of the result."""
    values = (values ^ (values >> np.uint64(30))) * _MULTIPLIER_1
    values = (values ^ (values >> np.uint64(27))) * _MULTIPLIER_2
    mixed: _Hashes = values ^ (values >> np.uint64(31))
    return mixed
