"""The cases of the family exam: one publication each, judged from the bucket alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import magicfs
from proofs.doubles.servers import Server
from proofs.engines.drivers import DRIVERS
from proofs.engines.order import DAYS, Order, Trouble
from proofs.engines.watching import StallingProxy

__all__ = ["CASES", "Figures", "Ground", "Wrong"]

PARTS: Final = 6
ROWS: Final = 1000
OLD_ROWS: Final = 50
_DRIVER_S: Final = 240.0
_QUIET_S: Final = 6.0
"""Longer than a part is let wait."""
_KEPT = "the old dataset"
_NEW = "the new dataset"


class Wrong(AssertionError):
    """An engine did not do what the exam asks for."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a reader finds after a case, and what was done to it."""

    rows: int  # that are readable
    kills: int
    old_files_left: int
    new_files_shown: int
    uploads_left: int
    work_left: int  # objects below __magic


@dataclass(slots=True)
class Ground:
    """A server, and an engine's cluster on it."""

    engine: str
    server: Server
    proxy: StallingProxy
    bucket: str
    directory: Path
    cluster: str
    number: int = 0
    drivers: list[subprocess.Popen[str]] = field(default_factory=list)

    def order(self, trouble: Trouble = "none") -> Order:
        """An order for a new destination with old data."""
        self.number += 1
        name = f"{self.engine} {self.number}"
        order = Order(
            engine=self.engine,
            url=f"s3://{self.bucket}/{name} +%#",
            mode="overwrite",
            run_id=f"{name} 2026-11-25",
            parts=PARTS,
            rows=ROWS,
            trouble=trouble,
            mark=str(self.directory / name),
            cluster=self.cluster,
        )
        old = pa.table(
            {
                "row": range(-OLD_ROWS, 0),
                "day": [DAYS[n % len(DAYS)] for n in range(OLD_ROWS)],
                "body": [str(n) for n in range(OLD_ROWS)],
            }
        )
        with (
            magicfs.Job(order.url, storage_options=self.server.storage_options()) as job,
            job.task(0) as task,
        ):
            for day in DAYS:
                mine = old.filter(pa.array([day == one for one in old["day"].to_pylist()]))
                with task.filesystem.open(f"{task.path}/day=old-{DAYS.index(day)}/old.parquet", "wb") as file:
                    pq.write_table(mine.drop_columns(["day"]), file)
        return order

    def start(self, order: Order) -> subprocess.Popen[str]:
        """A driver's process, the leader of a group."""
        driver = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "proofs.engines.run_driver", json.dumps(asdict(order))],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.drivers.append(driver)
        return driver

    def end(self) -> None:
        """Kill what is left of the drivers of a case."""
        for driver in self.drivers:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.communicate()
        self.drivers.clear()

    def result(self, driver: subprocess.Popen[str]) -> Mapping[str, Any]:
        """Wait for a driver; returns what it says."""
        said, _ = driver.communicate(timeout=_DRIVER_S)
        self.drivers.remove(driver)
        lines = [line for line in said.splitlines() if line.startswith('{"published"')]
        if not lines:
            raise Wrong(f"the driver ended with status {driver.returncode} and said nothing: {said[-500:]}")
        told: Mapping[str, Any] = json.loads(lines[-1])
        sys.stderr.write(f"engines: {self.engine}: {lines[-1][:600]}\n")
        return told

    def look(self, order: Order, kills: int = 0) -> tuple[Figures, list[int]]:
        """What a reader finds now, by plain boto3: figures, and the rows in order."""
        prefix = order.url.removeprefix(f"s3://{self.bucket}/") + "/"
        keys = self.server.visible_keys(self.bucket, prefix)
        rows: list[int] = []
        for key in keys:
            body = self.server.read(self.bucket, key)
            assert body is not None
            rows += pq.read_table(BytesIO(body), columns=["row"])["row"].to_pylist()
        old = [key for key in keys if "/day=old-" in key]
        work = [key for key in self.server.all_keys(self.bucket, prefix) if "/__magic" in key]
        uploads = self.server.pending_uploads(self.bucket, prefix)
        figures = Figures(len(rows), kills, len(old), len(keys) - len(old), len(uploads), len(work))
        return figures, sorted(rows)

    def judge(self, order: Order, wanted: str, kills: int = 0) -> Figures:
        """Look, and raise Wrong unless a reader finds exactly what is wanted and nothing else is left."""
        figures, rows = self.look(order, kills)
        is_old = wanted == _KEPT
        right = list(range(-OLD_ROWS, 0)) if is_old else list(range(order.parts * order.rows))
        files = (len(DAYS), 0) if is_old else (0, figures.new_files_shown)
        shown = (figures.old_files_left, figures.new_files_shown)
        if rows != right or shown != files or figures.uploads_left or figures.work_left:
            raise Wrong(f"{wanted} is wanted, and there is {figures}")
        if not is_old and not figures.new_files_shown:
            raise Wrong("no file is there")
        return figures

    def judge_added(self, order: Order, what: str) -> Figures:
        """Look, and raise Wrong unless a reader finds old rows and new ones, and nothing else is left."""
        figures, rows = self.look(order)
        left = (figures.old_files_left, figures.uploads_left, figures.work_left)
        if rows != list(range(-OLD_ROWS, order.parts * order.rows)) or left != (len(DAYS), 0, 0):
            raise Wrong(f"{what} has left {figures}")
        return figures

    def bury(self, driver: subprocess.Popen[str]) -> None:
        """Wait until what a dead driver has left behind has come to its end, then kill its own workers."""
        driver.wait(_DRIVER_S)
        self.wait_until_quiet()
        self.end()

    def wait_until_quiet(self) -> None:
        """Wait until no request has come for a while."""
        before, since = -1, time.monotonic()
        while time.monotonic() - since < _QUIET_S:
            arrived = self.proxy.counts.total()
            if arrived != before:
                before, since = arrived, time.monotonic()
            time.sleep(0.1)


