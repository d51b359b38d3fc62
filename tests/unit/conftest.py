"""A unit test starts no process and no server unless it is marked; `tox run -e quick` runs the unmarked."""

from __future__ import annotations

import multiprocessing.process
import os
import socket
import subprocess
from typing import Any, NoReturn

import pytest

from magicfs.manifests import chain
from magicfs.transaction import prepare

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


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who meets another process tries again at once."""
    for module in (chain, prepare):
        monkeypatch.setattr(module, "_PAUSE_S", 0)
