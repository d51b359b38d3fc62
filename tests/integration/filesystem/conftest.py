from __future__ import annotations

from collections.abc import Callable

import pytest

from proofs.doubles.servers import Server
from proofs.scenes.s3_scene import S3Scene


@pytest.fixture
def scene(ministack: Server, bucket_factory: Callable[..., str]) -> S3Scene:
    return S3Scene(ministack, bucket_factory(ministack))
