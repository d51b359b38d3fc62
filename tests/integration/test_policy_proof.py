"""The permissions of a role, as a real server enforces them; ``tox run -e policy`` has all roles."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(900)]


def test_each_role_asks_what_the_table_says() -> None:
    """Or its policy lacks what it needs today."""
    assert proven("--table")["table_as_recorded"]


@pytest.mark.nightly
@pytest.mark.parametrize("role", ["reader", "worker"])
def test_a_role_needs_its_policy_and_no_more(role: str) -> None:
    found = proven("--role", role)
    assert found["table_as_recorded"]
    assert found["wrong"] == []


def proven(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "proofs.policy", *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=800)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return found
