"""Published files as a dataset of pyarrow: types of partition columns, and columns that came later."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from magicfs.tables.partition_names import guessed_type, values_of

__all__ = ["arrow_dataset"]

_LOOKED_AT = 16
_TYPES = {"int": pa.int32(), "bigint": pa.int64()}


def arrow_dataset(
    keys: Sequence[str], base: str, *, schema: Any, partitioning: Any, **how: Any
) -> ds.Dataset:
    """The dataset of files by relative keys, those of the newest job first; rows come by names of files.

    Without a schema it has the columns of the newest file: a job that is compared with the rows there leaves
    none of theirs out. A column that holds only nulls there has the type that one of the next files gives it,
    or the oldest. A partition column is a number only if each value is written as one: ``02134`` stays text.
    """
    if schema is None and partitioning == "hive":
        partitioning = _hive(keys)
    opened = partial(ds.dataset, partitioning=partitioning, partition_base_dir=base, **how)
    paths = [f"{base}/{key}" if base else key for key in keys]
    if schema is None:
        schema = opened(paths[:1]).schema
        for path in (*paths[1:_LOOKED_AT], *paths[_LOOKED_AT:][-1:]):
            if not any(pa.types.is_null(one.type) for one in schema):
                break
            with suppress(pa.ArrowException):  # other types under one name: of the newest file then
                schema = pa.unify_schemas([schema, opened([path]).schema])
    return opened(sorted(paths), schema=schema)


def _hive(keys: Sequence[str]) -> ds.Partitioning:
    texts: dict[str, set[str | None]] = {}
    for directory in {key.rpartition("/")[0] for key in keys}:
        for name, text in values_of(f"{directory}/").items():
            texts.setdefault(name, set()).add(text)
    fields = [(name, _TYPES.get(guessed_type(there), pa.string())) for name, there in texts.items()]
    return ds.partitioning(pa.schema(fields), flavor="hive")
