"""How long a destination is not there while it is published as a whole, on real stores.

A reader in a thread of its own lists the destination all the time: it must see exactly the old or exactly the
new files, or nothing where renames exchange the directories. On local files one that has opened the directory
before the exchange, and reads on after it, reads the old one while that is deleted, and may see a part of it
or none; whoever lists then sees the new one. The time between the two renames is taken where they are made.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest import mock

from fsspec.spec import AbstractFileSystem

import magicfs
from magicfs.stores import exchange_by_renames, local_exchange, resolve
from magicfs.stores.tree_port import Tree
from magicfs.testing.adls_server import AdlsDouble
from magicfs.testing.gcs_server import GcsDouble

__all__ = ["PLACES", "watched"]

_FILES: Final = 20


@dataclass
class _Place:
    """A directory of a store."""

    url: str
    options: Mapping[str, Any] = field(default_factory=dict)


@contextmanager
def _local() -> Iterator[_Place]:
    with tempfile.TemporaryDirectory() as top:
        (Path(top) / "lake").mkdir()
        yield _Place(f"file://{top}/lake")


@contextmanager
def _local_by_renames() -> Iterator[_Place]:
    with _local() as place, mock.patch.object(local_exchange, "_renameat2", return_value=None):
        yield place


@contextmanager
def _gcs() -> Iterator[_Place]:
    with GcsDouble() as double:
        double.create_bucket("flips", hierarchicalNamespace={"enabled": True})
        yield _Place("gs://flips/lake", double.storage_options())


@contextmanager
def _adls() -> Iterator[_Place]:
    with AdlsDouble() as double:
        double.create_bucket("flips")
        yield _Place("abfs://flips/lake", double.storage_options())


PLACES: Final[Mapping[str, Callable[[], Any]]] = {
    "local": _local,
    "local by renames": _local_by_renames,
    "gcs with folders": _gcs,
    "adls": _adls,
}


def _opened(place: _Place, below: str = "") -> tuple[AbstractFileSystem, str]:
    scheme, _, path = place.url.partition("://")
    return resolve.filesystem(scheme, dict(place.options)), path + below


class _Timed:
    """A tree that notes when its renames ended."""

    def __init__(self, tree: Tree, ended: list[float]) -> None:
        self._tree = tree
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tree, name)

    async def rename(self, source: str, destination: str) -> None:
        await self._tree.rename(source, destination)
        self._ended.append(time.perf_counter())


class _Reader(threading.Thread):
    """Lists one directory until it is told to stop, and counts what it sees."""

    def __init__(self, place: _Place) -> None:
        super().__init__(daemon=True)
        self._files, self._path = _opened(place, "/sales")
        self._is_local = place.url.startswith("file:")
        self._over = threading.Event()
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        last = -1
        while not self._over.is_set():
            turns = self._turns()
            self.seen["late" if self._is_late(turns, last) else _told(turns)] += 1
            last = max(turns or (), default=last)

    def _is_late(self, turns: Counter[int] | None, last: int) -> bool:
        """Whether a part of the last turn was seen, or none of its files, because a newer one is there."""
        if not self._is_local or turns is None or turns.total() >= _FILES or not set(turns) <= {last}:
            return False
        return max(self._turns() or (), default=-1) > last

    def stop(self) -> None:
        self._over.set()
        self.join()

    def _turns(self) -> Counter[int] | None:
        """How many files of each turn are listed; None if there is no directory."""
        self._files.invalidate_cache()
        try:
            listed = [name.rpartition("/")[2] for name in self._files.ls(self._path, detail=False)]
        except FileNotFoundError:
            return None
        return Counter(int(name.partition("-")[0]) for name in listed if name[:1] not in {"", ".", "_"})


def _told(turns: Counter[int] | None) -> str:
    if not turns:
        return "nothing"
    return "whole" if [*turns.values()] == [_FILES] else f"mixed {dict(turns)}"


def watched(name: str, flips: int, findings: list[str]) -> dict[str, Any]:
    """Flip a destination some times while a reader looks. Windows in milliseconds; 0 where it is one step."""
    ended: list[float] = []
    exchange = exchange_by_renames.exchange

    async def timed(tree: Tree, *given: str) -> bool:
        return await exchange(_Timed(tree, ended), *given)

    with ExitStack() as running:
        place = running.enter_context(PLACES[name]())
        running.enter_context(mock.patch.object(exchange_by_renames, "exchange", timed))
        _publish(place, 0)
        ended.clear()
        reader = _Reader(place)
        reader.start()
        try:
            for turn in range(1, flips + 1):
                _publish(place, turn)
        finally:
            reader.stop()
        left = _left(place)
    windows = [1000 * (second - first) for first, second in zip(ended[::2], ended[1::2], strict=True)]
    findings += [f"{name}: a reader who lists saw {what}" for what in reader.seen if what.startswith("mixed")]
    findings += [f"{name}: {one} is left" for one in left]
    if not windows and reader.seen["nothing"]:
        findings.append(f"{name}: a reader who lists saw nothing {reader.seen['nothing']} times")
    return {
        "flips": flips,
        "looks": reader.seen.total(),
        "nothing": reader.seen["nothing"],
        "late": reader.seen["late"],
        "median_ms": round(statistics.median(windows), 2) if windows else 0,
        "longest_ms": round(max(windows), 2) if windows else 0,
    }


def _publish(place: _Place, turn: int) -> None:
    job = magicfs.Job(f"{place.url}/sales", conflict="replace", publish="flip", storage_options=place.options)
    with job, job.task(0) as task:
        for number in range(_FILES):
            task.filesystem.pipe_file(f"{task.path}/{turn}-{number:02d}.txt", b"%d" % turn)


def _left(place: _Place) -> list[str]:
    files, path = _opened(place)
    files.invalidate_cache()
    names = [str(name).rstrip("/").rpartition("/")[2] for name in files.ls(path, detail=False)]
    return sorted(set(names) - {"sales", ""})
