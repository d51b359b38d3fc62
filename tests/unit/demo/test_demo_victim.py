from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from examples.flights import victim

pytestmark = pytest.mark.process

# The system call that starts a child lasts until the child has opened its input, whatever signals come.
CODE = """
import os, sys
opens = (os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)
os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {}, file_actions=[opens])
sys.stdin.read()
"""


def states(pid: int) -> set[str]:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return {(one / "stat").read_text().rpartition(")")[2].split()[0] for one in threads}


def test_process_that_is_stopped_has_finished_its_system_call(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen([sys.executable, "-c", CODE, str(pipe)], stdin=subprocess.PIPE) as process:
        try:
            while states(process.pid) != {"D"}:
                time.sleep(0.01)
            opened: list[float] = []

            def open_late() -> None:
                time.sleep(0.3)
                opened.append(time.monotonic())
                pipe.open("wb").close()

            late = threading.Thread(target=open_late)
            late.start()
            victim._stop([process.pid])
            assert states(process.pid) == {"T"}
            assert opened
            late.join()
        finally:
            process.kill()


def test_process_that_is_gone_is_not_waited_for():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    began = time.monotonic()
    victim._stop([process.pid])
    assert time.monotonic() - began < 5


class SlowBucket:
    """A store that carries out, a moment after a worker was stopped, what the worker had asked for."""

    port = None
    upload = ("sales/part-000001-0c9d2f7e-4a31-4f0e-9a52-6d1f0f7b8e11.parquet", "id")

    def __init__(self) -> None:
        self.begun = time.monotonic()

    def pending(self, _: str) -> list[tuple[str, str]]:
        return [self.upload] if time.monotonic() - self.begun > 0.1 else []


def test_upload_that_was_under_way_is_not_taken_for_that_of_the_worker_whose_turn_it_is(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(victim, "_SLOTS", 5)
    hunter = victim.Hunter(SlowBucket(), "sales", is_worker=lambda _: False, attempts_lost=lambda: 0)  # type: ignore[arg-type]
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            victim._stop([process.pid])
            hunter._bucket.begun = time.monotonic()  # type: ignore[attr-defined]
            assert hunter._let_go_in_turn({process.pid}) is None
        finally:
            process.kill()
