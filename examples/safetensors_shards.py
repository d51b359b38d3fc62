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
                path = f"{task.path}/step={step}/model.safetensors"
                task.filesystem.pipe_file(path, save(tensors))
        job.commit(tasks=RANKS)  # refuses a checkpoint that lacks a rank


def number(directory: str) -> int:
    """The step of a checkpoint's directory, to sort by: as text, ``step=9`` comes after ``step=10``."""
    return int(directory.removeprefix("step="))


def checkpoints(url: str) -> dict[str, list[str]]:
    """URLs of the files of each whole checkpoint, by its directory, the oldest first."""
    try:
        files = magicfs.Dataset(url).files()
    except magicfs.errors.ObjectNotFound:  # a first run: nothing is published yet
        return {}
    found: dict[str, list[str]] = {}
    for published in files:
        found.setdefault(published.key.partition("/")[0], []).append(published.url)
    return {directory: found[directory] for directory in sorted(found, key=number)}


def resume(url: str) -> tuple[int, dict[str, np.ndarray]]:
    """The step to begin with, and the tensors of the newest whole checkpoint: none in a first run."""
    tensors: dict[str, np.ndarray] = {}
    if not (found := checkpoints(url)):
        return 0, tensors
    newest = list(found)[-1]
    for shard in found[newest]:
        with fsspec.open(shard, "rb") as file:
            tensors |= load(file.read())
    return number(newest) + 1, tensors


def keep_last(url: str, count: int) -> None:
    """Delete all checkpoints but the last ones."""
    if old := list(checkpoints(url))[:-count]:
        magicfs.Dataset(url).drop(partitions=old, keep=None)


def main(url: str) -> None:
    """Save three more steps, keep two, and load the newest."""
    first, _ = resume(url)
    for step in range(first, first + 3):
        save_step(url, step, [{f"layer {rank}": np.full(100, step * rank)} for rank in range(RANKS)])
        keep_last(url, 2)
    _, tensors = resume(url)
    print({name: int(tensor.sum()) for name, tensor in sorted(tensors.items())})


if __name__ == "__main__":
    main(sys.argv[1])
