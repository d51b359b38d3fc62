"""Writers that publish to two datasets, two loops of maintenance, a reader, and who judges them."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import magicfs
from proofs.kill.crew import Command, Program
from proofs.past import victim
from proofs.past.content import SCHEMA
from proofs.past.places import Place, Way

__all__ = ["WRONG", "Campaign"]

WRONG: Final = (
    *("lost_rows", "torn_jobs", "foreign_rows", "living_aborted"),
    *("left_jobs", "left_uploads", "left_files", "left_manifests", "troubles"),
)
"""Figures that must be 0."""

_ABORT_S: Final = 60
_POLICY: Final = f"""
[recover]
finish_after = "5s"
abort_after = "{_ABORT_S}s"
[sweep]
older_than = "{_ABORT_S}s"
unrecorded_after = "{_ABORT_S}s"
[rewrite]
target = "1M"
keep = "20s"
[expire]
keep = {{within = "1s", last = 2}}
[compact]
above = 5
[catalogs]
"""
_LAST: Final = _POLICY.replace('keep = {within = "1s", last = 2}', "").replace(
    '[rewrite]\ntarget = "1M"\nkeep = "20s"\n', ""
)
"""Without a rule, and without jobs that keep what they replace."""
_REPLACERS: Final = 5
"""One in so many writers replaces its own partition of the second dataset; the others append to the first."""
_KEEP: Final = "20s"
_KILLED: Final = {"writer": 0.3, "maintain": 0.6}
_MAINTAINERS: Final = 2
_EXIT_S: Final = 300.0
_READ_EVERY_S: Final = 5.0
_SAID_MAX: Final = 20
_FINE: Final = (0, 1)
_FIRST_S: Final = 20.0
"""How long a process is taken to need before one has ended."""
_LOST: Final = 255
"""What multiprocessing says where it could not read how a process ended."""


@dataclass
class Ledger:
    """What writers have done. A row is ``<order>:<number>``.

    Attributes:
        rows: How many rows each order has.
        day: Into which partition each order of the second dataset went.
        published: The orders that said so, in that order.
        denied: The orders that were denied.
        killed: The orders whose process was killed.
    """

    rows: dict[str, int] = field(default_factory=dict)
    day: dict[str, str] = field(default_factory=dict)
    published: dict[str, None] = field(default_factory=dict)
    denied: set[str] = field(default_factory=set)
    killed: set[str] = field(default_factory=set)


class Campaign:
    """Everything at one place.

    Args:
        place: Empty.
        directory: For logs and policies.
        seed: Of all that is drawn.
        writers: How many write at once.
        say: Told what is going on, in lines.
    """

    def __init__(
        self, place: Place, directory: Path, seed: int, writers: int, *, say: Callable[[str], None]
    ) -> None:
        self._place, self._directory, self._say = place, directory, say
        self._seed, self._writers = seed, writers
        self._ledger, self._lock = Ledger(), threading.Lock()
        self._figures: Counter[str] = Counter()
        self._statuses: Counter[str] = Counter()
        self._usual: dict[str, deque[float]] = {}
        self._over = threading.Event()
        self._numbers = itertools.count()

    def run(self, seconds: float) -> None:
        """Let all of them work for so long; then maintain until nothing is due, and judge."""
        for name, text in (("policy", _POLICY), ("last", _LAST)):
            (self._directory / f"{name}.toml").write_text(text)
        way = self._place.direct()
        with ThreadPoolExecutor(self._writers + _MAINTAINERS) as pool:
            self._maintained(way, "nothing.toml")  # what all processes need is loaded
            writers = [pool.submit(self._guarded, self._write, one, way) for one in range(self._writers)]
            keepers = [pool.submit(self._guarded, self._maintain, one, way) for one in range(_MAINTAINERS)]
            deadline = time.monotonic() + seconds
            while (left := deadline - time.monotonic()) > 0:
                time.sleep(min(_READ_EVERY_S, left))
                self._read()
            self._over.set()
            for one in (*writers, *keepers):
                one.result()
        self._say(f"{len(self._ledger.published)} publications; waiting until the last dead job is due")
        time.sleep(_ABORT_S + 5)
        for _ in range(2):
            self._note(self._maintained(way, "last.toml"))
            time.sleep(2)
        self._judge()

    def to_dict(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        wrong = {name: self._figures[name] for name in WRONG}
        others = {name: count for name, count in sorted(self._figures.items()) if name not in WRONG}
        ledger = self._ledger
        counted = {"published": len(ledger.published), "denied": len(ledger.denied)}
        rows = sum(ledger.rows[order] for order in ledger.published)
        return {**wrong, **counted, "rows": rows, **others, "maintain": dict(sorted(self._statuses.items()))}

    def wrong(self, name: str, text: str, count: int = 1) -> None:
        """Note what is wrong."""
        with self._lock:
            self._figures[name] += count
            if self._figures[name] <= _SAID_MAX:
                self._say(f"{name}: {text}")

    def _guarded(self, work: Callable[[int, Way], None], number: int, way: Way) -> None:
        try:
            work(number, way)
        except Exception:  # noqa: BLE001 - told, and it counts
            self.wrong("troubles", traceback.format_exc())

    # -- writers -------------------------------------------------------------------------------------------

    def _write(self, number: int, way: Way) -> None:
        draw = random.Random(self._seed * 1000 + number)  # noqa: S311 - to be repeatable
        replaces = number % _REPLACERS == 0
        log = self._directory / f"writer-{number}.log"
        while not self._over.is_set():
            order, rows = f"o{next(self._numbers)}", draw.randint(1, 40)
            day = f"w{number}" if replaces else f"d{draw.randint(0, 2)}"
            names = [f"{order}:{one}" for one in range(rows)]
            half = rows // 2
            parts = {day: tuple(names)} if replaces else {"a": tuple(names[:half]), day: tuple(names[half:])}
            with self._lock:
                self._ledger.rows[order] = rows
                if replaces:
                    self._ledger.day[order] = day
            asked = victim.Order(
                f"{self._place.url}/{'state' if replaces else 'events'}",
                way.options,
                run_id=order,
                mode="overwrite_partitions" if replaces else "append",
                keep=_KEEP if replaces else None,
                rows={one: found for one, found in parts.items() if found},
            )
            program = Program(victim.publish, (asked, dict(way.environment), str(log)), order)
            self._ended(order, log, self._status(program, "writer", draw), replaces=replaces)

    def _status(self, program: Program, kind: str, draw: random.Random) -> int | None:
        """How a process ended; None if it was killed, at a time up to what such a process usually takes."""
        usual = self._usual.setdefault(kind, deque([_FIRST_S], maxlen=20))
        if draw.random() < _KILLED[kind] and not self._over.is_set():
            if program.kill_at(draw.random() * sum(usual) / len(usual)):
                self._count(f"{kind}_kills")
                return None
            return self._known(program.exit_status(1))
        started = time.monotonic()
        status = self._known(program.exit_status(_EXIT_S))
        usual.append(time.monotonic() - started)
        return status

    def _known(self, status: int) -> int | None:
        """A status; None where the server of forks has lost it."""
        if status != _LOST:
            return status
        self._count("ends_not_known")
        return None

    def _ended(self, order: str, log: Path, status: int | None, *, replaces: bool) -> None:
        with self._lock:
            if status == 0:
                self._ledger.published[order] = None
            elif status is None:
                self._ledger.killed.add(order)
            else:
                self._ledger.denied.add(order)
        if status not in (0, None) and not (replaces and status == victim.DENIED):
            self.wrong("living_aborted", f"{order} ended with {status}: {log.read_text()[-2000:]}")

    # -- maintenance ---------------------------------------------------------------------------------------

    def _maintain(self, number: int, way: Way) -> None:
        draw = random.Random(self._seed * 1000 + 900 + number)  # noqa: S311 - to be repeatable
        while not self._over.is_set():
            if self._ledger.published:
                self._note(self._maintained(way, "policy.toml", draw))
            time.sleep(draw.random() * 2)

    def _maintained(self, way: Way, policy: str, draw: random.Random | None = None) -> int | None:
        options = ("--storage-options", json.dumps(way.options)) if way.options else ()
        words = ["maintain", self._place.url, "--policy", str(self._directory / policy), "--json", *options]
        log = self._directory / f"maintain-{threading.get_ident()}.log"
        log.unlink(missing_ok=True)
        program = Command(words, way.environment, log)
        status = program.exit_status(_EXIT_S) if draw is None else self._status(program, "maintain", draw)
        if status not in (*_FINE, None) and policy != "nothing.toml":
            self.wrong("troubles", f"maintain ended with {status}: {log.read_text()[-3000:]}")
        return status

    def _note(self, status: int | None) -> None:
        with self._lock:
            self._statuses["killed" if status is None else str(status)] += 1

    # -- judging -------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read both datasets while all are at work: what was published before is there."""
        before = list(self._ledger.published)
        try:
            self._check(before, self._rows("events"), self._rows("state"), ended=False)
        except (FileNotFoundError, OSError) as error:  # nothing is published yet, or a list grew too old
            self._count(f"reads_{type(error).__name__}")
        else:
            self._count("reads")

    def _rows(self, name: str) -> list[tuple[str, str]]:
        dataset = magicfs.Dataset(f"{self._place.url}/{name}", storage_options=self._place.options)
        table = dataset.to_arrow(schema=SCHEMA).to_table()
        assert isinstance(table, pa.Table)
        return list(zip(table["day"].to_pylist(), table["row"].to_pylist(), strict=True))

    def _check(
        self,
        published: Sequence[str],
        events: Sequence[tuple[str, str]],
        state: Sequence[tuple[str, str]],
        *,
        ended: bool,
    ) -> None:
        ledger, counts = self._ledger, Counter(row.partition(":")[0] for _, row in events)
        for order in published:
            if order not in ledger.day and counts[order] != ledger.rows[order]:
                lost = ledger.rows[order] - counts[order]
                self.wrong(
                    "lost_rows", f"{order} has {counts[order]} of {ledger.rows[order]} rows", abs(lost)
                )
        for order, count in counts.items():
            if order not in ledger.rows or order in ledger.denied:
                self.wrong("foreign_rows", order, count)
            elif count != ledger.rows[order] or len({row for _, row in events}) != len(events):
                self.wrong("torn_jobs", f"{order} has {count} of {ledger.rows[order]} rows")
        self._check_state(published, state)
        if ended:
            self._figures["rows_read"] = len(events) + len(state)

    def _check_state(self, published: Sequence[str], state: Sequence[tuple[str, str]]) -> None:
        """Each partition holds all rows of one order, which none that was published later replaced."""
        ledger, place = self._ledger, {order: number for number, order in enumerate(self._ledger.rows)}
        newest = {ledger.day[order]: order for order in published if order in ledger.day}
        found: dict[str, Counter[str]] = {}
        for day, row in state:
            found.setdefault(day, Counter())[row.partition(":")[0]] += 1
        for day, order in newest.items():
            there = found.get(day, Counter())
            if len(there) != 1:
                self.wrong("torn_jobs", f"partition {day} holds {dict(there)}")
            for one, count in there.items():
                if place[one] < place[order] or one in ledger.denied:
                    self.wrong("lost_rows", f"partition {day} holds {one}, and {order} came later", count)
                elif count != ledger.rows[one]:
                    self.wrong("torn_jobs", f"{one} has {count} of {ledger.rows[one]} rows")

    def _judge(self) -> None:
        self._check(list(self._ledger.published), self._rows("events"), self._rows("state"), ended=True)
        names = self._place.all_names()
        for name in names:
            if "__magic" in name:
                self.wrong("left_jobs", name)
        for key in self._place.uploads():
            self.wrong("left_uploads", key)
        for dataset in ("events", "state"):
            self._judge_files(dataset, {name for name in names if name.startswith(f"{dataset}/")})
        # A job that was killed is published, or nothing of it is.
        self._figures["killed_and_published"] = sum(
            run.run_id in self._ledger.killed
            for dataset in ("events", "state")
            for run in self._dataset(dataset).history()
        )

    def _judge_files(self, name: str, names: set[str]) -> None:
        dataset = self._dataset(name)
        shown = {file.key for file in dataset.files()}
        for one in sorted(names):
            relative = one.removeprefix(f"{name}/")
            if relative.endswith(".parquet") and relative not in shown:
                self.wrong("left_files", one)
        if not dataset.verify().ok:
            self.wrong("lost_rows", f"{name}: {dataset.verify()}")
        if (above := dataset.compact(dry_run=True).manifests) > 5:
            self.wrong("left_manifests", f"{name}: {above}", above)

    def _dataset(self, name: str) -> magicfs.Dataset:
        return magicfs.Dataset(f"{self._place.url}/{name}", storage_options=self._place.options)

    def _count(self, name: str) -> None:
        with self._lock:
            self._figures[name] += 1
