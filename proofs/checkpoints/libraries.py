"""Libraries that read back and rename what they have written do so through a task, as they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch.distributed.checkpoint as dcp
import xarray
import zarr
from torch.distributed.checkpoint import FileSystemWriter, FsspecReader, FsspecWriter

import magicfs
from proofs.checkpoints.state import differences, empty, state_of
from proofs.scenes.arranged import arranged

__all__ = ["played"]

_NAME = "a é %+#.zarr"
_PAGE = Path(__file__).parents[2] / "docs" / "checkpoints.md"


def played(url: str) -> dict[str, list[str]]:
    """What is wrong, for each library and way to write."""
    found = {}
    for number, (name, play) in enumerate(_PLAYS.items()):
        try:
            found[name] = play(f"{url}/{number}")
        except Exception as error:  # noqa: BLE001 - told
            found[name] = [repr(error)]
    return found


def _xarray(url: str) -> list[str]:
    first = xarray.Dataset({"t": (("x", "y"), np.arange(600.0).reshape(20, 30))}, {"x": np.arange(20)})
    with magicfs.Job(url, options={"unique_names": False}) as job, job.task(0) as task:
        target = task.url(_NAME).replace("magic+", "magic::")  # xarray takes a URL with "+" for a path
        first.to_zarr(target, storage_options=task.storage_options)
        more = first.assign_coords(x=np.arange(20, 40))
        more.to_zarr(target, storage_options=task.storage_options, append_dim="x")
    with xarray.open_zarr(f"{url}/{_NAME}") as found:
        same = np.array_equal(found["t"].values, np.vstack([first["t"].values] * 2))
    return [] if same else ["other values were read"]


def _zarr(url: str, zarr_format: Any = 3, **options: Any) -> list[str]:
    with magicfs.Job(url, **arranged(**options)) as job, job.task(0) as task:
        way = {"mode": "w", "zarr_format": zarr_format, "storage_options": task.storage_options}
        group = zarr.open_group(task.url(_NAME), **way)
        array = group.create_array("a", shape=(100,), chunks=(10,), dtype="i4")
        array[5:37] = 7
        array[3:8] = 3  # a part of chunks that are written already
        seen = np.array_equal(array[3:9], [3, 3, 3, 3, 3, 7])
        group.create_array("gone", shape=(100,), chunks=(10,), dtype="i4")[:] = 1
        del group["gone"]
    if options.get("unique_names", True):
        return [] if seen else ["other values were read back"]
    found = zarr.open_group(f"{url}/{_NAME}", mode="r")
    same = np.array_equal(found["a"][3:9], [3, 3, 3, 3, 3, 7]) and list(found) == ["a"]
    return [] if seen and same else ["other values were read"]


def _torch(url: str, **options: Any) -> list[str]:
    with magicfs.Job(url, **arranged(unique_names=False, **options)) as job, job.task(0) as task:
        if "committer" in options:
            writer = FileSystemWriter(f"{task.path}/step 1")
        else:
            writer = FsspecWriter(task.url("step 1"), **task.storage_options)
        dcp.save(state_of(1), storage_writer=writer, no_dist=True)
    state = empty()
    dcp.load(state, storage_reader=FsspecReader(f"{url}/step 1"), no_dist=True)
    return differences(state, state_of(1))


def _documented(url: str) -> list[str]:
    """What docs/checkpoints.md shows of torch and of zarr, as it stands but for the destination."""
    torch_code, zarr_code = (
        code.replace("s3://bucket/", f"{url}/")
        for code in re.findall(r"```python\n(.*?)```", _PAGE.read_text(), flags=re.DOTALL)
        if "dcp.save" in code or "to_zarr" in code
    )
    state = state_of(1)
    shown: dict[str, Any] = {"magicfs": magicfs, "state": state}
    exec(torch_code, shown)  # noqa: S102 - our own page
    loaded = empty()
    reader = magicfs.torch.StorageReader(f"{url}/run-7")
    dcp.load(loaded, checkpoint_id="step-100", storage_reader=reader, no_dist=True)
    found = differences(state, state_of(1)) + differences(loaded, state_of(1))
    dataset = xarray.Dataset({"t": ("x", np.arange(20.0))})
    exec(zarr_code, shown | {"dataset": dataset})  # noqa: S102
    with xarray.open_zarr(f"{url}/model.zarr") as read:
        same = np.array_equal(read["t"].values, dataset["t"].values)
    found += [] if shown["newest"] == "step-100" else [f"the newest is {shown['newest']!r}"]
    return found + ([] if same else ["other values were read"])


_PLAYS: Final[Mapping[str, Callable[[str], list[str]]]] = {
    "xarray": _xarray,
    "zarr": lambda url: _zarr(url, unique_names=False),
    "zarr 2": lambda url: _zarr(url, 2, unique_names=False),
    "zarr, tracking in memory": lambda url: _zarr(url, tracking="memory"),
    "zarr, small files": lambda url: _zarr(url, tracking="memory", small_files=2**16),
    "torch": _torch,
    "torch, local files": lambda url: _torch(
        url, committer="directory", committer_options={"hidden_files": "data"}
    ),
    "the page": _documented,
}
