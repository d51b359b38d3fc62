"""Streaming one file through each store, beside its plain filesystem in the same run.

Each figure is the median of several rounds in which the two sides take turns; ratios are the rate of magicfs
divided by that of the plain filesystem, so above 1 is faster. The last line of standard output is one JSON
object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import magicfs
from magicfs.stores import resolve
from proofs.doubles.adls_server import AdlsDouble
from proofs.doubles.azurite import Azurite
from proofs.doubles.gcs_server import GcsDouble

MIB: Final = 2**20
BLOCK: Final = 8 * MIB


@contextmanager
def local() -> Iterator[tuple[Any, str]]:
    """Local files."""
    with tempfile.TemporaryDirectory() as top:
        yield resolve.filesystem("file", {}), top


@contextmanager
def gcs() -> Iterator[tuple[Any, str]]:
    """The GCS double."""
    with GcsDouble() as server:
        server.create_bucket("bench")
        yield resolve.filesystem("gs", server.storage_options()), "bench"


@contextmanager
def azure() -> Iterator[tuple[Any, str]]:
    """Azurite."""
    with Azurite() as server:
        server.create_bucket("bench")
        yield resolve.filesystem("abfs", server.storage_options()), "bench"


@contextmanager
def adls() -> Iterator[tuple[Any, str]]:
    """The double of ADLS Gen2, through its Blob endpoint."""
    with AdlsDouble() as server:
        server.create_bucket("bench")
        yield resolve.filesystem("abfs", server.storage_options()), "bench"


STORES: Final[Mapping[str, Callable[[], Any]]] = {"local": local, "gcs": gcs, "azure": azure, "adls": adls}


def streamed(file: Any, mebibytes: int, started: float) -> float:
    """Seconds from before the file was opened until it is closed."""
    block = bytes(range(256)) * (MIB // 256)
    with file:
        for _ in range(mebibytes):
            file.write(block)
    return time.perf_counter() - started


def measured(name: str, mebibytes: int, rounds: int) -> dict[str, float]:
    """Rates of both sides, and their ratio."""
    with STORES[name]() as (plain, top):
        magic = magicfs.MagicFileSystem(plain, part_size=BLOCK, tracking="memory")
        ours, theirs = [], []
        for turn in range(rounds + 1):
            path = f"{top}/d/__magic/job/t{turn}/__base/big"
            started = time.perf_counter()
            ours.append(streamed(magic.open(path, "wb"), mebibytes, started))
            magic.rm(path)
            started = time.perf_counter()
            file = plain.open(f"{top}/big", "wb", block_size=BLOCK)
            theirs.append(streamed(file, mebibytes, started))
            plain.rm(f"{top}/big")
        magic_s, plain_s = statistics.median(ours[1:]), statistics.median(theirs[1:])  # the first warms up
    return {
        "magicfs_mib_s": round(mebibytes / magic_s, 1),
        "plain_mib_s": round(mebibytes / plain_s, 1),
        "ratio": round(plain_s / magic_s, 3),
    }


def main() -> None:
    """Run everything; figures on standard output, progress on standard error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", action="append", choices=STORES, help="only this one; may be repeated")
    parser.add_argument("--mebibytes", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    figures: dict[str, Any] = {"mebibytes": given.mebibytes, "rounds": given.rounds}
    for name in given.store or STORES:
        figures[name] = measured(name, given.mebibytes, given.rounds)
        print(f"{name}: {figures[name]}", file=sys.stderr)
    print(json.dumps(figures, separators=(",", ":")))


if __name__ == "__main__":
    main()
