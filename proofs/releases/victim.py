"""A process that releases, publishes or expires again and again until it is killed.

What it was doing stands in a file, so that the next one of its role does the same run again, as a scheduler
would.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import magicfs
from magicfs.errors import CommitDenied, CommitUnfinished, MagicError, ObjectNotFound, Unavailable

__all__ = ["DATASETS", "RELEASE", "names_of"]

DATASETS: Final = ("customers", "products", "sales", "stock")
RELEASE: Final = "releases/marts"
_KEEP: Final = "3s"
_EXPECTED: Final = (CommitDenied, ObjectNotFound, CommitUnfinished, Unavailable)


def names_of(run_id: str) -> list[str]:
    """The datasets that a run of a driver releases."""
    return run_id.partition(" ")[2].split(",")


@dataclass
class Victim:
    """One process.

    Attributes:
        base: The URL below which everything lies.
        options: Storage options.
        state: Where it notes what it is doing.
        role: Its name.
        draw: Draws what it does.
    """

    base: str
    options: Mapping[str, Any]
    state: Path
    role: str
    draw: random.Random = field(default_factory=random.Random)

    def release(self) -> None:
        """One run: two to four datasets together."""
        chosen = sorted(self.draw.sample(DATASETS, self.draw.randint(2, len(DATASETS))))
        run = self._run(",".join(chosen))
        with magicfs.Release(self._url(RELEASE), run_id=run, storage_options=self.options) as release:
            for name in names_of(run):
                job = release.job(
                    self._url(name),
                    mode="overwrite",
                    run_id=run,
                    keep=_KEEP,
                    options={"keep_in_place": True},
                )
                self._write(job, run)

    def publish(self) -> None:
        """One dataset by itself; what it replaces is deleted at once."""
        name = self.draw.choice(DATASETS)
        run = self._run(name)
        how: dict[str, Any] = {"storage_options": self.options}
        self._write(magicfs.Job(self._url(names_of(run)[0]), mode="overwrite", run_id=run, **how), run)
        time.sleep(self.draw.uniform(0, 3))

    def expire(self) -> None:
        """Give up all releases but some of the newest, expire the datasets, and at times roll back."""
        release = magicfs.Release(self._url(RELEASE), storage_options=self.options)
        found = release.history()
        if found and self.draw.random() < 0.1:
            release.rollback(self.draw.choice(found).id)
        release.expire(timedelta(milliseconds=1), last=self.draw.randint(1, 6))
        for name in DATASETS:
            dataset = magicfs.Dataset(self._url(name), storage_options=self.options)
            dataset.recover()
            dataset.expire()
        time.sleep(0.5)

    def warm(self) -> None:
        """Load what a run needs, so that it is met in its work."""
        with tempfile.TemporaryDirectory() as directory:
            self._write(magicfs.Job(f"file://{directory}/x", mode="overwrite"), "x")
            magicfs.Release(f"file://{directory}/y").add(f"file://{directory}/x")

    def loop(self, *, once: bool) -> None:
        """Go on until somebody kills this process; ``once``: only what was begun before."""
        works: Mapping[str, Callable[[], None]] = {
            "driver": self.release,
            "solo": self.publish,
            "expirer": self.expire,
        }
        work = works[self.role.partition("-")[0]]
        for _ in range(20) if once else iter(int, 1):
            if once and not self.state.exists():
                break
            try:
                work()
            except _EXPECTED as error:
                self._say(f"refused {type(error).__name__} {error}")
                if isinstance(error, CommitUnfinished | Unavailable):
                    continue  # the same run again
                time.sleep(self.draw.uniform(0, 0.5))
            except MagicError as error:
                self._say(f"trouble {type(error).__name__} {error}")
                time.sleep(0.2)
            else:
                self._say("done")
            self.state.unlink(missing_ok=True)

    def _write(self, job: magicfs.Job, run: str) -> None:
        with job:
            if job.found.published is None:
                for number in range(2):
                    with job.task(number) as task:
                        task.filesystem.pipe_file(f"{task.path}/part.txt", run.encode())

    def _run(self, chosen: str) -> str:
        """The run that a process before this one has begun, or a new one."""
        if self.state.exists():
            return self.state.read_text()
        run = f"{self.role}-{time.time_ns()} {chosen}"
        written = self.state.with_suffix(".new")
        written.write_text(run)
        written.replace(self.state)
        return run

    def _url(self, name: str) -> str:
        return f"{self.base}/{name}"

    def _say(self, text: str) -> None:
        sys.stdout.write(text.replace("\n", " ") + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    logging.getLogger("magicfs").setLevel(logging.ERROR)
    one = Victim(order["base"], order["options"], Path(order["state"]), order["role"])
    one.draw.seed(order["seed"])
    one.warm()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    one.loop(once=order["once"])
