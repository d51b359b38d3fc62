from __future__ import annotations

import pytest

from magicfs.testing.memory_scene import MemoryScene


@pytest.fixture
def scene() -> MemoryScene:
    return MemoryScene()
