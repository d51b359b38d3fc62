"""A task of Airflow that publishes a dataset once for each run of its DAG, however often it is tried.

::

    with DAG("sales", schedule="@daily"):
        PythonOperator(
            task_id="publish", python_callable=publish, op_kwargs={"url": "s3://bucket/sales"}, retries=3
        )

Credentials and endpoint come from where s3fs looks for them. What is returned goes to XCom: the report.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import magicfs


def publish(url: str, ti: Any, **_context: Any) -> dict[str, Any]:
    """Publish the rows of a run; ``ti`` is what Airflow tells its tasks of themselves."""
    # The same in every try, and when the task is cleared and run again.
    run_id = f"{ti.dag_id}/{ti.task_id}/{ti.run_id}/{ti.map_index}"
    with magicfs.Job(url, mode="append", run_id=run_id) as job:
        if job.found.published is None:
            with job.task(0) as task:
                table = pa.table({"run": [ti.run_id] * 100, "value": range(100)})
                pq.write_table(table, f"{task.path}/sales.parquet", filesystem=task.filesystem)
    return job.report.to_dict()
