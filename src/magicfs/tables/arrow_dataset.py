"""Published files as a dataset of pyarrow: types of partition columns, and columns that came later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from magicfs.past.file_facts import partition_values
from magicfs.protocol.final_names import job_named
from magicfs.protocol.paths import prefix_of
from magicfs.tables.partition_names import guessed_type

_LOOKED_AT = 16
_TYPES = {"int": pa.int32(), "bigint": pa.int64()}


def arrow_dataset(
    keys: Sequence[str], base: str, *, schema: Any, partitioning: Any, **how: Any
) -> ds.Dataset:
    """The dataset of files by relative keys, those of the newest job first; rows come by names of files.

    Without a schema it has the columns of one file of each job, of up to 16 jobs: what was published last may
    be an older partition, without a column that came later. A partition column is a number only if each value
    is written as one: ``02134`` stays text.
    """
    if schema is None and partitioning == "hive":
        partitioning = _hive(keys)
    opened = partial(ds.dataset, partitioning=partitioning, partition_base_dir=base, **how)
    paths = [f"{prefix_of(base)}{key}" for key in keys]
    if schema is None:
        with ThreadPoolExecutor(_LOOKED_AT) as pool:
            schema, *others = pool.map(lambda path: opened([path]).schema, of_each_job(paths))
        for other in others:
            with suppress(pa.ArrowException):  # other types under one name: those of the newer file
                schema = pa.unify_schemas([schema, other])
    return opened(sorted(paths), schema=schema)


def of_each_job(keys: Iterable[str]) -> list[str]:
    """The first file of each job, of up to 16 jobs, given those of the newest job first."""
    jobs = {job_named(key.rpartition("/")[2]): key for key in reversed(list(keys))}
    return list(jobs.values())[: -_LOOKED_AT - 1 : -1]


def _hive(keys: Sequence[str]) -> ds.Partitioning:
    rows = [
        partition_values(f"{directory}/")
        for directory in dict.fromkeys(key.rpartition("/")[0] for key in keys)
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    kinds = [_TYPES.get(guessed_type(row.get(name) for row in rows), pa.string()) for name in names]
    return ds.partitioning(pa.schema(list(zip(names, kinds, strict=True))), flavor="hive")
