"""Save tensors in shards, all or none: ``python examples/safetensors_shards.py s3://bucket/run``."""

from __future__ import annotations

import sys

import fsspec
import numpy as np
from safetensors.numpy import load, save

import magicfs

RANKS = 4


def save_step(url: str, step: int, layers: list[dict[str, np.ndarray]]) -> None:
    """Publish one file for each rank; a step that is saved again replaces the one that was there."""
    with magicfs.Job(url, mode="overwrite_partitions") as job:
        for rank, tensors in enumerate(layers):
            with job.task(rank) as task:
                path = f"{task.path}/step={step:06d}/model.safetensors"
                task.filesystem.pipe_file(path, save(tensors))


def checkpoints(url: str) -> dict[str, list[str]]:
    """URLs of the files of each whole checkpoint, by its directory, the oldest first."""
    found: dict[str, list[str]] = {}
    for published in magicfs.Dataset(url).files():
        found.setdefault(published.key.partition("/")[0], []).append(published.url)
    return dict(sorted(found.items()))


def load_newest(url: str) -> dict[str, np.ndarray]:
    """Read the files of the newest whole checkpoint."""
    found: dict[str, np.ndarray] = {}
    for shard in list(checkpoints(url).values())[-1]:
        with fsspec.open(shard, "rb") as file:
            found |= load(file.read())
    return found


def keep_last(url: str, count: int) -> None:
    """Delete all checkpoints but the last ones."""
    if old := list(checkpoints(url))[:-count]:
        magicfs.Dataset(url).drop(partitions=old, keep=None)


def main(url: str) -> None:
    """Save three times, keep two, and load the newest."""
    for step in (1, 2, 3):
        save_step(url, step, [{f"layer {rank}": np.full(100, step * rank)} for rank in range(RANKS)])
        keep_last(url, 2)
    print({name: int(tensor.sum()) for name, tensor in sorted(load_newest(url).items())})


if __name__ == "__main__":
    main(sys.argv[1])
