"""What tests do that need a Java where there is none."""

from __future__ import annotations

import os

import pytest

from examples.flights.java import JavaProblem, require_java

__all__ = ["skip_without_java"]


def skip_without_java() -> None:
    """Skip the test that runs, with what is wrong with the Java that is here; fail it in CI."""
    try:
        require_java()
    except JavaProblem as problem:
        if os.environ.get("CI") == "true":
            pytest.fail(str(problem))
        pytest.skip(str(problem))
