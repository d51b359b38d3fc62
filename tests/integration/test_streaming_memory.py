"""Streaming a large file takes a few parts of memory, whatever its size."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from magicfs.filesystem.upload import PARTS_IN_FLIGHT

pytestmark = pytest.mark.sample(most=1)

MIB = 2**20
PART = 8 * MIB

SCRIPT = """
import json, resource, sys, tracemalloc
import magicfs

protocol, options, traced, mebibytes, part = json.loads(sys.argv[1])
block = bytes(2**20)
fs = magicfs.MagicFileSystem(target_protocol=protocol, target_options=options, part_size=part)

def stream(name, count):
    file = fs.open(f"{sys.argv[2]}/big/__magic/job/task/__base/{name}", "wb")
    try:
        for _ in range(count):
            file.write(block)
    finally:
        file.abort()

def resident(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))

stream("warm", 1)  # imports, connections
if traced:
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    stream("traced", mebibytes)
    print(json.dumps(tracemalloc.get_traced_memory()[1] - before))
else:
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")  # start the high-water mark anew
    before = resident("VmRSS")
    stream("resident", mebibytes)
    print(json.dumps(resident("VmHWM") - before))
"""


def peak(scheme: str, options: Any, bucket: str, *, traced: bool, mebibytes: int = 400) -> int:
    arguments = json.dumps([scheme, options, traced, mebibytes, PART])
    shown = subprocess.run(
        [sys.executable, "-c", SCRIPT, arguments, bucket], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    found: Any = json.loads(shown.stdout)
    return int(found)


BOTH = pytest.mark.parametrize(
    ("traced", "besides"), [(True, 0), (False, 64 * MIB)], ids=["buffers", "resident"]
)


# Azure's client reads each body whole before it sends it.
@pytest.mark.parametrize(("name", "copies"), [("ministack", 1), ("gcs", 1), ("azurite", 2)])
@BOTH
def test_memory_stays_within_the_parts_in_flight(
    server: Callable[[str], Any], bucket_factory: Any, name: str, copies: int, traced: bool, besides: int
) -> None:
    allowed = (copies * PARTS_IN_FLIGHT + 3) * PART + besides
    assert allowed < 200 * MIB
    running = server(name)
    bucket = bucket_factory(running)
    assert peak(running.scheme, running.storage_options(), bucket, traced=traced) <= allowed


@BOTH
def test_memory_stays_within_them_on_local_files(tmp_path: Path, traced: bool, besides: int) -> None:
    allowed = (PARTS_IN_FLIGHT + 3) * PART + besides
    assert peak("file", {}, str(tmp_path), traced=traced) <= allowed