def whole(ground: Ground) -> Figures:
    """All goes well; and then the same run again, which publishes nothing more."""
    order = ground.order()
    told = ground.result(ground.start(order))
    if not told["published"]:
        raise Wrong(told["error"])
    figures = ground.judge(order, _NEW)
    if told["files"] != figures.new_files_shown:
        raise Wrong(f"{told['files']} files are reported and {figures.new_files_shown} are there")
    again = ground.result(ground.start(order))
    if not (again["published"] and again["before"]):
        raise Wrong(f"a second run says {again}")
    if (second := ground.judge(order, _NEW)) != figures:
        raise Wrong(f"a second run leaves {second}")
    return figures


def documented(ground: Ground) -> Figures:
    """What the page about the engine shows: it overwrites the partitions that it writes to."""
    order = replace(ground.order(), documented=True)
    told = ground.result(ground.start(order))
    if not told["published"]:
        raise Wrong(told["error"])
    return ground.judge_added(order, "the page's example")


def modes(ground: Ground) -> Figures:
    """``error`` changes nothing, and ``append`` leaves the old files where they are."""
    order = ground.order()
    told = ground.result(ground.start(replace(order, mode="error")))
    if told["published"]:
        raise Wrong("fail has published")
    ground.judge(order, _KEPT)
    told = ground.result(ground.start(replace(order, mode="append")))
    if not told["published"]:
        raise Wrong(told["error"])
    return ground.judge_added(order, "append")


def partitions(ground: Ground) -> Figures:
    """Two runs replace the partitions that they write to: the first adds them, the second replaces them."""
    order = replace(ground.order(), mode="overwrite_partitions")
    for run in ("first", "second"):
        told = ground.result(ground.start(replace(order, run_id=f"{order.run_id} {run}")))
        if not told["published"]:
            raise Wrong(told["error"])
    figures = ground.judge_added(order, "overwrite_partitions")
    if told["files"] != figures.new_files_shown:
        raise Wrong(f"{told['files']} files are reported and {figures.new_files_shown} are there")
    return figures


def raises(ground: Ground) -> Figures:
    """A task raises however often it is tried."""
    order = ground.order("always")
    told = ground.result(ground.start(order))
    if told["published"]:
        raise Wrong("published, though a task failed")
    return ground.judge(order, _KEPT)


def raises_once(ground: Ground) -> Figures:
    """A task raises at its first attempt."""
    order = ground.order("once")
    told = ground.result(ground.start(order))
    if not told["published"]:
        raise Wrong(told["error"])
    return ground.judge(order, _NEW)


def raises_once_and_is_run_again(ground: Ground) -> Figures:
    """The same where the engine does not try again: the whole run does."""
    order = ground.order("once")
    if ground.result(ground.start(order))["published"]:
        raise Wrong("published, though a task failed")
    ground.judge(order, _KEPT)
    return _rerun(ground, order, 0)


