"""Finding the process that has an upload open at a given moment, to kill it then."""

from __future__ import annotations

import queue
from contextlib import suppress
from pathlib import Path
from typing import Any

from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule

__all__ = ["StallingProxy"]

_STALL_S = 4.0
_WAIT_S = 120.0


class StallingProxy(FaultProxy):
    """A proxy that lets a part of an upload wait, and tells which process sends it."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self._stalled: queue.Queue[int] = queue.Queue()

    def stall(self, skip: int) -> None:
        """Let one part wait for some seconds, then cut its connection, after ``skip`` that go through."""
        self.clear()
        self.add(Rule("UploadPart", Action.HANG, times=1, skip=skip, seconds=_STALL_S))

    def process(self) -> int:
        """Wait for that part; returns the process that sends it. Its upload is open, the part not there."""
        port = self._stalled.get(timeout=_WAIT_S)
        found = _process_of(port, int(self.endpoint.rpartition(":")[2]))
        if found is None:
            raise RuntimeError(f"no process has the connection from port {port}")
        return found

    async def _break(self, arrival: Any, rule: Rule) -> Any:
        transport = arrival.request.transport
        if transport is not None:
            self._stalled.put(transport.get_extra_info("peername")[1])
        return await super()._break(arrival, rule)


def _process_of(port: int, proxy: int) -> int | None:
    """The process at the client's end of a connection between two ports of this machine."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        ends = [int(end.rpartition(":")[2], 16) for end in fields[1:3]]
        if ends == [port, proxy]:
            return _owner(fields[9])
    return None


def _owner(inode: str) -> int | None:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            for one in (process / "fd").iterdir():
                with suppress(OSError):
                    if one.readlink().name == f"socket:[{inode}]":
                        return int(process.name)
    return None
