"""What a file of a publication holds: Parquet, with one column of text."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["SCHEMA", "body_of", "rows_in"]

_ROW: Final = pa.schema([("row", pa.string())])
SCHEMA: Final = pa.schema([("row", pa.string()), ("day", pa.string())])
"""Of the dataset; the day is a partition."""


def body_of(rows: Sequence[str]) -> bytes:
    """A file of these rows."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"row": list(rows)}, schema=_ROW), sink)
    return sink.getvalue()


def rows_in(body: bytes) -> tuple[str, ...]:
    """The rows of a file, in order."""
    return tuple(pq.read_table(io.BytesIO(body))["row"].to_pylist())
