"""``python -m proofs.releases``: release, kill, expire, read; the last line is one JSON object."""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

import magicfs
from proofs.past.places import PLACES, Place, Way, place_of
from proofs.releases.readers import Readers
from proofs.releases.victim import DATASETS, RELEASE

__all__ = ["main"]

_ROLES: Final = ("driver-a", "driver-b", "solo", "expirer")
_QUICK: Final = 12
_READERS: Final = 2
_LIVES_S: Final = 12.0
_LONGER: Final = 1.3
_WRONG: Final = ("torn", "lost_files", "left_behind", "troubles")

_EPILOG: Final = """
Figures of the last line: releases is the number of the newest one; kills are processes that SIGKILL met; torn
counts readers that saw two releases at once, or what none has shown; lost_files counts files of kept releases
that were gone; left_behind counts files that nobody shows or keeps in the end; these and troubles must be 0.
compared is how many of the reads knew what the release must show; refused counts drivers that lost against
another one, and released again.
"""


@dataclass
class _Crew:
    """The processes of one run."""

    base: str
    way: Way
    directory: Path
    draw: random.Random
    stop: threading.Event = field(default_factory=threading.Event)
    figures: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)  # of runs, by role

    def live(self, role: str) -> None:
        """Start a process of a role, kill it after a while, and so on until all is over.

        After a life in which no run ended the next ones may last longer: a store, or a machine with other
        work, may need more for one run than the longest life.
        """
        longest = _LIVES_S
        while not self.stop.is_set():
            ended = self.ends[role]
            with self._started(role) as process:
                assert process.stdout is not None
                first = process.stdout.readline()
                listener = threading.Thread(target=self._listen, args=(role, process))
                listener.start()
                self.stop.wait(self.draw.uniform(0, longest))
                process.kill()
                process.wait()
                listener.join()
            self.figures["kills"] += 1
            longest = longest * _LONGER if self.ends[role] == ended else max(_LIVES_S, longest / _LONGER)
            if not first:
                self.said.append(f"{role} did not start")
                self.figures["troubles"] += 1

    def finish(self, role: str) -> None:
        """End what the last process of a role has begun."""
        with self._started(role, once=True) as process:
            self._listen(role, process)

    def _started(self, role: str, *, once: bool = False) -> subprocess.Popen[str]:
        order = {
            "base": self.base,
            "options": dict(self.way.options),
            "state": str(self.directory / role),
            "role": role,
            "seed": self.draw.random(),
            "once": once,
        }
        return subprocess.Popen(  # noqa: S603 - this module's own
            [sys.executable, "-m", "proofs.releases.victim", json.dumps(order)],
            stdout=subprocess.PIPE,
            stderr=(self.directory / f"{role}.log").open("a"),
            text=True,
            env={**os.environ, **self.way.environment},
        )

    def _listen(self, role: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            what, _, text = line.strip().partition(" ")
            if what == "trouble":
                self.figures["troubles"] += 1
                self.said.append(f"{role}: {text}")
            elif what in {"refused", "done"}:
                self.ends[role] += 1
                self.figures[f"{what}_{role.partition('-')[0]}"] += 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run it and print the figures; 0 if nothing was wrong.

    Args:
        argv: The arguments after the program's name; by default those of the process.
    """
    arguments = _parser().parse_args(argv)
    logging.getLogger("magicfs").setLevel(logging.ERROR)
    started = time.monotonic()
    wanted = arguments.releases or (_QUICK if arguments.quick else 200)
    _say(f"seed {arguments.seed}")
    with (
        tempfile.TemporaryDirectory(prefix="magicfs-releases-") as directory,
        place_of(arguments.store, versioned=False) as place,
        place.way() as way,
    ):
        draw = random.Random(arguments.seed)  # noqa: S311 - to be repeatable
        crew = _Crew(place.url, way, Path(directory), draw)
        readers = Readers(place.url, place.options)
        _run(crew, readers, wanted, arguments.minutes * 60)
        releases = readers.history()
        for one in releases:
            readers.check(one)
        _end(place, readers)
    figures = readers.figures + crew.figures
    for text in (*readers.said, *crew.said):
        _say(text)
    newest = releases[0].number if releases else 0
    ok = newest >= wanted and not any(figures[name] for name in _WRONG)
    document = {
        "store": arguments.store,
        "releases": newest,
        **{name: figures[name] for name in ("kills", *_WRONG)},
        **{name: count for name, count in sorted(figures.items()) if name not in (*_WRONG, "kills")},
        "seed": arguments.seed,
        "seconds": round(time.monotonic() - started, 1),
        "ok": ok,
    }
    print(json.dumps(document, separators=(",", ":")))  # noqa: T201
    return 0 if ok else 1


def _run(crew: _Crew, readers: Readers, wanted: int, seconds: float) -> None:
    """Let all live until there are enough releases."""
    until = time.monotonic() + seconds
    with ThreadPoolExecutor(len(_ROLES) + _READERS) as pool:
        lives = [pool.submit(crew.live, role) for role in _ROLES]
        lives += [pool.submit(readers.loop, crew.stop, number) for number in range(_READERS)]
        told = 0
        while time.monotonic() < until:
            time.sleep(1)
            newest = next(iter(readers.history()), None)
            number = newest.number if newest is not None else 0
            if number >= told + 10:
                told = number
                _say(f"{number} releases, {crew.figures['kills']} kills, {len(readers.said)} wrong")
            if number >= wanted:
                break
        crew.stop.set()
    for life in lives:
        life.result()
    for role in _ROLES:
        crew.finish(role)


def _end(place: Place, readers: Readers) -> None:
    """Give up all releases but the newest, expire, and look whether anything is left that nobody keeps."""
    release = magicfs.Release(f"{place.url}/{RELEASE}", storage_options=place.options)
    datasets = [magicfs.Dataset(f"{place.url}/{name}", storage_options=place.options) for name in DATASETS]
    time.sleep(5)  # the last job keeps what it has replaced for three seconds, by the store's clock
    for one in datasets:
        one.recover()
    _forget_young_holds()
    release.expire(timedelta(milliseconds=1))
    newest = release.history()[0]
    expected: set[str] = set()
    for name, one in zip(DATASETS, datasets, strict=True):
        if not one.history(limit=1):
            continue
        one.expire()
        shown = [*one.files(), *(newest.dataset(name).files() if name in newest.jobs else [])]
        expected |= {f"{name}/{file.key}" for file in shown}
    there = {name for name in place.names() if name.partition("/")[0] in DATASETS}
    for name in there - expected:
        readers.wrong("left_behind", name)
    for name in expected - there:
        readers.wrong("lost_files", name)
    readers.check(newest)


def _forget_young_holds() -> None:
    """No driver is at work any more."""
    from magicfs.releases import publish

    vars(publish)["_AT_WORK_MS"] = -1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m proofs.releases",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--releases", type=int, help="how many; by default 200")
    parser.add_argument("--store", choices=PLACES, default="s3", help="by default %(default)s")
    parser.add_argument("--minutes", type=float, default=60, help="at most; by default %(default)s")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="of all that is drawn")
    parser.add_argument("--quick", action="store_true", help=f"{_QUICK} releases")
    return parser


def _say(text: str) -> None:
    sys.stderr.write(f"releases: {text}\n")
    sys.stderr.flush()
