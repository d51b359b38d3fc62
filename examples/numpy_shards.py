"""Save an array in shards, all or none, and load the newest: ``python examples/numpy_shards.py s3://bucket/run``."""

from __future__ import annotations

import sys

import fsspec
import numpy as np

import magicfs

RANKS = 4


def save(url: str, weights: np.ndarray) -> None:
    """Publish one file for each rank; the checkpoint before goes once this one is visible."""
    with magicfs.Job(url, mode="overwrite") as job:
        for rank, shard in enumerate(np.array_split(weights, RANKS)):
            with job.task(rank) as task, task.filesystem.open(f"{task.path}/shard.npy", "wb") as file:
                np.save(file, shard)
        job.commit(tasks=RANKS)  # refuses a checkpoint that lacks a rank


def load(url: str) -> np.ndarray:
    """Read the published files, in the order of the ranks."""
    shards = []
    for published in magicfs.Dataset(url).files():
        with fsspec.open(published.url, "rb") as file:
            shards.append(np.load(file))
    return np.concatenate(shards)


def main(url: str) -> None:
    """Save twice, and load."""
    for step in (1, 2):
        save(url, np.arange(1000) * step)
    print(load(url).sum())


if __name__ == "__main__":
    main(sys.argv[1])
