from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from magicfs.demo.session import local_session
from magicfs.testing.servers import Server
from proofs.scenes.java import skip_without_java


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return the session's Spark: two tasks at once, four attempts each.

    The Python of tasks whose job has failed is not killed for a minute, so that tests can watch it go on.
    """
    skip_without_java()
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    config = {"spark.sql.shuffle.partitions": "2", "spark.python.task.killTimeout": "60s"}
    session = local_session(cores=2, attempts=4, log=log, config=config)
    yield session
    session.stop()


@pytest.fixture
def read_back(spark: SparkSession, tmp_path: Path) -> Callable[[Server, str, str, str], DataFrame]:
    """Return a function that copies what is visible of a dataset to this disk and reads it with Spark.

    It is called with a server, a bucket, the dataset's prefix and the schema.
    """

    def read(server: Server, bucket: str, dataset: str, schema: str) -> DataFrame:
        copy = tmp_path / "copy"
        for key in server.visible_keys(bucket, f"{dataset}/"):
            local = copy / key.removeprefix(f"{dataset}/")
            local.parent.mkdir(parents=True, exist_ok=True)
            local.write_bytes(server.s3_client().get_object(Bucket=bucket, Key=key)["Body"].read())
        copy.mkdir(exist_ok=True)
        return spark.read.schema(schema).parquet(str(copy))

    return read
