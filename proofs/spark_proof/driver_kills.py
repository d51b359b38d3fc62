"""Applications whose JVM is killed in any phase of a write: recovered, run again, and their rows counted."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import magicfs
from examples.flights.session import local_session
from proofs.doubles.servers import Server
from proofs.spark_proof import plans
from proofs.spark_proof.application import Application
from proofs.spark_proof.orders import Mode, Order, Rows
from proofs.spark_proof.plans import DriverPlan, Phase, Profile
from proofs.spark_proof.watching import Watch, profile_of
from proofs.spark_proof.witness import Judge, Lane, Witness
from proofs.spark_proof.writing import perform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DriverKills", "run"]

_BUCKET = "drivers"
_LANES = 3
_PACE_SECONDS = 0.2
_WRITE_SECONDS = 120.0
_WRONG_MAX = 8
_PAST = ("committing", "completed")


def run(kills: int, seed: int, server: Server, directory: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Kill drivers; returns the figures. Arguments are those of ``executor_kills.run``."""
    spark = local_session(
        name="driver kills",
        log=directory / "runner.log",
        config={"spark.local.dir": str(directory / "scratch")},
    )
    try:
        part = DriverKills(spark, server, directory, seed, say)
        part.run(kills)
    finally:
        spark.stop()
    return part.to_dict()


class DriverKills:
    """One application after the other, each killed in a write of its own.

    Args:
        spark: A session in which writes are run again.
        server: The store.
        directory: For logs and scratch files.
        seed: Of all that is drawn.
        say: Told what is going on, in lines.
    """

    def __init__(
        self, spark: SparkSession, server: Server, directory: Path, seed: int, say: Callable[[str], None]
    ) -> None:
        self._spark, self._server, self._directory = spark, server, directory
        self._seed, self._say = seed, say
        self._storage = server.storage_options()
        self._judge = Judge(Witness(server), say)
        self._judge.figures.update(driver_kills=0)
        bucket = server.create_bucket(_BUCKET)
        self._lanes = [Lane(bucket, f"d{number}") for number in range(_LANES)]
        self._profiles: dict[tuple[str, Mode], Profile] = {}
        self._groups: dict[str, Counter[str]] = {"phases": Counter(), "states": Counter()}

    def run(self, kills: int) -> None:
        """Kill so many drivers."""
        for number in range(kills):
            plan = plans.driver_plan(self._seed, number)
            lane = self._lanes[number % _LANES]
            try:
                self._round(plan, lane)
            except Exception:  # noqa: BLE001 - told, and the others go on
                self._judge.trouble(f"{plan}: {traceback.format_exc()}")
                lane.rows = self._judge.witness.rows(lane)
            if self._judge.figures["troubles"] > _WRONG_MAX:
                self._say("given up")
                break

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain values."""
        groups = {f"driver_{name}": dict(found) for name, found in self._groups.items()}
        return self._judge.to_dict() | groups

    def _measure(self, order: Order) -> Profile:
        """See an undisturbed write of a route and a mode, from here: the requests are the same."""
        lane = Lane(self._lanes[0].bucket, f"measured-{order.route}-{order.mode}")
        first = Order(0, order.route, "append")
        perform(self._spark, first, lane.url, self._storage, late="leave")
        second = Order(1, order.route, order.mode)
        with Watch(self._server.endpoint) as watch:
            storage = self._storage | {"endpoint_url": watch.endpoint}
            perform(self._spark, second, lane.url, storage, pace=_PACE_SECONDS, late="leave")
            profile = profile_of(watch.requests)
        lane.rows = second.after(first.new())
        self._judge.published(lane, f"undisturbed {second}")
        self._say(f"requests of an undisturbed {order.mode} by {order.route}: {profile}")
        return profile

    def _round(self, plan: DriverPlan, lane: Lane) -> None:
        order, new = plan.order, plan.order.after(lane.rows)
        kind = (order.route, order.mode)
        if kind not in self._profiles:
            self._profiles[kind] = self._measure(order)
        with Watch(self._server.endpoint) as watch, self._application(order, lane, watch) as application:
            phase = self._kill(plan, application, watch)
            if not watch.settle():
                self._judge.trouble(f"{plan}: requests did not settle")
        self._judge.figures["driver_kills"] += 1
        state = self._state(lane)
        self._groups["phases"][phase] += 1
        self._groups["states"][state] += 1
        self._say(f"{plan.target} killed in phase {phase}, state {state}, recover={plan.recover}: {order}")
        if plan.recover:
            self._recover(plan, lane, new if state in _PAST or phase is Phase.AFTER else None)
        perform(self._spark, order, lane.url, self._storage, late="leave")
        lane.rows = new
        self._judge.published(lane, f"{plan} was run again")
        self._judge.leftovers(lane, f"{plan} was run again")

    def _kill(self, plan: DriverPlan, application: Application, watch: Watch) -> Phase:
        """Kill at the planned moment; returns the phase that it was."""
        profile = self._profiles[plan.order.route, plan.order.mode]
        wanted = plan.request(profile)
        application.go()
        reached = application.wait(lambda: wanted is not None and watch.arrived() >= wanted, _WRITE_SECONDS)
        if not reached:
            time.sleep(plan.delay)
        if left := application.kill(plan.target):
            self._judge.trouble(f"{plan}: processes {left} outlived their driver and were killed")
        if not reached or wanted is None:
            return Phase.AFTER
        return next(one for one in Phase if profile.range_of(one)[1] >= wanted)

    def _state(self, lane: Lane) -> str:
        jobs = magicfs.Dataset(lane.url, storage_options=self._storage).recover(dry_run=True).jobs
        if len(jobs) > 1:
            self._judge.trouble(f"{lane.url}: {len(jobs)} jobs are unfinished")
        return jobs[0].found if jobs else "none"

    def _recover(self, plan: DriverPlan, lane: Lane, only: Rows | None) -> None:
        """What a user does who is told that the driver died."""
        report = magicfs.Dataset(lane.url, storage_options=self._storage).recover()
        if report.undecided:
            magicfs.Dataset(lane.url, storage_options=self._storage).recover(abort=True)
        allowed = (lane.rows, plan.order.after(lane.rows)) if only is None else (only,)
        self._judge.rows(lane, f"{plan} was recovered", *allowed)
        self._judge.leftovers(lane, f"{plan} was recovered")

    def _application(self, order: Order, lane: Lane, watch: Watch) -> Application:
        given: Mapping[str, Any] = {
            "order": order.to_dict(),
            "url": lane.url,
            "storage": self._storage | {"endpoint_url": watch.endpoint},
            "pace": _PACE_SECONDS,
            "scratch": str(self._directory / "scratch"),
            "log": str(self._directory / "victim-jvm.log"),
        }
        return Application(given, self._directory / "victim.log")
