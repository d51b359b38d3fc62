"""What is there in the end, read by plain pyarrow: neither magicfs nor fsspec has a part in it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.dataset

from examples.flights.buckets import Bucket
from examples.flights.fingerprint import Fingerprint, fingerprint

__all__ = ["PublishedDataset", "read_back"]


@dataclass(frozen=True, slots=True)
class PublishedDataset:
    """A dataset as a reader finds it."""

    content: Fingerprint
    files: int


def read_back(bucket: Bucket, directory: str) -> PublishedDataset:
    """Read a dataset whole."""
    filesystem, path = bucket.reader(directory)
    dataset = pyarrow.dataset.dataset(path, filesystem=filesystem, format="parquet", partitioning="hive")
    return PublishedDataset(fingerprint(dataset.to_batches()), len(dataset.files))
