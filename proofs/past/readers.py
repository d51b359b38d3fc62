"""Readers of every kind who look on while a turn runs; what they saw is judged when it is over."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import magicfs
from proofs.kill.content import Rows
from proofs.past.content import SCHEMA
from proofs.past.places import Place

__all__ = ["Held", "Look", "Onlookers", "rows_of"]

_PAUSE_S = 0.05


@dataclass(frozen=True, slots=True)
class Look:
    """What a reader saw once.

    Attributes:
        began_ms: When it began, in milliseconds since the epoch.
        ended_ms: When it ended.
        rows: What a reader of manifests or of an older list read; None if files were gone.
        names: What one listed.
        held: Which older list it was.
    """

    began_ms: float
    ended_ms: float
    rows: Rows | None = None
    names: frozenset[str] = frozenset()
    held: int = -1


@dataclass(slots=True)
class Held:
    """A list of files that a reader has held since they were the newest.

    Attributes:
        dataset: That list.
        names: Its files.
        rows: What they hold.
    """

    dataset: Any
    names: frozenset[str]
    rows: Rows


@dataclass
class Onlookers:
    """Read again and again, as a context manager, in a thread of their own each.

    Attributes:
        place: Where.
        held: Older lists.
        current: What readers of manifests saw.
        listed: What those saw who list.
        older: What those saw who hold an older list.
        errors: What else happened to them.
    """

    place: Place
    held: tuple[Held, ...]
    current: list[Look] = field(default_factory=list)
    listed: list[Look] = field(default_factory=list)
    older: list[Look] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._over = threading.Event()
        work = (self._read_current, self._list, self._read_older)
        self._threads = [threading.Thread(target=self._again, args=(one,), daemon=True) for one in work]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _again(self, work: Any) -> None:
        while not self._over.is_set():
            try:
                work()
            except Exception as error:  # noqa: BLE001 - told by the judge
                self.errors.append(f"{work.__name__.strip('_')}: {error!r}")
            self._over.wait(_PAUSE_S)

    def _read_current(self) -> None:
        began = _now_ms()
        try:
            rows = rows_of(self.place)
        except FileNotFoundError:
            rows = None
        self.current.append(Look(began, _now_ms(), rows))

    def _list(self) -> None:
        began = _now_ms()
        names = frozenset(self.place.names())
        self.listed.append(Look(began, _now_ms(), names=names))

    def _read_older(self) -> None:
        for number, one in enumerate(self.held):
            began = _now_ms()
            try:
                rows = table_rows(one.dataset)
            except FileNotFoundError:
                rows = None
            self.older.append(Look(began, _now_ms(), rows, held=number))


def rows_of(place: Place, **how: Any) -> Rows:
    """What a reader of manifests reads, by day and text; raises as ``magicfs.Dataset``."""
    return table_rows(dataset_of(place, **how))


def dataset_of(place: Place, **how: Any) -> Any:
    """The dataset, as magicfs finds its files."""
    options: Mapping[str, Any] = place.options
    return magicfs.Dataset(place.url, storage_options=options).to_arrow(schema=SCHEMA, **how)


def table_rows(dataset: Any) -> Rows:
    """All rows of a dataset."""
    table = dataset.to_table(columns=["day", "row"])
    return Counter(zip(*(table.column(name).to_pylist() for name in ("day", "row")), strict=True))


def _now_ms() -> float:
    return time.time() * 1000
