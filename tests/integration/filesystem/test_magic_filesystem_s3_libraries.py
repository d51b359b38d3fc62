"""pandas and pyarrow write through ``MagicFileSystem`` as they do everywhere."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest

from proofs.scenes.s3_scene import S3Scene

pytestmark = pytest.mark.sample(most=1)

WORK = "dataset1/__magic/job 1/task%2F1/__base"
FRAME = pd.DataFrame({"day": ["a b", "c%d", "a b"], "value": [1.5, 2.5, 3.5], "word": ["zażółć", "日本", ""]})
TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)


def parquet(body: bytes) -> pd.DataFrame:
    return pd.read_parquet(io.BytesIO(body))


@pytest.fixture(params=["magic+s3", "magic::s3"])
def url(request: pytest.FixtureRequest, scene: S3Scene) -> str:
    return f"{request.param}://{scene.bucket}/{WORK}/day=1/part 0+%"


@pytest.fixture
def options(scene: S3Scene) -> dict[str, Any]:
    return {"s3": scene.storage_options}


def test_data_frame_is_written_as_parquet(scene: S3Scene, url: str, options: dict[str, Any]) -> None:
    FRAME.to_parquet(f"{url}.parquet", storage_options=options)
    [(key, body)] = scene.publish().items()
    assert key == "dataset1/day=1/part 0+%.parquet"
    pd.testing.assert_frame_equal(parquet(body), FRAME)


@pytest.mark.parametrize("compression", ["infer", "gzip"])
def test_data_frame_is_written_as_csv_plain_and_compressed(
    scene: S3Scene, url: str, options: dict[str, Any], compression: Any
) -> None:
    FRAME.to_csv(f"{url}.csv", index=False, storage_options=options, compression=compression)
    [(key, body)] = scene.publish().items()
    assert key == "dataset1/day=1/part 0+%.csv"
    kind = None if compression == "infer" else compression
    pd.testing.assert_frame_equal(
        pd.read_csv(io.BytesIO(body), compression=kind, keep_default_na=False), FRAME
    )


def test_pandas_infers_compression_from_the_end_of_a_url_that_is_not_chained(
    scene: S3Scene, url: str, options: dict[str, Any]
) -> None:
    FRAME.to_csv(f"{url}.csv.gz", index=False, storage_options=options)
    # Of a chained one it looks at what stands before the first "::"; the compression has to be named.
    head = b"day,value,word" if "::" in url else b"\x1f\x8b"
    assert scene.publish()["dataset1/day=1/part 0+%.csv.gz"].startswith(head)


def test_data_frame_is_written_as_json_and_pickle(scene: S3Scene, url: str, options: dict[str, Any]) -> None:
    FRAME.to_json(f"{url}.json", storage_options=options)
    FRAME.to_pickle(f"{url}.pkl", storage_options=options)
    published = scene.publish()
    pd.testing.assert_frame_equal(pd.read_json(io.BytesIO(published["dataset1/day=1/part 0+%.json"])), FRAME)
    pd.testing.assert_frame_equal(pd.read_pickle(io.BytesIO(published["dataset1/day=1/part 0+%.pkl"])), FRAME)


def test_data_frame_is_written_to_an_open_file(scene: S3Scene) -> None:
    base = f"{scene.bucket}/{WORK}"
    with scene.filesystem.open(f"{base}/a.csv", "w", newline="") as text:
        FRAME.to_csv(text, index=False)
    with scene.filesystem.open(f"{base}/a.parquet", "wb") as binary:
        FRAME.to_parquet(binary)
    published = scene.publish()
    pd.testing.assert_frame_equal(parquet(published["dataset1/a.parquet"]), FRAME)
    assert published["dataset1/a.csv"].decode().splitlines()[1] == "a b,1.5,zażółć"


@pytest.mark.parametrize(("form", "wrapped"), [("parquet", False), ("csv", True), ("feather", False)])
def test_dataset_is_written_in_partitions(scene: S3Scene, form: str, wrapped: bool) -> None:
    filesystem: Any = scene.filesystem
    if wrapped:
        filesystem = pa.fs.PyFileSystem(pa.fs.FSSpecHandler(filesystem))
    pa.dataset.write_dataset(
        TABLE,
        f"{scene.bucket}/{WORK}",
        filesystem=filesystem,
        format=form,
        partitioning=pa.dataset.partitioning(pa.schema([("day", pa.string())]), flavor="hive"),
    )
    assert set(scene.server.visible_keys(scene.bucket)) == set()
    published = scene.publish()
    assert sorted(published) == [f"dataset1/day=a%20b/part-0.{form}", f"dataset1/day=c%25d/part-0.{form}"]
    back = pa.dataset.dataset(
        f"{scene.bucket}/dataset1",
        filesystem=scene.filesystem,
        format=form,
        partitioning="hive",
        ignore_prefixes=["_", "."],
    ).to_table()
    assert sorted(back.column("value").to_pylist()) == [1.5, 2.5, 3.5]


def test_single_file_is_written_and_copied_and_deleted_by_pyarrow(scene: S3Scene) -> None:
    base, fs = f"{scene.bucket}/{WORK}", pa.fs.PyFileSystem(pa.fs.FSSpecHandler(scene.filesystem))
    pa.parquet.write_table(TABLE, f"{base}/a.parquet", filesystem=fs)
    pa.csv.write_csv(TABLE, fs.open_output_stream(f"{base}/b.csv", compression=None))
    info = fs.get_file_info(f"{base}/a.parquet")
    assert (info.type, info.size > 100) == (pa.fs.FileType.File, True)
    assert [one.base_name for one in fs.get_file_info(pa.fs.FileSelector(base))] == ["a.parquet"]
    with pytest.raises(ValueError, match="cannot be read"):
        pa.parquet.read_table(f"{base}/a.parquet", filesystem=fs)
    with pytest.raises(ValueError, match="cannot be copied or moved"):
        fs.move(f"{base}/a.parquet", f"{base}/c.parquet")
    with pytest.raises(ValueError, match="is not possible, because parts of a delayed upload"):
        fs.open_append_stream(f"{base}/a.parquet")
    fs.delete_file(f"{base}/a.parquet")
    with pytest.raises(FileNotFoundError):  # as in s3fs: a directory is what lies below it
        fs.delete_dir(base)
    assert (scene.uploads(), scene.objects()) == ([], {})


def test_dataset_whose_source_fails_leaves_files_that_prove_nothing(scene: S3Scene) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        while not any(key.endswith(".pending") for key in scene.server.all_keys(scene.bucket)):
            yield TABLE.to_batches()[0]
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pa.dataset.write_dataset(
            pa.RecordBatchReader.from_batches(TABLE.schema, failing()),
            f"{scene.bucket}/{WORK}",
            filesystem=scene.filesystem,
            format="parquet",
            max_rows_per_file=3,
            max_rows_per_group=3,
        )
    assert scene.server.visible_keys(scene.bucket) == []
    proofless = scene.publish()
    assert proofless
    assert all(len(parquet(body)) == 3 for body in proofless.values())
