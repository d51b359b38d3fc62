"""What a fresh process pays before its first upload has landed: processor time, imports included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.crew import Side, Turn, take_turns
from benchmarks.figures import Figure, Sample
from benchmarks.groups.bucket import on_stub
from benchmarks.place import Place
from benchmarks.session import Session

__all__ = ["measure"]

_BEFORE: Final = "import time\nbegan = time.process_time()\n"
_AFTER: Final = "\nprint(time.process_time() - began)\n"
_FIRST_UPLOAD: Final = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    task = pickle.load(file).setup()
with task.filesystem.open(f"{task.path}/first.bin", "wb") as file:
    file.write(b"x" * 1000)
"""
_FIRST_PUT: Final = """
import json, sys
import s3fs
s3fs.S3FileSystem(**json.loads(sys.argv[2])).pipe("bench/first.bin", b"x" * 1000)
"""
_PROGRAMS: Final[Mapping[str, str]] = {
    "import_ms": "import magicfs",
    "job_ms": "import magicfs\nmagicfs.Job",
    "import_s3fs_ms": "import s3fs",
    "first_upload_ms": _FIRST_UPLOAD,
    "first_s3fs_put_ms": _FIRST_PUT,
}


def measure(session: Session) -> Mapping[str, Figure]:
    """Each program in fresh processes; the start of Python itself is not counted."""
    with tempfile.TemporaryDirectory() as directory, on_stub(session) as bucket:
        told = Path(directory) / "task.pickle"
        keeper = Side("magicfs", "benchmarks.sides.forged:Forger", bucket.place)
        try:
            keeper.do("pickle_task", "first", told=str(told))
            run = partial(_run, place=bucket.place, told=told)
            turns = {name: partial(run, program) for name, program in _PROGRAMS.items()}
            measured = take_turns(session, turns)
        finally:
            keeper.close()
    return {name: Figure.of([1000 * one for one in measured.cpu_s(name)]) for name in turns}


def _run(program: str, where: str, *, place: Place, told: Path) -> Turn:  # noqa: ARG001 - one file serves all
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": place.key,
        "AWS_SECRET_ACCESS_KEY": place.secret,
    }
    options = json.dumps({"endpoint_url": place.endpoint, "client_kwargs": {"region_name": place.region}})
    done = subprocess.run(  # noqa: S603 - our own programs
        [sys.executable, "-c", _BEFORE + program + _AFTER, str(told), options],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return Turn({"whole": Sample(0.0, float(done.stdout))}, {})
