"""What the figures were measured on."""

from __future__ import annotations

import datetime as dt
import os
import platform
from pathlib import Path

__all__ = ["describe", "today"]


def describe() -> dict[str, str | int | float]:
    """The machine and its load, as a run finds them."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def today() -> str:
    """The date of the run."""
    return dt.datetime.now(dt.UTC).date().isoformat()


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
