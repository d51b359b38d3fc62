"""A flow of Prefect that publishes a dataset once for each of its runs, however often it is tried.

::

    @prefect.flow(retries=3)
    def sales() -> dict:
        return publish(prefect.runtime.flow_run, "s3://bucket/sales")

Credentials and endpoint come from where s3fs looks for them. What is returned is the report: keep it as the
flow's result, or as an artifact.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import magicfs


def publish(flow_run: Any, url: str) -> dict[str, Any]:
    """Publish the rows of a run; ``flow_run`` is ``prefect.runtime.flow_run``."""
    # The same in every try; a run that somebody starts anew has another.
    run_id = f"{flow_run.flow_name}/{flow_run.id}"
    with magicfs.Job(url, mode="append", run_id=run_id) as job:
        if job.found.published is None:
            with job.task(0) as task:
                table = pa.table({"run": [flow_run.id] * 100, "value": range(100)})
                pq.write_table(table, f"{task.path}/sales.parquet", filesystem=task.filesystem)
    return job.report.to_dict()
