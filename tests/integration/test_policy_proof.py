"""The permissions of a role, as a real server enforces them; ``tox run -e policy`` has all roles."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.mark.parametrize("role", ["reader", "worker"])
def test_a_role_needs_its_policy_and_no_more(role: str) -> None:
    command = [sys.executable, "-m", "proofs.policy", "--role", role]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=800)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["table_as_recorded"]
    assert found["wrong"] == []
    assert done.returncode == 0
