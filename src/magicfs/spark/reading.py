"""``magicfs.spark.read``: a published dataset as a frame, read by Spark's own reader where it can be."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from magicfs.errors import UsageError
from magicfs.past.as_of import job_as_of
from magicfs.releases.reading import job_in
from magicfs.spark.published import exact_files, options, snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger(__name__)


def read(
    url: str,
    *,
    as_of: str | datetime | None = None,
    release: str | None = None,
    columns: Sequence[str] = (),
    spark: SparkSession | None = None,
    storage_options: Mapping[str, object] | None = None,
) -> DataFrame:
    """Read a published dataset: exactly the files that its manifests name, at one instant.

    Spark's own Parquet reader reads them where its JVM reaches the store: local files, and S3, Google Cloud
    Storage and Azure with Hadoop's connectors. It lists nothing, and makes no request for a file before it
    reads the file.
    Otherwise ``spark.read.format("magic")`` reads them, with the same rows. All actions on the frame see the
    same files; call ``read`` again for newer ones. Do not refresh a view of the frame by ``REFRESH TABLE``:
    Spark would list the directory itself.

    Args:
        url: The dataset.
        as_of: The publication to read, as for ``magicfs.Dataset.to_arrow``: a job, run, tag or time.
        release: The URL of a release; reads the publication that it names.
        columns: The columns to read, in this order; all by default.
        spark: The session; the active one by default.
        storage_options: What fsspec takes for this store. The JVM has its own configuration.

    Raises:
        UsageError: No session is active, a column is unknown, or the dataset has no files.
        ObjectNotFound: Nothing was published there, or not as of then.
    """
    from pyspark.sql import SparkSession

    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise UsageError("no Spark session is active; make one first, or pass spark=")
    asked = options.ReadOptions(path=url, columns=tuple(columns), storage_options=storage_options or {})
    destination = snapshot.connect(asked)
    if release is not None:
        if as_of is not None:
            raise UsageError("a release names the publication itself; give as_of or release, not both")
        as_of = f"job:{job_in(release, destination, {'storage_options': storage_options})}"
    job = None if as_of is None else destination.run(job_as_of, as_of)
    found = snapshot.snapshot(destination, job)
    try:
        return exact_files.frame(session, destination, found, asked, job is not None)
    except exact_files.Unsuitable as error:
        _LOG.info("Python reads %s: %s", url, error)
    return _by_python(session, asked, job)


def _by_python(session: SparkSession, asked: options.ReadOptions, job: str | None) -> DataFrame:
    given = {
        "columns": json.dumps(asked.columns) if asked.columns else None,
        "job": job,
        "storageOptions": json.dumps(dict(asked.storage_options)) if asked.storage_options else None,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    return session.read.format("magic").options(**chosen).load(asked.path)