def speculation(ground: Ground) -> Figures:
    """Two workers run each task at the same time: one of its attempts counts, the other leaves nothing."""
    order = ground.order("twice")
    told = ground.result(ground.start(order))
    if not told["published"]:
        raise Wrong(told["error"])
    return ground.judge(order, _NEW)


def worker_killed(ground: Ground) -> Figures:
    """A worker is killed while an upload of its task is open; the engine runs the task again."""
    order = ground.order()
    driver = _kill_at_upload(ground, order, lambda process, _: os.kill(process, signal.SIGKILL))
    told = ground.result(driver)
    if not told["published"]:
        raise Wrong(told["error"])
    return ground.judge(order, _NEW, kills=1)


def worker_killed_and_run_again(ground: Ground) -> Figures:
    """The same where the engine gives up: nothing is there, and the whole run is started again."""
    order = ground.order()
    driver = _kill_at_upload(ground, order, lambda process, _: os.kill(process, signal.SIGKILL))
    if ground.result(driver)["published"]:
        return ground.judge(order, _NEW, kills=1)
    ground.wait_until_quiet()
    ground.judge(order, _KEPT, kills=1)
    return _rerun(ground, order, 1)


def driver_killed(ground: Ground) -> Figures:
    """The driver is killed while uploads are open; the old data stays, and the run is started again."""
    order = ground.order()
    # A script is as many processes as it has commands.
    kill = os.killpg if ground.engine == "shell" else os.kill
    driver = _kill_at_upload(ground, order, lambda _, driver: kill(driver.pid, signal.SIGKILL))
    ground.bury(driver)
    figures, rows = ground.look(order)
    if rows != list(range(-OLD_ROWS, 0)) or figures.new_files_shown or figures.old_files_left != len(DAYS):
        raise Wrong(f"the driver is dead, and there is {figures}")
    return _rerun(ground, order, 1)


def driver_killed_and_recovered(ground: Ground) -> Figures:
    """The same, and nobody runs it again: one command cleans up."""
    order = ground.order()
    driver = _kill_at_upload(ground, order, lambda _, driver: os.killpg(driver.pid, signal.SIGKILL))
    ground.bury(driver)
    _recover(ground, order)
    return ground.judge(order, _KEPT, kills=1)


def _kill_at_upload(
    ground: Ground, order: Order, kill: Callable[[int, subprocess.Popen[str]], None]
) -> subprocess.Popen[str]:
    ground.proxy.stall(skip=len(DAYS))
    driver = ground.start(order)
    process = ground.proxy.process()
    prefix = order.url.removeprefix(f"s3://{ground.bucket}/")
    if not ground.server.pending_uploads(ground.bucket, prefix):
        raise Wrong("no upload is open when a process is killed")
    kill(process, driver)
    return driver


def _rerun(ground: Ground, order: Order, kills: int) -> Figures:
    told = ground.result(ground.start(order))
    if not told["published"] or told["before"]:
        raise Wrong(f"the run is started again, and says {told}")
    return ground.judge(order, _NEW, kills)


def _recover(ground: Ground, order: Order) -> None:
    """Clean up after jobs whose drivers are dead, as a user does."""
    options = ground.server.storage_options()
    magicfs.Dataset(order.url, storage_options=options).recover(abort=True)


def _cases(engine: str) -> Mapping[str, Callable[[Ground], Figures]]:
    again = engine in {"dask", "dask map", "ray map", "processes", "shell"}
    replaces_workers = again or engine == "ray"
    cases = {
        "whole": whole,
        "documented": documented,
        "modes": modes,
        "partitions": partitions,
        "raises": raises,
        "raises once": raises_once if again else raises_once_and_is_run_again,
        "worker killed": worker_killed if replaces_workers else worker_killed_and_run_again,
        "driver killed": driver_killed,
        "driver killed, recovered": driver_killed_and_recovered,
    }
    if engine in {"dask map", "ray map", "processes"}:
        cases["speculation"] = speculation
    if engine not in {"dask", "ray", "daft"}:  # their lines are run by the tests of the page about engines
        del cases["documented"]
    if engine in {"polars", "duckdb"}:  # they work in the driver
        del cases["worker killed"]
    return cases


CASES: Mapping[str, Mapping[str, Callable[[Ground], Figures]]] = {
    engine: _cases(engine) for engine in DRIVERS
}
