"""How users of each engine publish: what runs in the driver's process, which may be killed.

``python -m proofs.engines.run_driver ORDER``: ORDER is the fields of an order as JSON. The last line of
stdout is what became of it, as JSON; the exit status is 0 if it was published.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import magicfs
from magicfs.engines.arrow_output import ArrowOutput
from proofs.engines.order import Order
from proofs.scenes.arranged import arranged

__all__ = ["DRIVERS", "shell_task"]

RETRIES = 2
_PAGE = Path(__file__).parents[2] / "docs" / "dask-ray-daft.md"


def _told(report: magicfs.JobReport) -> dict[str, Any]:
    return {"files": report.files, "rows": report.rows, "before": bool(report.published_before)}


def _documented(order: Order, engine: str, **names: Any) -> dict[str, Any]:
    """Run what the page shows of an engine, as it stands but for the destination."""
    section = _PAGE.read_text().partition(f"\n## {engine}\n")[2].partition("\n## ")[0]
    [code] = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    names |= {"magicfs": magicfs, "today": order.run_id}
    exec(code.replace("s3://bucket/sales", order.url), names)  # noqa: S102 - our own page
    return _told(names["report"])


def _dask(order: Order) -> dict[str, Any]:
    import dask.dataframe as dd
    from distributed import Client

    from magicfs.dask import to_parquet

    with Client(order.cluster):
        ddf = dd.from_map(partial(_frame, order), range(order.parts), meta=_frame(_quiet(order), 0).iloc[:0])
        if order.documented:
            return _documented(order, "Dask", ddf=ddf)
        report = to_parquet(
            *(ddf, order.url),
            partition_by="day",
            mode=order.mode,
            run_id=order.run_id,
            retries=RETRIES,
            index=False,
        )
    return _told(report)


def _dask_map(order: Order) -> dict[str, Any]:
    from distributed import Client

    with Client(order.cluster) as client:
        return _map(order, client)


def _ray(order: Order) -> dict[str, Any]:
    import ray

    ray.init(address=order.cluster, logging_level="ERROR")
    ds = ray.data.range(order.parts, override_num_blocks=order.parts).map_batches(
        partial(_blocks, order), batch_size=None, zero_copy_batch=True
    )
    if order.documented:
        return _documented(order, "Ray Data", ds=ds)
    report = magicfs.ray.write_parquet(
        *(ds, order.url),
        partition_by="day",
        mode=order.mode,
        run_id=order.run_id,
    )
    return _told(report)


def _ray_map(order: Order) -> dict[str, Any]:
    import ray

    ray.init(address=order.cluster, logging_level="ERROR")
    return _map(order, magicfs.ray.RayExecutor(max_retries=RETRIES))


def _daft(order: Order) -> dict[str, Any]:
    import daft

    import magicfs.daft

    daft.set_runner_ray(address=order.cluster)
    rows = daft.DataType.struct(
        {"row": daft.DataType.int64(), "day": daft.DataType.string(), "body": daft.DataType.string()}
    )
    make = daft.func(partial(_rows, order), return_dtype=daft.DataType.list(rows))
    df = daft.from_pydict({"part": list(range(order.parts))}).into_partitions(order.parts)
    df = df.select(make(df["part"]).alias("all")).explode("all")
    df = df.select(*(df["all"].get(name).alias(name) for name in ("row", "day", "body")))
    if order.documented:
        return _documented(order, "Daft", df=df)
    report = magicfs.daft.write_parquet(
        df, order.url, partition_by="day", mode=order.mode, run_id=order.run_id
    )
    return _told(report)


def _processes(order: Order) -> dict[str, Any]:
    context = multiprocessing.get_context("forkserver")
    return _map(order, partial(ProcessPoolExecutor, 2, mp_context=context))


def _map(order: Order, executor: Any) -> dict[str, Any]:
    options: Mapping[str, Any] = {"mode": order.mode, "run_id": order.run_id, "tracking": "memory"}
    with magicfs.Job(order.url, **arranged(**options)) as job:
        if order.trouble == "twice":
            _speculate(order, job, executor)
        elif job.found.published is None:
            job.map(partial(_write, order), range(order.parts), executor=executor, retries=RETRIES)
    return _told(job.report)


def _speculate(order: Order, job: magicfs.Job, executor: Any) -> None:
    """Run two attempts of every task at once, as an engine does that speculates, and take the later ones."""
    with executor() if isinstance(executor, partial) else nullcontext(executor) as workers:
        begun = [
            workers.submit(_attempt, order, magicfs.Task(job.spec, job.task(part).id))
            for part in range(order.parts)
            for _ in range(2)
        ]
        job.commit([one.result() for one in begun][1::2])


def _attempt(order: Order, task: magicfs.Task) -> Any:
    with task:
        _write(order, task)
    return task.committed


def _polars(order: Order) -> dict[str, Any]:
    import polars as pl

    def write(task: magicfs.Task) -> None:
        whole = pl.concat([pl.from_arrow(order.table(part)) for part in range(order.parts)]).lazy()
        for day in whole.select("day").unique().collect()["day"]:
            with task.filesystem.open(f"{task.path}/day={_quoted(day)}/part.parquet", "wb") as file:
                whole.filter(pl.col("day") == day).drop("day").sink_parquet(file)

    return _one_task(order, write)


def _duckdb(order: Order) -> dict[str, Any]:
    import duckdb
    import pyarrow as pa

    def write(task: magicfs.Task) -> None:
        whole = pa.concat_tables([order.table(part) for part in range(order.parts)])
        with duckdb.connect() as connection:
            connection.register_filesystem(task.filesystem)
            connection.register("whole", whole)
            how = "FORMAT parquet, PARTITION_BY (day), OVERWRITE_OR_IGNORE"
            connection.execute(f"COPY whole TO 'magic://{task.path}' ({how})")

    return _one_task(order, write)


def _one_task(order: Order, write: Callable[[magicfs.Task], None]) -> dict[str, Any]:
    options: Mapping[str, Any] = {"mode": order.mode, "run_id": order.run_id, "tracking": "memory"}
    with magicfs.Job(order.url, **arranged(**options)) as job:
        if job.found.published is None:
            with job.task(0) as task:
                write(task)
    return _told(job.report)


_SCRIPT = """
set -eu
job=$("$PYTHON" -m magicfs.cli job setup "$URL" --mode "$MODE" ${RUN:+--run-id "$RUN"})
trap '"$PYTHON" -m magicfs.cli job abort "$job" >&2' ERR
again() { "$@" || "$@"; }
export job PYTHON ORDER; export -f again
seq 0 $((PARTS - 1)) | xargs -P 2 -I {} bash -c \
    'again "$PYTHON" -m magicfs.cli job task "$job" {} -- \
        "$PYTHON" -m proofs.engines.run_driver "$ORDER" {}' >&2
