"""``magicfs.write`` against a server of S3: what readers find, and that a failure leaves nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from s3fs import S3FileSystem

import magicfs
from proofs.doubles.servers import Server

ROWS = {"day": ["mon", "a b", "50%", "x/y", "é+#", None], "n": list(range(6))}


def test_what_is_written_reads_back_and_a_failure_leaves_neither_files_nor_uploads(
    ministack: Server, bucket_factory: Callable[..., str]
) -> None:
    bucket, options = bucket_factory(ministack, "write"), ministack.storage_options()
    url = f"s3://{bucket}/env=prod/día 50%"
    table = pa.table(ROWS)
    report = magicfs.write(table, url, partition_by="day", tasks=2, storage_options=options)
    assert report.rows == len(table)
    assert (
        magicfs.Dataset(url, storage_options=options).to_arrow().to_table().sort_by("n").to_pydict()
        == table.select(["n", "day"]).to_pydict()
    )
    plain = ds.dataset(
        url.removeprefix("s3://"),
        filesystem=S3FileSystem(**options, skip_instance_cache=True),
        format="parquet",
        partitioning="hive",
    )
    assert plain.to_table().sort_by("n")["day"].to_pylist() == ROWS["day"]

    def failing() -> Iterator[pa.RecordBatch]:
        for n in range(40):  # more than is held: uploads are open when the source fails
            yield pa.record_batch({"day": pa.repeat(f"d {n % 3}", 2**20), "n": pa.repeat(n, 2**20)})
        raise LookupError("the source is gone")

    before = ministack.all_keys(bucket)
    for tasks in (1, 2):
        with pytest.raises(LookupError):
            magicfs.write(
                failing(),
                url,
                mode="overwrite",
                partition_by="day",
                tasks=tasks,
                format="arrow",
                storage_options=options,
                options={"part_size": 5 * 2**20},
            )
        assert ministack.all_keys(bucket) == before
        assert not ministack.pending_uploads(bucket)
