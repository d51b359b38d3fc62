"""What is written: bytes, and rows."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    import pyarrow.dataset as ds

__all__ = ["BLOCK", "PARTITION_COLUMNS", "Blocks", "blocks", "bodies", "partitioning", "rows", "save_rows"]

BLOCK: Final = bytes(range(256)) * 4096  # 1 MiB
PARTITION_COLUMNS: Final = ("y", "flag")
_SEED = 7
_YEARS = (1992, 1999)  # seven of them; with three flags 21 partitions


def blocks(mebibytes: int) -> Iterator[bytes]:
    """The content of a large file, block by block."""
    for _ in range(mebibytes):
        yield BLOCK


def bodies(files: int, size: int) -> dict[str, bytes]:
    """The names and the content of many files of one size."""
    body = (BLOCK * (size // len(BLOCK) + 1))[:size]
    return {f"part-{number:06d}.bin": body for number in range(files)}


class Blocks(io.RawIOBase):
    """The content of a large file, for clients that read it."""

    def __init__(self, mebibytes: int) -> None:
        self._left = mebibytes * len(BLOCK)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        self._left -= wanted
        whole, rest = divmod(wanted, len(BLOCK))
        return BLOCK * whole + BLOCK[:rest]


def save_rows(path: Path, count: int) -> None:
    """Write a table of orders to a local file, for all sides to map: 9 columns, 21 partitions."""
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(_SEED)

    def words(*choice: str) -> pa.Array:
        numbers = random.integers(0, len(choice), count).astype("i4")
        return pa.DictionaryArray.from_arrays(numbers, list(choice)).cast(pa.string())

    table = pa.table(
        {
            "orderkey": np.arange(count) // 4,
            "partkey": random.integers(1, 200_000, count),
            "suppkey": random.integers(1, 10_000, count),
            "quantity": random.integers(1, 50, count).astype("f8"),
            "price": np.round(random.random(count) * 1e5, 2),
            "discount": np.round(random.random(count) / 10, 2),
            "y": random.integers(*_YEARS, count).astype("i4"),
            "flag": words("A", "N", "R"),
            "mode": words("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"),
        }
    )
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def rows(path: str) -> pa.Table:
    """The table that ``save_rows`` has written, mapped into memory."""
    import pyarrow as pa

    with pa.memory_map(path) as file:
        return pa.ipc.open_file(file).read_all()


def partitioning() -> ds.Partitioning:
    """Directories by year and flag."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    return ds.partitioning(pa.schema([("y", pa.int32()), ("flag", pa.string())]), flavor="hive")
