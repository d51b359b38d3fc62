from __future__ import annotations

import pytest

from proofs.scenes.memory_scene import MemoryScene


@pytest.fixture
def scene() -> MemoryScene:
    return MemoryScene()
