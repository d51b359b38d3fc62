"""A unit test starts no process and no server, and is not slow, unless it is marked; `tox run -e quick` runs
the unmarked.
"""

from __future__ import annotations

import multiprocessing.process
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from magicfs.manifests import chain
from magicfs.transaction import prepare

CPU_S_MAX = 4
"""Much more than the second after which a test is marked: no test fails because a machine is shared."""
STARTS = (
    (subprocess.Popen, "__init__"),
    (multiprocessing.process.BaseProcess, "start"),
    (os, "fork"),
    (socket.socket, "listen"),
)


@pytest.fixture(autouse=True)
def _no_process_without_a_mark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("process") is not None:
        return

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError("this test starts a process or a server; mark it: pytest.mark.process")

    for owner, name in STARTS:
        monkeypatch.setattr(owner, name, refuse)


def refuse_slow(took_s: float, markexpr: str) -> None:
    """Fail, in a quick run alone, for a test that took so long."""
    if "not slow" in markexpr:
        assert took_s < CPU_S_MAX, (
            f"this test took {took_s:.1f} s of the processor; mark it: pytest.mark.slow"
        )


@pytest.fixture(autouse=True)
def _no_slow_test_without_a_mark(request: pytest.FixtureRequest) -> Iterator[None]:
    """Time of the processor counts, that of all threads: it says the same on a busy machine, or nearly so."""
    before = time.process_time()
    yield
    refuse_slow(time.process_time() - before, request.config.option.markexpr)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who meets another process tries again at once."""
    for module in (chain, prepare):
        monkeypatch.setattr(module, "_PAUSE_S", 0)
