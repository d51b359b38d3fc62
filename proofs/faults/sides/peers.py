"""Every other writer, overwriting as its documents say; where it has no such mode, over the same names."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from proofs.faults.place import Place
from proofs.faults.rows import PARTITIONS, SCHEMA, Rows

__all__ = [
    "awswrangler",
    "daft",
    "dask",
    "deltalake",
    "deltalake_ids",
    "duckdb",
    "polars",
    "pyarrow_native",
    "pyarrow_s3fs",
    "ray",
    "s3fs_files",
    "s3fs_transaction",
]


def _s3fs(place: Place) -> Any:
    import s3fs

    return s3fs.S3FileSystem(**place.storage_options)


def s3fs_files(place: Place, rows: Rows) -> None:
    """Files of s3fs, after the old ones were removed."""
    _replace(_s3fs(place), place, rows)


def _replace(filesystem: Any, place: Place, rows: Rows) -> None:
    import pyarrow.parquet as pq

    for old in filesystem.find(place.path):
        filesystem.rm_file(old)
    for partition in range(PARTITIONS):
        with (
            filesystem.open(f"{place.path}/p={partition}/part-new.parquet", "wb") as file,
            pq.ParquetWriter(file, SCHEMA) as writer,
        ):
            for batch in rows.part(partition):
                writer.write_batch(batch)


def s3fs_transaction(place: Place, rows: Rows) -> None:
    """The same in a transaction of fsspec."""
    filesystem = _s3fs(place)
    with filesystem.transaction:
        _replace(filesystem, place, rows)


def pyarrow_s3fs(place: Place, rows: Rows) -> None:
    """``write_dataset`` through s3fs."""
    _write_dataset(_s3fs(place), place, rows)


def pyarrow_native(place: Place, rows: Rows) -> None:
    """``write_dataset`` through pyarrow's own S3."""
    _write_dataset(place.arrow(), place, rows)


def _write_dataset(filesystem: Any, place: Place, rows: Rows) -> None:
    import pyarrow.dataset as ds

    ds.write_dataset(
        pa.RecordBatchReader.from_batches(SCHEMA, rows.whole()),
        place.path,
        filesystem=filesystem,
        format="parquet",
        partitioning=["p"],
        partitioning_flavor="hive",
        existing_data_behavior="delete_matching",
        basename_template=f"{'new' if rows.new else 'old'}-{{i}}.parquet",
    )


def awswrangler(place: Place, rows: Rows) -> None:
    """``to_parquet`` of a dataset, mode ``overwrite_partitions``."""
    import awswrangler as wr
    import boto3

    wr.config.s3_endpoint_url = place.endpoint
    session = boto3.Session(
        aws_access_key_id=place.key, aws_secret_access_key=place.secret, region_name=place.region
    )
    wr.s3.to_parquet(
        rows.table().to_pandas(),
        f"{place.url}/",
        dataset=True,
        partition_cols=["p"],
        mode="overwrite_partitions",
        boto3_session=session,
    )


def dask(place: Place, rows: Rows) -> None:
    """``to_parquet(overwrite=True)``, a task for each partition."""
    import dask as engine
    import dask.dataframe as dd

    engine.config.set({"dataframe.convert-string": False})  # it takes bytes for text

    def make(partition: int) -> Any:
        return rows.table(partition).to_pandas()

    frame = dd.from_map(make, list(range(PARTITIONS)), meta=SCHEMA.empty_table().to_pandas())
    frame.to_parquet(
        place.url,
        overwrite=True,
        partition_on="p",
        write_index=False,
        schema=SCHEMA,
        storage_options=place.storage_options,
        compute_kwargs={"scheduler": "threads"},
    )


def polars(place: Place, rows: Rows) -> None:
    """``sink_parquet`` of a lazy frame, by partitions."""
    import polars as pl
    from polars.io.plugins import register_io_source

    def source(*_asked: Any) -> Any:
        for batch in rows.whole():
            yield pl.from_arrow(pa.Table.from_batches([batch]))

    schema: Any = pl.from_arrow(SCHEMA.empty_table())
    frame = register_io_source(source, schema=schema.schema)
    frame.sink_parquet(
        pl.PartitionBy(f"{place.url}/", key="p"), storage_options=place.object_store, mkdir=True
    )


def deltalake(place: Place, rows: Rows) -> None:
    """``write_deltalake(mode="overwrite")``."""
    import deltalake as dl

    reader = pa.RecordBatchReader.from_batches(SCHEMA, rows.whole())
    options = place.object_store | {"conditional_put": "etag"}
    dl.write_deltalake(place.url, reader, mode="overwrite", partition_by=["p"], storage_options=options)


def deltalake_ids(place: Place) -> list[int]:
    """The ids of the table's rows."""
    import deltalake as dl

    table = dl.DeltaTable(place.url, storage_options=place.object_store)
    ids: list[int] = pa.table(table.to_pyarrow_table(columns=["id"]))["id"].to_pylist()
    return ids


def duckdb(place: Place, rows: Rows) -> None:
    """``COPY`` by partitions, over the same names."""
    import duckdb as db
    import duckdb_extensions

    duckdb_extensions.import_extension("httpfs")
    connection = db.connect()
    connection.execute("LOAD httpfs")
    endpoint = urlsplit(place.endpoint)
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID '{place.key}', SECRET '{place.secret}', REGION '{place.region}', "
        f"ENDPOINT '{endpoint.netloc}', URL_STYLE 'path', USE_SSL false)"
    )
    connection.register("given", pa.RecordBatchReader.from_batches(SCHEMA, rows.whole()))
    # Of a store that is far away it removes nothing: OVERWRITE is for files of this machine.
    connection.execute(f"COPY given TO '{place.url}' (FORMAT parquet, PARTITION_BY (p), OVERWRITE_OR_IGNORE)")


def daft(place: Place, rows: Rows) -> None:
    """``write_parquet(write_mode="overwrite")``."""
    import daft as engine
    from daft.io import IOConfig, S3Config

    config = IOConfig(
        s3=S3Config(
            endpoint_url=place.endpoint,
            key_id=place.key,
            access_key=place.secret,
            region_name=place.region,
            use_ssl=False,
        )
    )
    frame = engine.from_arrow(rows.table())
    frame.write_parquet(place.url, write_mode="overwrite", partition_cols=["p"], io_config=config)


def ray(place: Place, rows: Rows) -> None:
    """``write_parquet(mode="overwrite")``, a task for each partition."""
    import ray as engine
    from ray.data import SaveMode

    engine.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)

    def make(batch: Any) -> Any:
        return rows.table(int(batch["id"][0]))

    frame = engine.data.range(PARTITIONS, override_num_blocks=PARTITIONS).map_batches(make, batch_size=1)
    frame.write_parquet(place.path, filesystem=_s3fs(place), partition_cols=["p"], mode=SaveMode.OVERWRITE)
