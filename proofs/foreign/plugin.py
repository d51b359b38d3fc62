"""pytest plugin of a foreign suite: how each test ended, and in the second run the other filesystems."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

__all__ = ["REPORT_FILE", "SERVER_PORT", "THROUGH"]

REPORT_FILE = "FOREIGN_REPORT_FILE"
"""Environment variable: where the outcomes go."""

SERVER_PORT = "FOREIGN_SERVER_PORT"
"""Environment variable: the port at which the suite expects an S3 server that it does not start itself."""

THROUGH = "FOREIGN_THROUGH"
"""Environment variable: ``task`` if every write goes through a task."""

_outcomes: dict[str, str] = {}
_messages: dict[str, str] = {}
_servers: list[Any] = []


def pytest_configure() -> None:
    """Start the server and put the filesystems in place, before any test is imported."""
    if port := os.environ.get(SERVER_PORT):
        from moto.server import ThreadedMotoServer

        _servers.append(ThreadedMotoServer(ip_address="127.0.0.1", port=int(port), verbose=False))
        _servers[0].start()
    if os.environ.get(THROUGH) == "task":
        from proofs.foreign import filesystems

        filesystems.install()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember the outcome of a test: a failed setup or teardown outweighs its call."""
    outcome: str = report.outcome
    if hasattr(report, "wasxfail"):
        outcome = "xfailed" if report.skipped else "xpassed"
    elif report.failed and report.when != "call":
        outcome = "error"
    if report.when == "call" or outcome != "passed":
        _outcomes[report.nodeid] = outcome
        _messages[report.nodeid] = _last_line(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A module that cannot be collected, or is skipped as a whole, counts as one test."""
    if not report.passed:
        _outcomes[report.nodeid] = "error" if report.failed else "skipped"
        _messages[report.nodeid] = str(report.longrepr)[-300:]


def pytest_sessionfinish() -> None:
    """Write the report."""
    for server in _servers:
        server.stop()
    found = {"outcomes": _outcomes, "messages": {k: v for k, v in _messages.items() if v}}
    Path(os.environ[REPORT_FILE]).write_text(json.dumps(found), encoding="utf-8")


def _last_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return "" if crash is None else str(crash.message).strip()[:300]
