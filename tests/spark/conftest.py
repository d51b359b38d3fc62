from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from examples.flights.session import local_session
from proofs.doubles.servers import Server
from proofs.scenes.java import skip_without_java


@pytest.fixture(scope="session")
def aws_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file in which Spark's processes look for credentials of their own."""
    return tmp_path_factory.mktemp("aws") / "config"


@pytest.fixture
def own_credentials(ministack: Server, aws_config: Path) -> Iterator[Path]:
    """Let Spark's processes find ministack, and the credentials for it, by themselves."""
    keys = f"aws_access_key_id={ministack.access_key}\naws_secret_access_key={ministack.secret_key}\n"
    aws_config.write_text(
        f"[default]\n{keys}region={ministack.region}\nendpoint_url={ministack.endpoint}\n", encoding="utf-8"
    )
    yield aws_config
    aws_config.unlink()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, aws_config: Path) -> Iterator[SparkSession]:
    """Return the session's Spark: two tasks at once, two attempts each.

    The Python of tasks whose job has failed is not killed for a minute, so that tests can watch it go on.
    """
    skip_without_java()
    log = tmp_path_factory.mktemp("spark") / "spark.log"
    config = {
        "spark.sql.shuffle.partitions": "2",
        "spark.python.task.killTimeout": "60s",
        "spark.python.daemon.module": "warm_daemon",
        # Most of what runs here runs once: compiling it well does not pay.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.codegen.wholeStage": "false",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_CONFIG_FILE", str(aws_config))
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        session = local_session(cores=2, attempts=2, log=log, config=config)
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
