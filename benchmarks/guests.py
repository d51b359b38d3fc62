"""What guests cost that go with every request: job commits of many files on the memory store.

``python -m benchmarks.guests``: without them, with OpenTelemetry, and sealed. The sides take turns, what
tasks have written is made up, and the median of what a side took more in its round counts. The last line is
one JSON object.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from operator import truediv
from statistics import median

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import magicfs
from benchmarks.sides.forged import commits_of
from magicfs import seal, watch

_TASKS = 100
_SIDES = ("none", "otel", "seal")


def commit_s(files: int, url: str) -> float:
    """Seconds of processor time of the job commit of so many files."""
    job = magicfs.Job(url, mode="append", options={"tracking": "memory"}).setup()
    commits = commits_of(job, files, 1, _TASKS)
    gc.collect()
    began = time.process_time()
    report = job.commit(commits)
    taken = time.process_time() - began
    assert report.files == files, report
    job.spec.wrapped().rm(url.removeprefix("memory://"), recursive=True)
    return taken


@contextmanager
def _watched() -> Iterator[None]:
    tracers, meters = TracerProvider(), MeterProvider([InMemoryMetricReader()])
    tracers.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    watch.start(tracer_provider=tracers, meter_provider=meters)
    try:
        yield
    finally:
        watch.stop()


@contextmanager
def _sealed(url: str) -> Iterator[None]:
    seal.use(url, seal.Key(b"of a benchmark, and of nobody else!"))
    try:
        yield
    finally:
        seal.forget()


def main(argv: Sequence[str] | None = None) -> None:
    """Print what each costs."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=41)
    asked = parser.parse_args(argv)
    times: dict[str, list[float]] = {side: [] for side in _SIDES}
    commit_s(asked.files, "memory://bench/warm")
    for run in range(asked.runs):
        shift = run % len(_SIDES)
        for side in (*_SIDES[shift:], *_SIDES[:shift]):
            url = f"memory://bench/{side}-{run}"
            with _watched() if side == "otel" else _sealed(url) if side == "seal" else nullcontext():
                times[side].append(commit_s(asked.files, url))
    more = {
        f"{side}_percent": 100 * (median(map(truediv, times[side], times["none"])) - 1) for side in _SIDES[1:]
    }
    figures = {"files": asked.files, "runs": asked.runs, "none_s": median(times["none"]), **more}
    print(json.dumps({name: round(value, 3) for name, value in figures.items()}, separators=(",", ":")))


if __name__ == "__main__":
    main()
