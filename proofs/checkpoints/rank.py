"""One rank: a process that saves or loads with others."""

from __future__ import annotations

import os
import statistics
import sys
import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import CheckpointException, FsspecWriter
from torch.distributed.device_mesh import init_device_mesh

from magicfs.torch import StorageReader, StorageWriter, latest
from proofs.checkpoints import points
from proofs.checkpoints.state import differences, empty, state_of

__all__ = ["run"]

_ROUNDS = 3


def run(order: dict[str, Any], rank: int, count: int, port: int, tell: Any) -> None:
    """Do what is ordered, as one rank of several. Ends the process, with 0 if that was done."""
    dist.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=count,
        timeout=timedelta(seconds=60),
    )
    mesh = init_device_mesh("cpu", (count,))
    match order["do"]:
        case "save":
            status = _save(order, mesh)
        case "load":
            status = _load(order, mesh)
        case _:
            status, medians = 0, _pace(order, mesh)
            if rank == 0:
                tell.send(medians)
    dist.barrier()
    os._exit(status)  # nobody needs to wait for threads of s3fs and gloo


def _save(order: dict[str, Any], mesh: Any) -> int:
    options: dict[str, Any] = {}
    if order.get("victim") == dist.get_rank():
        points.arm(order["point"], options)
    writer = StorageWriter(order["url"], job_options=options)
    try:
        dcp.save(state_of(order["step"], mesh), checkpoint_id=order["name"], storage_writer=writer)
    except CheckpointException:
        writer.abort()
        return int(order.get("point") != points.RAISES)
    return 0


def _load(order: dict[str, Any], mesh: Any) -> int:
    told = [latest(order["url"]) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(told, src=0)
    state = empty(mesh)
    dcp.load(state, checkpoint_id=told[0], storage_reader=StorageReader(order["url"]))
    wrong = differences(state, state_of(order["step"], mesh))
    if told[0] != order["name"] or wrong:
        sys.stderr.write(f"rank {dist.get_rank()} loaded {told[0]!r}, in which {wrong} is wrong\n")
        return 1
    return 0


def _pace(order: dict[str, Any], mesh: Any) -> dict[str, float]:
    """How long a save takes beside torch's own, which publishes file by file, in turns."""
    took: dict[str, list[float]] = {"magicfs": [], "fsspec": []}
    for number in range(_ROUNDS):
        state = state_of(number + 1, mesh)
        for name, seconds in took.items():
            dist.barrier()
            began = time.perf_counter()
            if name == "magicfs":
                writer = StorageWriter(f"{order['url']}/magicfs")
                dcp.save(state, checkpoint_id=f"step {number}", storage_writer=writer)
            else:
                dcp.save(state, storage_writer=FsspecWriter(f"{order['url']}/fsspec/step {number}"))
            seconds.append(time.perf_counter() - began)
    return {name: round(statistics.median(seconds), 2) for name, seconds in took.items()}
