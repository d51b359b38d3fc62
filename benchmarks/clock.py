"""The times of one turn, phase by phase: of this process, of what it runs, and of the server."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Sample

__all__ = ["Clock", "peak_mb", "processor_s"]

_TICKS = os.sysconf("SC_CLK_TCK")


class Clock:
    """Samples by phase. The work of a side says where its phases begin and end; the rest is not measured."""

    def __init__(self, server: int | None = None) -> None:
        self.samples: dict[str, Sample] = {}
        self._server = server

    @contextmanager
    def __call__(self, phase: str = "whole") -> Iterator[None]:
        """Measure what is done in the ``with`` block, and add it to a phase."""
        server, own, wall = self._server_s(), _own_s(), time.perf_counter()
        yield
        wall, own = time.perf_counter() - wall, _own_s() - own
        server = self._server_s() - server
        before = self.samples.get(phase, Sample(0, 0, 0))
        self.samples[phase] = Sample(before.wall_s + wall, before.cpu_s + own, before.server_cpu_s + server)

    def _server_s(self) -> float:
        return 0.0 if self._server is None else processor_s(self._server)


def _own_s() -> float:
    ran = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ran.ru_utime + ran.ru_stime


def processor_s(pid: int) -> float:
    """The processor time of another process so far, in steps of the kernel's clock."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_mb(*, reset: bool = False) -> float:
    """The most memory that this process has held at once, in megabytes; ``reset`` begins anew."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("/proc/self/status has no VmHWM")
