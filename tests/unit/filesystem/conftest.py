from __future__ import annotations

import pytest

from magicfs.filesystem.tracking import tracker
from proofs.scenes.memory_scene import BUCKET, MemoryScene


@pytest.fixture(autouse=True)
def _nothing_is_remembered_of_other_scenes() -> None:
    """Every scene has the same bucket, and the process remembers files by bucket and path."""
    tracker().forget(f"{BUCKET}/")


@pytest.fixture
def scene() -> MemoryScene:
    return MemoryScene()
