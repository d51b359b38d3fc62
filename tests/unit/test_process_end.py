"""A process waits for what threads of pyarrow may be the last to hold."""

from __future__ import annotations

import subprocess
import sys

import pytest

from proofs.endings.doors import DOORS, PLAIN
from proofs.endings.processes import ended

pytestmark = pytest.mark.process

_HOLDER = """
import sys, threading, time
sys.modules["pyarrow"] = sys  # as if it were imported
from magicfs.runtime.process_end import shared_with_threads

class File:
    __hash__ = None

    def __del__(self):
        print("let go by a thread", flush=True)

def hold(seconds):
    held = [shared_with_threads(File())]
    threading.Thread(target=lambda: (time.sleep(seconds), held.clear()), daemon=True).start()

{what}
"""


def _said(what: str, timeout: float = 60) -> str:
    program = _HOLDER.format(what=what)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=timeout)
    return done.stdout


def test_a_process_ends_after_the_threads_that_hold_its_files() -> None:
    assert _said("hold(0.05); hold(0.01)") == "let go by a thread\n" * 2


def test_what_nobody_lets_go_of_is_not_waited_for() -> None:
    assert _said("hold(1000)", timeout=60) == ""


def test_a_read_that_a_thread_has_begun_is_waited_for_and_the_next_one_fails() -> None:
    said = _said(
        """
from magicfs.runtime.process_end import begun

def read():
    with begun():
        time.sleep(1)
    print("read", flush=True)
    try:
        with begun():
            print("read again", flush=True)
    except OSError as error:
        print(error, flush=True)

threading.Thread(target=read, daemon=True).start()
time.sleep(0.1)
"""
    )
    assert said == "read\nthe process is ending; nothing was read\n"


@pytest.mark.slow
@pytest.mark.parametrize("door", [door for door in DOORS if door != PLAIN])
@pytest.mark.sample(most=3)
def test_processes_of_every_front_door_end_with_0(door: str) -> None:
    assert ended(door, "memory://lake/t", {}, 2) == {0: 2}
