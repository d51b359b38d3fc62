"""An asset of Dagster that is published once for each run, however often that is executed again.

::

    @dagster.asset(retry_policy=dagster.RetryPolicy(max_retries=3))
    def sales(context: dagster.AssetExecutionContext) -> None:
        publish(context, "s3://bucket/sales")

Credentials and endpoint come from where s3fs looks for them. The report becomes metadata of the asset.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import magicfs


def publish(context: Any, url: str) -> None:
    """Publish the rows of a run; ``context`` is the asset's."""
    # A run that is executed again from its failure has an id of its own, and the same root.
    root = context.run.root_run_id or context.run.run_id
    partition = context.partition_key if context.has_partition_key else ""
    run_id = f"{context.asset_key.to_user_string()}/{root}/{partition}"
    with magicfs.Job(url, mode="append", run_id=run_id) as job:
        if job.found.published is None:
            with job.task(0) as task:
                table = pa.table({"run": [root] * 100, "value": range(100)})
                pq.write_table(table, f"{task.path}/sales.parquet", filesystem=task.filesystem)
    report = job.report
    facts = {"url": report.destination, "job": report.job_id, "files": report.files}
    context.add_output_metadata({**facts, "again": report.published_before})
