"""The writes themselves, as a user would write them; run in this process or in one that is killed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import magicfs.spark
from magicfs.spark.options import LateWriters
from proofs.spark_proof.orders import Order, Route

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SCHEMA", "SINK", "Pace", "frame_of", "perform", "stream"]

SCHEMA = "id bigint, p int"
SINK = "proof"
"""Name of the stream's sink."""


@dataclass(frozen=True)
class Pace:
    """Makes tasks last; for ``mapInArrow``.

    Attributes:
        seconds: For each batch.
    """

    seconds: float

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hand batches on, slowly."""
        for batch in batches:
            time.sleep(self.seconds)
            yield batch


def frame_of(spark: SparkSession, order: Order, pace: float = 0) -> DataFrame:
    """The rows of an order.

    Args:
        spark: The session, classic or Connect.
        order: The order.
        pace: Seconds that every task takes in addition.
    """
    numbers = spark.range(order.first, order.first + order.rows, 1, order.tasks)
    frame = numbers.selectExpr("id", f"cast({order.partition} as int) p")
    return frame.mapInArrow(Pace(pace), SCHEMA) if pace else frame


def perform(
    spark: SparkSession,
    order: Order,
    url: str,
    storage: Mapping[str, Any],
    *,
    pace: float = 0,
    late: LateWriters = "background",
    name: str = "magic",
    frame: DataFrame | None = None,
) -> None:
    """Write, by the route of the order.

    Args:
        spark: The session, classic or Connect.
        order: What to write.
        url: The destination.
        storage: Options of the filesystem.
        pace: Seconds that every task takes in addition.
        late: What is done about late writers.
        name: The format's name, for one with something around it.
        frame: Its rows, if it is not ``frame_of``.
    """
    frame = frame_of(spark, order, pace) if frame is None else frame
    if order.route == "format":
        writer = frame.write.format(name).mode("append" if order.mode == "append" else "overwrite")
        options = {"partitionCols": "p", "runId": order.run_id, "lateWriters": late, "mode": order.mode}
        writer.options(storageOptions=json.dumps(dict(storage)), **options).save(url)
    else:
        magicfs.spark.write(
            frame,
            url,
            partition_by="p",
            mode=order.mode,
            run_id=order.run_id,
            late_writers=late,
            storage_options=storage,
        )


def stream(
    spark: SparkSession, route: Route, source: str, checkpoint: str, url: str, storage: Mapping[str, Any]
) -> None:
    """Write all files that have come in, each as one batch, and return.

    Args:
        spark: The session.
        route: ``format`` for ``writeStream``, ``write`` for ``foreachBatch``.
        source: Directory of JSON files.
        checkpoint: Spark's directory for the state of the query.
        url: The destination.
        storage: Options of the filesystem.
    """
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
    writer = reader.json(source).repartition(2).writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", checkpoint)
    if route == "format":
        options = {"sinkId": SINK, "partitionCols": "p", "storageOptions": json.dumps(dict(storage))}
        query = writer.format("magic").options(path=url, **options).start()
    else:
        sink = magicfs.spark.sink(url, SINK, partition_by="p", storage_options=storage)
        query = writer.foreachBatch(sink).start()
    query.awaitTermination()
