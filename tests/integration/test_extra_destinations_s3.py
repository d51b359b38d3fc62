"""Extra destinations on real servers: names that URLs mistreat, pandas and pyarrow as writers, recovery."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest
from s3fs import S3FileSystem

import magicfs
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged

pytestmark = pytest.mark.sample(most=1)

FRAME = pd.DataFrame({"day": [1, 1, 2], "value": [10, 20, 30]})
NAMES = ["dataset10", "a b", "50%25", "a+b#c/d", "ü日本/x=1"]


@pytest.mark.parametrize(("committer", "name"), [("magic", "seaweedfs"), ("directory", "ministack")])
def test_tables_are_published_at_both_places_at_once(
    server: Callable[[str], Server],
    bucket_factory: Callable[..., str],
    tmp_path: Path,
    committer: str,
    name: str,
) -> None:
    running = server(name)
    bucket, options = bucket_factory(running), running.storage_options()
    places = [f"s3://{bucket}/other/{name}" for name in NAMES]
    given: dict[str, Any] = {"committer": committer, "storage_options": options, "extra_destinations": places}
    if committer == "directory":
        given["committer_options"] = {"work_directory": str(tmp_path)}
    fs = S3FileSystem(**options, skip_instance_cache=True, use_listings_cache=False)
    with magicfs.Job(f"s3://{bucket}/dataset1", **arranged(**given)) as job, job.task(0) as task:
        FRAME.to_parquet(f"{task.path}/main.parquet", filesystem=task.filesystem)
        for place in places:
            table = pa.Table.from_pandas(FRAME)
            pyarrow.dataset.write_dataset(
                table,
                task.path_to(place),
                filesystem=task.filesystem,
                format="parquet",
                partitioning=["day"],
                partitioning_flavor="hive",
            )
            if committer == "magic":
                FRAME.to_csv(task.url_to(f"{place}/deeper", "t.csv"), storage_options=task.storage_options)
            else:  # pandas asks the network for file:// URLs
                FRAME.to_csv(Path(task.path_to(f"{place}/deeper"), "t.csv"))
        assert all("/__magic_job-" in key for key in fs.find(bucket))
    for place in places:
        found = [key for key in fs.find(place) if "/_magicfs/" not in key]
        assert len(found) == 3, found
        with fs.open(next(key for key in found if "/deeper/t-" in key)) as file:
            assert pd.read_csv(file, index_col=0).equals(FRAME)
        assert magicfs.Dataset(place, storage_options=options).verify().ok
    assert job.report.files == 1 + 3 * len(NAMES)
    assert [key for key in fs.find(bucket) if "__magic" in key] == []
    uploads = fs.call_s3("list_multipart_uploads", Bucket=bucket)
    assert not uploads.get("Uploads")


def test_an_extra_destination_of_another_bucket_is_refused(
    ministack: Server, bucket_factory: Callable[..., str]
) -> None:
    bucket = bucket_factory(ministack)
    with pytest.raises(magicfs.errors.UsageError, match="use one job per bucket"):
        magicfs.Job(
            f"s3://{bucket}/dataset1",
            storage_options=ministack.storage_options(),
            options={"extra_destinations": [f"s3://{bucket}-2/other"]},
        )
