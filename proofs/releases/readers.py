"""Readers of a release, who know what each must show."""

from __future__ import annotations

import random
import threading
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import magicfs
from magicfs.stores import resolve
from magicfs.tables.release import PublishedRelease, Releases
from proofs.releases.victim import DATASETS, RELEASE, names_of

__all__ = ["Readers"]

_SAID_MAX: Final = 20


@dataclass
class Readers:
    """Read until they are stopped, and note what is wrong.

    Attributes:
        base: The URL below which everything lies.
        options: Storage options.
        figures: What was counted.
        said: What was wrong, in words.
    """

    base: str
    options: Mapping[str, Any]
    figures: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)
    _shown: dict[str, dict[str, str]] = field(default_factory=dict)  # runs of datasets by release
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wrong(self, what: str, text: str) -> None:
        """Note that something is wrong."""
        self.figures[what] += 1
        if len(self.said) < _SAID_MAX:
            self.said.append(f"{what}: {text}")

    def history(self) -> Releases:
        """All releases that are kept."""
        return magicfs.Release(f"{self.base}/{RELEASE}", storage_options=self.options).history()

    def loop(self, stop: threading.Event, seed: int) -> None:
        """One reader."""
        draw = random.Random(seed)  # noqa: S311 - to be repeatable
        while not stop.is_set():
            try:
                self._look(draw)
            except Exception:  # noqa: BLE001 - told, and the run goes on to its figures
                self.wrong("troubles", traceback.format_exc())
            time.sleep(0.1)

    def _look(self, draw: random.Random) -> None:
        found = self.history()
        if not found:
            return
        self._note(found)
        if draw.random() < 0.3:
            self._read_by_url(draw.choice(DATASETS))
            return
        self.check(found[0] if draw.random() < 0.7 else draw.choice(found))

    def check(self, one: PublishedRelease) -> None:
        """Read all datasets of a release, and compare with what it must show."""
        expected = self._expected(one)
        for name in one.jobs:
            try:
                seen = self._runs(one.dataset(name))
            except FileNotFoundError as error:
                if self._is_kept(one):
                    self.wrong("lost_files", f"{name} of release {one.number}: {error}")
                else:
                    self.figures["expired_meanwhile"] += 1
                return
            if expected is not None and seen != {expected[name]}:
                self.wrong("torn", f"{name} of release {one.number} shows {seen}, not {expected[name]}")
        self.figures["reads"] += 1
        self.figures["compared"] += expected is not None

    def _read_by_url(self, name: str) -> None:
        """A reader who names a dataset by its URL, and the release."""
        url = f"{self.base}/{name}"
        before = self.history()
        self._note(before)
        try:
            seen = self._runs(
                magicfs.Dataset(url, storage_options=self.options, release=f"{self.base}/{RELEASE}")
            )
        except magicfs.errors.UsageError:
            if name in before[0].jobs:
                raise
            return
        except FileNotFoundError as error:
            if self._is_kept(before[0]) and self.history()[0].id == before[0].id:
                self.wrong("lost_files", f"{name} by its URL: {error}")
            return
        after = self.history()
        self._note(after)
        between = [one for one in after if one.number >= before[0].number]
        with self._lock:
            may = {self._shown[one.id].get(name) for one in between if one.id in self._shown}
        if len(may) == after[0].number - before[0].number + 1 and not seen <= may:
            self.wrong("torn", f"{name} by its URL shows {seen}, not one of {may}")
        if len(seen) > 1:
            self.wrong("torn", f"{name} by its URL shows files of {seen}")
        self.figures["reads_by_url"] += 1

    def _note(self, found: Releases) -> None:
        """Learn what releases must show: their own run, and for other datasets what the one before shows."""
        with self._lock:
            for one in reversed(found):
                if one.id in self._shown:
                    continue
                before = next((each for each in found if each.number == one.number - 1), None)
                shown = self._shown.get(before.id) if before is not None else {} if one.number == 1 else None
                released = one.released
                if released.restores is not None:
                    shown = self._shown.get(released.restores)
                    if shown is not None:
                        self._shown[one.id] = dict(shown)
                    continue
                if shown is None or released.run_id is None:
                    continue
                changed = dict.fromkeys(names_of(released.run_id), released.run_id)
                self._shown[one.id] = {**shown, **changed}
                if set(one.jobs) != set(self._shown[one.id]):
                    self.wrong("torn", f"release {one.number} has {set(one.jobs)}")

    def _expected(self, one: PublishedRelease) -> dict[str, str] | None:
        with self._lock:
            return self._shown.get(one.id)

    def _is_kept(self, one: PublishedRelease) -> bool:
        return any(each.id == one.id for each in self.history())

    def _runs(self, dataset: magicfs.Dataset) -> set[str]:
        """Which runs have written the files of a dataset."""
        files = dataset.files()
        if len(files) != 2:
            self.wrong("torn", f"{dataset.url} has {len(files)} files")
        scheme = resolve.location_of(dataset.url).scheme
        filesystem = resolve.filesystem(scheme, dict(self.options))
        return {filesystem.cat_file(one.url).decode() for one in files}
