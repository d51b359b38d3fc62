"""The front doors that read or write through pyarrow, each as the two or three lines of a tutorial."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import magicfs

__all__ = ["DOORS", "PLAIN", "Door"]

Door = Callable[[str, Mapping[str, Any]], object]
"""What a process does with a destination, and with the options of its store, before it ends."""

PLAIN: Final = "plain fsspec and pyarrow, without magicfs"
_FRAME: Final = pd.DataFrame({"day": ["mon", "tue"] * 500, "amount": range(1000)})
_ROWS: Final = pa.table({"amount": list(range(1000))})
_held: list[object] = []


def _write(url: str, options: Mapping[str, Any], **how: Any) -> None:
    magicfs.write(_FRAME, url, partition_by="day", storage_options=options, **how)


def _dataset(url: str, options: Mapping[str, Any]) -> ds.Dataset:
    _write(url, options)
    return magicfs.Dataset(url, storage_options=options).to_arrow()


def _to_table(url: str, options: Mapping[str, Any]) -> None:
    _dataset(url, options).to_table()


def _head(url: str, options: Mapping[str, Any]) -> None:
    _dataset(url, options).head(3)


def _one_batch(url: str, options: Mapping[str, Any]) -> None:
    _held.append(batches := _dataset(url, options).to_batches())
    next(iter(batches))


def _kept(url: str, options: Mapping[str, Any]) -> None:
    _held.append(found := _dataset(url, options))
    found.to_table()


def _as_of(url: str, options: Mapping[str, Any]) -> None:
    _write(url, options, run_id="monday")
    magicfs.Dataset(url, storage_options=options).to_arrow(as_of="monday").to_table()


def _append(url: str, options: Mapping[str, Any]) -> None:
    _write(url, options)
    _write(url, options, mode="append")


def _rewrite(url: str, options: Mapping[str, Any]) -> None:
    _append(url, options)
    magicfs.Dataset(url, storage_options=options).rewrite()


def _read_parquet(url: str, options: Mapping[str, Any]) -> None:
    _write(url, options)
    pd.read_parquet(f"magic+{url}", storage_options={"target_options": dict(options)})


def _in_task(write: Callable[[magicfs.Task], object]) -> Door:
    def door(url: str, options: Mapping[str, Any]) -> None:
        with magicfs.Job(url, storage_options=options) as job, job.task(0) as task:
            write(task)

    return door


def _write_dataset(task: magicfs.Task) -> None:
    ds.write_dataset(_ROWS, task.path, filesystem=task.filesystem, format="parquet")


def _arrow_filesystem(task: magicfs.Task) -> None:
    files = task.arrow_filesystem
    ds.write_dataset(_ROWS, task.path, filesystem=files, format="parquet")


def _writer(task: magicfs.Task) -> None:
    with pq.ParquetWriter(f"{task.path}/one.parquet", _ROWS.schema, filesystem=task.filesystem) as writer:
        writer.write_table(_ROWS)


def _to_parquet(task: magicfs.Task) -> None:
    _FRAME.to_parquet(f"{task.path}/one.parquet", filesystem=task.filesystem)


def _plain(url: str, options: Mapping[str, Any]) -> None:
    import fsspec

    filesystem, path = fsspec.core.url_to_fs(url, **options)
    ds.write_dataset(_ROWS, path, filesystem=filesystem, format="parquet")
    ds.dataset(path, filesystem=filesystem).to_table()


DOORS: Final[Mapping[str, Door]] = MappingProxyType(
    {
        "write": _write,
        "append": _append,
        "dataset, to_table": _to_table,
        "dataset, head": _head,
        "dataset, one batch": _one_batch,
        "dataset, kept": _kept,
        "dataset, as_of": _as_of,
        "rewrite": _rewrite,
        "read_parquet of magic+URL": _read_parquet,
        "task, write_dataset": _in_task(_write_dataset),
        "task, arrow_filesystem": _in_task(_arrow_filesystem),
        "task, ParquetWriter": _in_task(_writer),
        "task, to_parquet": _in_task(_to_parquet),
        PLAIN: _plain,
    }
)
"""By what a user calls; the last one is there to compare."""