"$PYTHON" -m magicfs.cli job commit --json "$job" --tasks "$PARTS"
"""


def _shell(order: Order) -> dict[str, Any]:
    """A script: two tasks at once, each tried twice."""
    given = {
        "PYTHON": sys.executable,
        "URL": order.url,
        "MODE": order.mode,
        "RUN": order.run_id or "",
        "PARTS": str(order.parts),
        "ORDER": json.dumps(asdict(order)),
    }
    done = subprocess.run(  # noqa: S603
        ["/bin/bash", "-c", _SCRIPT], env=os.environ | given, stdout=subprocess.PIPE, text=True, check=True
    )
    said = json.loads(done.stdout)
    return {"files": said.get("files", 0), "rows": None, "before": said.get("skipped", False)}


def shell_task(order: Order, part: int) -> None:
    """The command of one of its tasks."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    table = order.table(part)
    hive = ds.partitioning(pa.schema([table.schema.field("day")]), flavor="hive")
    ds.write_dataset(table, os.environ["MAGICFS_OUTPUT"], format="parquet", partitioning=hive)


def _write(order: Order, task: magicfs.Task) -> None:
    ArrowOutput.of("day", "parquet").write(task, [order.table(int(task.id))])


def _frame(order: Order, part: int) -> Any:
    import pandas as pd

    return order.table(part).to_pandas(types_mapper=None).astype({"day": pd.StringDtype("pyarrow")})


def _blocks(order: Order, batch: Mapping[str, Any]) -> Any:
    import pyarrow as pa

    return pa.concat_tables([order.table(int(part)) for part in batch["id"]])


def _rows(order: Order, part: int) -> Any:
    return order.table(part).to_pylist()


def _quiet(order: Order) -> Order:
    return replace(order, trouble="none")


def _quoted(day: str) -> str:
    return quote(day, safe="")


DRIVERS: Mapping[str, Callable[[Order], dict[str, Any]]] = {
    "dask": _dask,
    "dask map": _dask_map,
    "ray": _ray,
    "ray map": _ray_map,
    "daft": _daft,
    "processes": _processes,
    "shell": _shell,
    "polars": _polars,
    "duckdb": _duckdb,
}
