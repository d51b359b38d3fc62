"""The page about performance: each run writes its own part, and nothing else of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.targets import Run

__all__ = ["write"]


def write(path: Path, run: Run, figures: Mapping[str, Figure], told: Mapping[str, Any]) -> None:
    """Write a run's part."""
