"""What is saved: known from its step alone, so that whoever loads it can tell whether it is right."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["RANKS", "SIZE", "differences", "empty", "state_of"]

RANKS = 4
_ROWS, _COLUMNS = 4096, 3072  # 12 MiB for each of four ranks: more than one part of an upload
SIZE = _ROWS * _COLUMNS * 4


def state_of(step: int, mesh: Any = None) -> dict[str, Any]:
    """The state at a step; with a mesh its large tensor is sharded over the ranks."""
    numbers = torch.arange(_ROWS * _COLUMNS, dtype=torch.float32).reshape(_ROWS, _COLUMNS)
    return {
        "weights é %+#": _sharded(numbers * step, mesh),
        "bias": torch.full((7,), float(step)),
        "optimizer": {"step": step, "name": f"step {step}"},
    }


def empty(mesh: Any = None) -> dict[str, Any]:
    """A state to load into."""
    return {
        "weights é %+#": _sharded(torch.zeros(_ROWS, _COLUMNS), mesh),
        "bias": torch.zeros(7),
        "optimizer": {"step": 0, "name": ""},
    }


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """What of a state is not as expected, by name."""
    wrong = [] if found["optimizer"] == expected["optimizer"] else ["optimizer"]
    names = ("weights é %+#", "bias")
    wrong += [name for name in names if not torch.equal(_local(found[name]), _local(expected[name]))]
    return wrong


def _sharded(tensor: Any, mesh: Any) -> Any:
    if mesh is None:
        return tensor
    from torch.distributed.tensor import Shard, distribute_tensor

    return distribute_tensor(tensor, mesh, [Shard(0)])


def _local(tensor: Any) -> Any:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
