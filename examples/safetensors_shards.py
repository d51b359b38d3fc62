"""Save tensors in shards, all or none: ``python examples/safetensors_shards.py s3://bucket/run``."""

from __future__ import annotations

import sys

import fsspec
import numpy as np
from safetensors.numpy import load, save

import magicfs

RANKS = 4


def save_all(url: str, layers: list[dict[str, np.ndarray]]) -> None:
    """Publish one file for each rank; with ``append`` the checkpoints before stay."""
    with magicfs.Job(url, mode="append") as job:
        for rank, tensors in enumerate(layers):
            with job.task(rank) as task:
                task.filesystem.pipe_file(f"{task.path}/model.safetensors", save(tensors))


def load_newest(url: str) -> dict[str, np.ndarray]:
    """Read the files of the newest whole checkpoint."""
    found: dict[str, np.ndarray] = {}
    dataset = magicfs.Dataset(url)
    [newest] = dataset.history(limit=1)
    for published in dataset.files(job=newest.job_id):
        with fsspec.open(published.url, "rb") as file:
            found |= load(file.read())
    return found


def main(url: str) -> None:
    """Save twice, and load the newer one."""
    for step in (1, 2):
        save_all(url, [{f"layer {rank}": np.full(100, step * rank)} for rank in range(RANKS)])
    print({name: int(tensor.sum()) for name, tensor in sorted(load_newest(url).items())})


if __name__ == "__main__":
    main(sys.argv[1])
