"""How a Parquet file was written, apart from its rows, so that another can be written the same way."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_CODECS = {"UNCOMPRESSED": "NONE", "LZ4_RAW": "LZ4"}


@dataclass(frozen=True, slots=True)
class ParquetKind:
    """Files of one kind can be put together: their rows have the same columns, and they bear the same."""

    arrow: bytes  # the Arrow schema with its metadata, serialized
    parquet: str  # Parquet's own schema, as text
    version: str  # of the format
    has_arrow_schema: bool  # whether the file bears Arrow's schema


def kind_of(file: pq.ParquetFile) -> ParquetKind:
    """The kind of a file, by its footer."""
    metadata = file.metadata
    return ParquetKind(
        arrow=file.schema_arrow.serialize().to_pybytes(),
        parquet=_text_of(file.schema),
        version=metadata.format_version,
        has_arrow_schema=b"ARROW:schema" in (metadata.metadata or {}),
    )


@lru_cache(maxsize=1024)
def options_like(kind: ParquetKind) -> Mapping[str, Any] | None:
    """Options with which pyarrow writes files of a kind; None if it cannot write the same schema."""
    schema = pa.ipc.read_schema(pa.py_buffer(kind.arrow))
    for options in _options(kind):
        try:
            sink = io.BytesIO()
            pq.write_table(schema.empty_table(), sink, **options)
            sink.seek(0)
            written = kind_of(pq.ParquetFile(sink))
        except (pa.ArrowException, ValueError, OSError):
            continue
        if (written.arrow, written.parquet) == (kind.arrow, kind.parquet):
            return options
    return None


def codecs_of(metadata: pq.FileMetaData) -> dict[str, str]:
    """The compression of each column, as the first row group has it."""
    if not metadata.num_row_groups:
        return {}
    group = metadata.row_group(0)
    columns = [group.column(number) for number in range(metadata.num_columns)]
    return {one.path_in_schema: _CODECS.get(one.compression, one.compression) for one in columns}


def _options(kind: ParquetKind) -> Iterator[dict[str, Any]]:
    known = kind.version if kind.version in {"1.0", "2.4", "2.6"} else "2.6"
    for version, nested, decimals in product(
        dict.fromkeys([known, "2.6", "1.0"]), (True, False), (False, True)
    ):
        yield {
            "version": version,
            "use_compliant_nested_type": nested,
            "store_decimal_as_integer": decimals,
            "use_deprecated_int96_timestamps": " int96 " in f" {kind.parquet} ",
            "store_schema": kind.has_arrow_schema,
        }


def _text_of(schema: pq.ParquetSchema) -> str:
    # Its first two lines are the address of the object, and the name of the root, which means nothing.
    return str(schema).split("\n", 2)[2]
