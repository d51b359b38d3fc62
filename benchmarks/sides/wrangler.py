"""awswrangler, in an environment of its own: it wants an older pyarrow than ours."""

from __future__ import annotations

import os
from importlib import metadata

import awswrangler as wr

from benchmarks import data
from benchmarks.clock import Clock
from benchmarks.place import Place

__all__ = ["Wrangler"]


class Wrangler:
    """``awswrangler.s3.to_parquet`` of a dataset; the frame is made before."""

    def __init__(self, place: Place) -> None:
        self._bucket = place.bucket
        os.environ["AWS_ACCESS_KEY_ID"] = place.key
        os.environ["AWS_SECRET_ACCESS_KEY"] = place.secret
        os.environ["AWS_DEFAULT_REGION"] = place.region
        wr.config.s3_endpoint_url = place.endpoint

    def versions(self) -> dict[str, str]:
        return {"awswrangler": metadata.version("awswrangler")}

    def write_rows(self, clock: Clock, where: str, table: str) -> None:
        """A dataset of many partitions."""
        frame = data.rows(table).to_pandas()
        with clock("write"):
            wr.s3.to_parquet(
                frame,
                path=f"s3://{self._bucket}/{where}/",
                dataset=True,
                partition_cols=list(data.PARTITION_COLUMNS),
                compression="snappy",
                use_threads=True,
            )
