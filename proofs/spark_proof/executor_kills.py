"""Executors killed while they write, on a cluster of two hosts: rows are counted, and what is left."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from examples.flights.session import local_session
from proofs.doubles.servers import Server
from proofs.spark_proof import plans
from proofs.spark_proof.alongside import Alongside
from proofs.spark_proof.cluster import Cluster
from proofs.spark_proof.marked import kill
from proofs.spark_proof.orders import Order, Route
from proofs.spark_proof.witness import Judge, Lane, Witness
from proofs.spark_proof.writing import perform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ExecutorKills", "run", "wait_for_executors"]

_BUCKET = "executors"
_LANES = 4
_PACE_SECONDS = 0.4
_EXECUTORS = 2
_READY_SECONDS = 60.0
_POLL_SECONDS = 0.05
_REMEMBERED = 0.7
_WRONG_MAX = 10
_LATE_MAX = 3


def run(kills: int, seed: int, server: Server, directory: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Kill executors; returns the figures.

    Args:
        kills: How many kills must hit.
        seed: Of all that is drawn.
        server: The store.
        directory: For logs and scratch files.
        say: Told what is going on, in lines.
    """
    with Cluster(directory / "cluster") as cluster:
        spark = local_session(
            name="executor kills",
            log=directory / "driver.log",
            config={**cluster.config, "spark.local.dir": str(directory / "scratch")},
        )
        try:
            part = ExecutorKills(cluster, spark, server, seed, say)
            part.run(kills)
        finally:
            spark.stop()
    return part.judge.to_dict()


def wait_for_executors(spark: SparkSession) -> None:
    """Wait until both executors have registered with the driver.

    Raises:
        RuntimeError: They do not come.
    """
    status = spark.sparkContext._jsc.sc()  # noqa: SLF001 - Python has no such question
    deadline = time.monotonic() + _READY_SECONDS
    while status.getExecutorMemoryStatus().size() < _EXECUTORS + 1:  # the driver is one of them
        if time.monotonic() > deadline:
            raise RuntimeError(f"no {_EXECUTORS} executors within {_READY_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)


class ExecutorKills:
    """Writes to a few destinations in turn, so that each has time until it is written to again.

    Args:
        cluster: The cluster.
        spark: A session on it.
        server: The store.
        seed: Of all that is drawn.
        say: Told what is going on, in lines.

    Attributes:
        judge: With the figures.
    """

    def __init__(
        self, cluster: Cluster, spark: SparkSession, server: Server, seed: int, say: Callable[[str], None]
    ) -> None:
        self._cluster, self._spark, self._seed, self._say = cluster, spark, seed, say
        self._storage = server.storage_options()
        self.judge = Judge(Witness(server), say)
        bucket = server.create_bucket(_BUCKET)
        self._lanes = [Lane(bucket, f"d{number}") for number in range(_LANES)]
        self._seconds: dict[str, float] = {}

    def run(self, kills: int) -> None:
        """Kill until so many kills have hit; then look for what is left."""
        figures = self.judge.figures
        figures.update(executor_kills=0, executor_attempts_lost=0, executor_reruns=0)
        self._measure()
        number = 0
        while figures["executor_kills"] < kills and number < kills * _LATE_MAX:
            if figures["troubles"] > _WRONG_MAX:
                self._say("given up")
                break
            plan, lane = plans.executor_plan(self._seed, number), self._lanes[number % _LANES]
            try:
                self._round(plan, lane)
            except Exception:  # noqa: BLE001 - told, and the others go on
                self.judge.trouble(f"{plan}: {traceback.format_exc()}")
                lane.rows, lane.ended = self.judge.witness.rows(lane), time.monotonic()
            number += 1
            if number % 10 == 0:
                self._say(f"{figures['executor_kills']} of {kills} executors are killed")
        figures["executor_late"] = number - figures["executor_kills"]
        for lane in self._lanes:
            lane.settle()
            self.judge.leftovers(lane, "at the end")

    def _measure(self) -> None:
        """Two undisturbed writes by each route; the first one warms everything up."""
        lane = Lane(self._lanes[0].bucket, "measured")
        routes: tuple[Route, ...] = get_args(Route)
        for number, route in enumerate(routes * 2):
            wait_for_executors(self._spark)
            order = Order(number, route, "append")
            started = time.monotonic()
            self._write(order, lane)
            self._seconds[order.route] = time.monotonic() - started
            lane.rows = order.after(lane.rows)
            self.judge.published(lane, f"undisturbed {order}")
        self._say(f"undisturbed writes take {self._seconds} s")

    def _round(self, plan: plans.ExecutorPlan, lane: Lane) -> None:
        order = plan.order
        lane.settle()
        self.judge.leftovers(lane, f"before {order}")
        wait_for_executors(self._spark)
        group = f"order-{order.number}"
        self._spark.sparkContext.setJobGroup(group, str(order))
        killer = _Killer(self._cluster, plan.moment * self._seconds[order.route], plan.victim)
        started = time.monotonic()
        try:
            with killer:
                self._write(order, lane)
        except Exception as error:  # noqa: BLE001 - the user would run it again
            self._say(f"{order}: {type(error).__name__}, written again: {str(error)[:300]}")
            self.judge.figures["executor_reruns"] += 1
            self._again(order, lane)
        else:
            if not killer.hit:
                self._seconds[order.route] *= _REMEMBERED
                self._seconds[order.route] += (1 - _REMEMBERED) * (time.monotonic() - started)
        self.judge.figures["executor_kills"] += killer.hit
        self.judge.figures["executor_attempts_lost"] += self._lost(group)
        lane.rows, lane.ended = order.after(lane.rows), time.monotonic()
        self.judge.published(lane, str(plan))

    def _again(self, order: Order, lane: Lane) -> None:
        self.judge.rows(lane, f"{order} has failed", lane.rows, order.after(lane.rows))
        wait_for_executors(self._spark)
        self._write(order, lane)

    def _write(self, order: Order, lane: Lane) -> None:
        perform(self._spark, order, lane.url, self._storage, pace=_PACE_SECONDS)

    def _lost(self, group: str) -> int:
        tracker = self._spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(one) for job in jobs if job is not None for one in job.stageIds]
        return sum(stage.numFailedTasks for stage in stages if stage is not None)


class _Killer(Alongside):
    """Kills an executor some time after the beginning of its block, unless that is over before."""

    def __init__(self, cluster: Cluster, seconds: float, victim: float) -> None:
        super().__init__()
        self._cluster, self._seconds, self._victim = cluster, seconds, victim
        self.hit = False

    def _run(self) -> None:
        if self._over.wait(self._seconds):
            return
        found = self._cluster.executors()
        if found:
            kill([found[int(self._victim * len(found))]])
            self.hit = True
