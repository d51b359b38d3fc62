"""One stream of many batches, whose application is killed and started again at random moments."""

from __future__ import annotations

import itertools
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import magicfs.spark
from proofs.doubles.servers import Server
from proofs.spark_proof import plans
from proofs.spark_proof.application import Application
from proofs.spark_proof.orders import Route, batch_rows, half_batches
from proofs.spark_proof.watching import Watch
from proofs.spark_proof.witness import Judge, Lane, Witness
from proofs.spark_proof.writing import SINK

__all__ = ["StreamKills", "run"]

_BUCKET = "streams"
_BATCHES_PER_RESTART = 3
_REQUESTS_PER_BATCH = 60.0
_RUN_SECONDS = 240.0
_WRONG_MAX = 8
_LOGGED = 600
_JOB = re.compile(r"/job-([^/]+)/")


def run(
    restarts: int, seed: int, server: Server, directory: Path, say: Callable[[str], None]
) -> dict[str, Any]:
    """Kill and start a stream again; returns the figures.

    Args:
        restarts: How often. There are three batches for each.
        seed: Of all that is drawn.
        server: The store.
        directory: For logs and scratch files.
        say: Told what is going on, in lines.
    """
    part = StreamKills(server, directory, seed, say)
    part.run(restarts)
    return part.to_dict()


class StreamKills:
    """Files that come in, and a query that is killed while it writes them.

    Args:
        server: The store.
        directory: For files, checkpoint and logs.
        seed: Of all that is drawn.
        say: Told what is going on, in lines.
    """

    def __init__(self, server: Server, directory: Path, seed: int, say: Callable[[str], None]) -> None:
        self._server, self._directory, self._seed, self._say = server, directory, seed, say
        self._storage = server.storage_options()
        self._judge = Judge(Witness(server), say)
        self._judge.figures.update(stream_restarts=0, stream_batches=0)
        self._lane = Lane(server.create_bucket(_BUCKET), "d")
        self._source = directory / "in"
        self._source.mkdir()
        self._dropped = itertools.count()
        self._began = time.time()
        self._routes: Counter[str] = Counter()

    def run(self, restarts: int) -> None:
        """Kill so often, then let the query run to its end, and compare."""
        figures = self._judge.figures
        with Watch(self._server.endpoint) as watch:
            for number in range(restarts):
                self._drop(_BATCHES_PER_RESTART)
                self._killed(plans.stream_plan(self._seed, number, _BATCHES_PER_RESTART), watch)
                figures["stream_restarts"] += 1
                if figures["troubles"] > _WRONG_MAX:
                    self._say("given up")
                    break
            route = plans.stream_plan(self._seed, restarts, _BATCHES_PER_RESTART).route
            with self._application(route, watch) as application:
                application.go()
                application.finish(_RUN_SECONDS)
        self._lane.ended = time.monotonic()
        self._compare(next(self._dropped))

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain values."""
        return self._judge.to_dict() | {"stream_routes": dict(self._routes)}

    def _drop(self, count: int) -> None:
        """Let files come in, each of them a batch."""
        for number in itertools.islice(self._dropped, count):
            rows = [json.dumps({"id": one, "p": p}) for one, p in batch_rows(number)]
            path = self._source / f".{number}.json"
            path.write_text("\n".join(rows), encoding="utf-8")
            # Files are taken in the order of their times.
            os.utime(path, (self._began + number, self._began + number))
            path.rename(self._source / f"{number}.json")

    def _killed(self, plan: plans.StreamPlan, watch: Watch) -> None:
        self._routes[plan.route] += 1
        with self._application(plan.route, watch) as application:
            begun = watch.arrived()
            wanted = begun + plan.batches * _REQUESTS_PER_BATCH
            application.go()
            running = application.wait(lambda: watch.arrived() >= wanted, _RUN_SECONDS)
            if left := application.kill(plan.target):
                self._judge.trouble(f"{plan}: processes {left} outlived their driver and were killed")
            if not watch.settle():
                self._judge.trouble(f"{plan}: requests did not settle")
        self._judge.figures["stream_idle_kills"] += not running
        seen = self._judge.witness.dataset(self._lane)
        wrong = half_batches(seen)
        self._judge.figures["rows_wrong"] += wrong
        if wrong:
            self._judge.trouble(f"{plan}: a reader of manifests sees half of a batch: {wrong} rows")
        self._say(
            f"{plan}: {'killed at work' if running else 'killed when it was done'} after "
            f"{watch.arrived() - begun} requests; {len(self._published())} batches are published"
        )

    def _published(self) -> list[int]:
        found = magicfs.spark.batches(self._lane.url, SINK, storage_options=self._storage)
        return [one.batch_id for one in found]

    def _compare(self, batches: int) -> None:
        lane, judge = self._lane, self._judge
        lane.rows = sum((batch_rows(number) for number in range(batches)), start=Counter())
        judge.published(lane, "at the end")
        published = self._published()
        judge.figures["stream_batches"] = len(published)
        if published != list(range(batches)):
            judge.trouble(f"published are the batches {published}, and not 0 to {batches - 1}")
        lane.settle()
        judge.leftovers(lane, "at the end")
        self._tell_of(judge.witness.work(lane))

    def _tell_of(self, left: Sequence[str]) -> None:
        """What the applications have logged of jobs that left something."""
        jobs = {found[1] for key in left if (found := _JOB.search(key))}
        log = self._directory / "victim.log"
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if jobs else ():
            if any(job in line for job in jobs):
                self._say(f"logged: {line[:_LOGGED]}")

    def _application(self, route: Route, watch: Watch) -> Application:
        given: Mapping[str, Any] = {
            "route": route,
            "url": self._lane.url,
            "storage": self._storage | {"endpoint_url": watch.endpoint},
            "source": str(self._source),
            "checkpoint": str(self._directory / "checkpoint"),
            "scratch": str(self._directory / "scratch"),
            "log": str(self._directory / "victim-jvm.log"),
        }
        return Application(given, self._directory / "victim.log")
