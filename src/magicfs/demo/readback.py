"""What is there in the end, read by plain pyarrow: neither magicfs nor fsspec has a part in it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

import pyarrow.dataset
import pyarrow.fs

from magicfs.demo.fingerprint import Fingerprint, fingerprint
from magicfs.demo.server import Bucket

__all__ = ["PublishedDataset", "read_back"]


@dataclass(frozen=True, slots=True)
class PublishedDataset:
    """A dataset as a reader finds it."""

    content: Fingerprint
    files: int


def read_back(bucket: Bucket, directory: str) -> PublishedDataset:
    """Read a dataset whole."""
    endpoint = urlsplit(bucket.view.endpoint)
    filesystem = pyarrow.fs.S3FileSystem(
        endpoint_override=endpoint.netloc,
        scheme="https" if endpoint.scheme == "https" else "http",
        region=bucket.view.region,
    )
    dataset = pyarrow.dataset.dataset(
        f"{bucket.name}/{directory}", filesystem=filesystem, format="parquet", partitioning="hive"
    )
    return PublishedDataset(fingerprint(dataset.to_batches()), len(dataset.files))
