"""Streaming, many small files and the job commit, beside plain s3fs in the same run.

Each figure is the median of several rounds in which the two sides take turns; ratios are magicfs ÷ s3fs, so
below 1 is faster. The last line of standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import fsspec
from sink import sink

import magicfs
from magicfs.testing.servers import SERVERS

MIB = 2**20
BLOCK = 8 * MIB


def turns(rounds: int, ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[float, float]:
    """Medians of both sides, taken in turn so that a drifting machine hurts both alike."""
    pairs = [(ours(), theirs()) for _ in range(rounds)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def timed(work: Callable[[], Any]) -> float:
    """Wall seconds of a call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def stream(filesystem: Any, path: str, mebibytes: int, **options: Any) -> None:
    """Write one file, a block at a time."""
    block = bytes(range(256)) * (MIB // 256)
    with filesystem.open(path, "wb", **options) as file:
        for _ in range(mebibytes):
            file.write(block)


def streaming(options: dict[str, Any], mebibytes: int, rounds: int) -> dict[str, float]:
    """One large file with parts of 8 MiB on both sides."""
    plain = fsspec.filesystem("s3", **options)
    magic = magicfs.MagicFileSystem(plain, part_size=BLOCK, tracking="memory")
    ours, theirs = turns(
        rounds,
        lambda: timed(lambda: stream(magic, "bench/d/__magic/job/__base/big", mebibytes)),
        lambda: timed(lambda: stream(plain, "bench/d/big", mebibytes, block_size=BLOCK)),
    )
    return {
        "streaming_magicfs_mib_s": mebibytes / ours,
        "streaming_s3fs_mib_s": mebibytes / theirs,
        "streaming_ratio": ours / theirs,
    }


def committing(options: dict[str, Any], bucket: str, files: int, rounds: int) -> dict[str, float]:
    """The commit of many small files: a job's, and that of an fsspec transaction."""
    plain = fsspec.filesystem("s3", **options)

    def ours() -> float:
        job = magicfs.Job(
            f"s3://{bucket}/ours", conflict="append", tracking="memory", filesystem=plain
        ).setup()
        task = job.task(0).setup()
        task.filesystem.pipe({f"{task.path}/{n}.bin": b"x" * 1000 for n in range(files)})
        commit = task.commit()
        return timed(lambda: job.commit([commit]))

    def theirs() -> float:
        plain.start_transaction()
        for n in range(files):
            with plain.open(f"{bucket}/theirs/{n}.bin", "wb") as file:
                file.write(b"x" * 1000)
        return timed(plain.end_transaction)

    job_s, transaction_s = turns(rounds, ours, theirs)
    return {
        "commit_magicfs_files_s": files / job_s,
        "commit_s3fs_files_s": files / transaction_s,
        "commit_ratio": job_s / transaction_s,
    }


def small_files(options: dict[str, Any], bucket: str, files: int, rounds: int) -> dict[str, float]:
    """Many small files from open to visible: a whole job, and plain files written one PUT each."""
    plain = fsspec.filesystem("s3", **options)
    bodies = {f"{n}.bin": b"x" * 1000 for n in range(files)}

    def ours() -> None:
        with (
            magicfs.Job(
                f"s3://{bucket}/small", conflict="append", tracking="memory", filesystem=plain
            ) as job,
            job.task(0) as task,
        ):
            task.filesystem.pipe({f"{task.path}/{name}": body for name, body in bodies.items()})

    def theirs() -> None:
        plain.pipe({f"{bucket}/plain/{name}": body for name, body in bodies.items()})

    job_s, plain_s = turns(rounds, lambda: timed(ours), lambda: timed(theirs))
    return {
        "small_magicfs_files_s": files / job_s,
        "small_s3fs_files_s": files / plain_s,
        "small_ratio": job_s / plain_s,
    }


def main() -> None:
    """Run everything; figures on standard output, progress on standard error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    figures: dict[str, Any] = {
        "rounds": arguments.rounds,
        "mebibytes": arguments.mebibytes,
        "files": arguments.files,
    }
    with sink() as endpoint:
        print(f"streaming {arguments.mebibytes} MiB to a sink", file=sys.stderr)
        options = {
            "key": "k",
            "secret": "s",
            "endpoint_url": endpoint,
            "client_kwargs": {"region_name": "us-east-1"},
        }
        figures |= streaming(options, arguments.mebibytes, arguments.rounds)
    with SERVERS["ministack"]() as server:
        server.create_bucket("bench")
        print(f"{arguments.files} small files on {server.name}", file=sys.stderr)
        figures |= committing(server.storage_options(), "bench", arguments.files, arguments.rounds)
        figures |= small_files(server.storage_options(), "bench", arguments.files, arguments.rounds)
    print(
        json.dumps(
            {k: round(v, 3) if isinstance(v, float) else v for k, v in figures.items()}, separators=(",", ":")
        )
    )


if __name__ == "__main__":
    main()
