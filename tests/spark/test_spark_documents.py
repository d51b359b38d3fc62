"""The Spark code of the documents runs as it stands, with credentials from a profile."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import magicfs
from examples.flights.session import PANDAS_WARNING
from proofs.doubles.servers import Server

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{PANDAS_WARNING}:FutureWarning"),
    pytest.mark.nightly,  # what the documents show the other tests do otherwise
]

ROOT = Path(__file__).parents[2]
ROWS = [(month, carrier, month * 10) for month in range(3) for carrier in ("AA", "UA")]


def blocks(path: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / path).read_text(), flags=re.DOTALL)


def test_code_of_the_documents_publishes(
    spark: SparkSession,
    ministack: Server,
    bucket_factory: Callable[..., str],
    own_credentials: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bucket = bucket_factory(ministack)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(own_credentials))
    first, written, second = blocks("docs/spark.md")
    assert first.partition(".save(")[0] in (ROOT / "README.md").read_text()
    code = (first + written + second).replace("s3://bucket/", f"s3://{bucket}/")
    names = {"__name__": "document", "spark": spark}
    exec(code, names | {"df": spark.createDataFrame(ROWS, "month int, carrier string, x int")})
    flights = ministack.visible_keys(bucket, "flights")
    assert {tuple(key.split("/")[1:3]) for key in flights} == {
        (f"month={month}", f"carrier={carrier}") for month in range(3) for carrier in ("AA", "UA")
    }
    sorted_keys = ministack.visible_keys(bucket, "sorted")
    assert {tuple(key.split("/")[1:3]) for key in sorted_keys} == {
        tuple(key.split("/")[1:3]) for key in flights
    }
    letters = ministack.visible_keys(bucket, "letters")
    client = ministack.s3_client()
    rows = [
        line
        for key in letters
        for line in client.get_object(Bucket=bucket, Key=key)["Body"].read().decode().splitlines()[1:]
    ]
    assert len(rows) == 6
    assert ministack.pending_uploads(bucket) == []


def test_streams_of_the_page_publish_and_are_found(
    spark: SparkSession,
    ministack: Server,
    bucket_factory: Callable[..., str],
    own_credentials: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bucket = bucket_factory(ministack)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(own_credentials))
    (tmp_path / "in").mkdir()
    clicks = spark.readStream.schema("id long, day string").json(str(tmp_path / "in"))
    names = {"clicks": clicks, "magicfs": magicfs}
    by_function, by_format, found = (
        code.replace("s3://bucket/", f"s3://{bucket}/") for code in blocks("docs/streaming.md")
    )
    for number, code in enumerate((by_function, by_format)):  # the second goes on where the first has stopped
        lines = [json.dumps({"id": 2 * number + one, "day": f"d{one}"}) for one in range(2)]
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(lines))
        exec(code.replace("s3a://…", str(tmp_path / "checkpoint")), names)
        query = names["query"]
        try:
            query.processAllAvailable()
        finally:
            query.stop()
    exec(found, names)
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [["0", "2"], ["1", "2"]]
    assert sorted(magicfs.Dataset(f"s3://{bucket}/clicks").to_arrow().to_table()["id"].to_pylist()) == [
        0,
        1,
        2,
        3,
    ]
    assert ministack.pending_uploads(bucket) == []
