from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _loud_again() -> Iterator[None]:
    """The proofs silence the log of magicfs in the processes that they run in."""
    level = logging.getLogger("magicfs").level
    yield
    logging.getLogger("magicfs").setLevel(level)
