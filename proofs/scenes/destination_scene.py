"""A destination and what lies there, whatever committer writes to it: for tests."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from fsspec.asyn import get_loop, sync

from magicfs.formats.success import SuccessData
from magicfs.job.task import Task
from magicfs.protocol import paths
from magicfs.protocol.paths import Location
from magicfs.stores.port import Store
from magicfs.testing.store_faults import Crash

__all__ = ["ONE", "TWO", "DestinationScene", "raising_at_first"]

ONE: Final = {"day=1/part-0.csv": b"one\n", "day=2/part-0.csv": b"uno\n"}
"""The files of a task."""
TWO: Final = {"day=1/part-0.csv": b"two\n"}
"""Those of another one, of the same names."""

_T = TypeVar("_T")


class DestinationScene:
    """A destination.

    Args:
        store: Its bucket, past every fault.
        location: Where it is.
    """

    def __init__(self, store: Store, location: Location) -> None:
        self.store = store
        self.location = location

    def run(self, work: Callable[..., Coroutine[Any, Any, _T]], *args: Any) -> _T:
        """Call a coroutine on the loop of the store.

        Raises:
            Crash: The process died of it; what it still tries does not reach the store.
        """
        crashes: list[Crash] = []

        async def process() -> Any:
            try:
                return await work(*args)
            except Crash as crash:  # which would end the loop's task without a word
                crashes.append(crash)

        result: _T = sync(get_loop(), process)
        for crash in crashes:
            raise crash
        return result

    def dies(self, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> bool:
        """As ``run``; whether the process died of it."""
        try:
            self.run(work, *args)
        except Crash:
            return True
        return False

    def put(self, name: str, body: bytes = b"old\n") -> None:
        """Write a file below the destination, past every protocol."""
        self.run(self.store.put, paths.join(self.location.key, name), body)

    def files(self) -> dict[str, bytes]:
        """Every file below the destination, by its name there."""

        async def read() -> dict[str, bytes]:
            prefix = paths.prefix_of(self.location.key)
            keys = [info.key async for info in self.store.list(prefix)]
            return {key[len(prefix) :]: await self.store.get(key) for key in keys}

        return self.run(read)

    def data(self) -> dict[str, bytes]:
        """What a reader who lists the destination takes for data."""
        return {name: body for name, body in self.files().items() if paths.is_visible(f"d/{name}", "d")}

    def bodies(self) -> list[bytes]:
        """The contents of that, sorted."""
        return sorted(self.data().values())

    def uploads(self) -> list[str]:
        """Keys of all pending uploads of the bucket; where that is the whole machine, of the destination."""
        prefix = "" if self.store.bucket else paths.prefix_of(self.location.key)

        async def read() -> list[str]:
            return [one.key async for one in self.store.list_uploads(prefix)]

        return self.run(read)

    def success(self) -> SuccessData | None:
        """What ``_SUCCESS`` says; None if there is none."""
        raw = self.files().get("_SUCCESS")
        return None if raw is None else SuccessData.from_bytes("_SUCCESS", raw)


def raising_at_first() -> Callable[[Task], None]:
    """What a task does: it writes a file that holds its id, and raises then when it is tried first."""
    tried: list[str] = []

    def write(task: Task) -> None:
        task.filesystem.pipe_file(f"{task.path}/part-{len(tried)}.csv", f"{task.id}\n".encode())
        tried.append(task.id)
        if tried.count(task.id) == 1:
            raise RuntimeError("bad row")

    return write
