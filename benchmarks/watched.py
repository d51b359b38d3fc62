"""What watching costs: job commits of many files on the memory store, with OpenTelemetry and without.

``python -m benchmarks.watched``. The runs alternate, and the fastest of each side count.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Sequence

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import magicfs
from magicfs import watch

_TASKS = 100


def commit_s(files: int, name: str) -> float:
    """Seconds of processor time of the job commit of so many files."""
    job = magicfs.Job(f"memory://bench/{name}", mode="append", options={"tracking": "memory"}).setup()
    for number in range(_TASKS):
        with job.task(number) as task:
            for one in range(files // _TASKS):
                task.filesystem.pipe_file(f"{task.path}/{one}.bin", b"12345678")
    gc.collect()
    began = time.process_time()
    job.commit(job.commits)
    return time.process_time() - began


def main(argv: Sequence[str] | None = None) -> None:
    """Print both sides."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=7)
    asked = parser.parse_args(argv)
    spans = InMemorySpanExporter()
    tracers, reader = TracerProvider(), InMemoryMetricReader()
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    meters = MeterProvider([reader])
    times: dict[str, list[float]] = {"off": [], "on": []}
    commit_s(asked.files, "warm")
    for run in range(asked.runs):
        for side in ("off", "on") if run % 2 else ("on", "off"):
            if side == "on":
                watch.start(tracer_provider=tracers, meter_provider=meters)
            times[side].append(commit_s(asked.files, f"{side}-{run}"))
            watch.stop()
    off, on = min(times["off"]), min(times["on"])
    more = 100 * (on / off - 1)
    print(f"{asked.files} files: off {off:.3f} s of processor time, on {on:.3f} s, {more:+.1f} %")


if __name__ == "__main__":
    main()
