"""fsspec's abstract suites bound to one filesystem, for a pytest of their own (``test_fsspec_suites.py``).

The environment says which: SUITE_LAYER is ``magic`` or ``wrapped``, SUITE_PROTOCOL and SUITE_OPTIONS name the
filesystem, SUITE_BUCKET an existing bucket.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from fsspec.tests.abstract import AbstractFixtures
from fsspec.tests.abstract.copy import AbstractCopyTests
from fsspec.tests.abstract.get import AbstractGetTests
from fsspec.tests.abstract.open import AbstractOpenTests
from fsspec.tests.abstract.pipe import AbstractPipeTests
from fsspec.tests.abstract.put import AbstractPutTests

import magicfs

BUCKET = os.environ["SUITE_BUCKET"]


class Bound(AbstractFixtures):
    @pytest.fixture
    def fs(self) -> Any:
        magic = magicfs.MagicFileSystem(
            target_protocol=os.environ["SUITE_PROTOCOL"],
            target_options=json.loads(os.environ["SUITE_OPTIONS"]),
        )
        return magic if os.environ["SUITE_LAYER"] == "magic" else magic.fs

    @pytest.fixture
    def fs_join(self) -> Callable[..., str]:
        return lambda *names: "/".join(names)

    @pytest.fixture
    def fs_path(self) -> str:
        return f"{BUCKET}/{uuid.uuid4().hex}"

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False


class TestCopy(Bound, AbstractCopyTests):
    pass


class TestGet(Bound, AbstractGetTests):
    pass


class TestPut(Bound, AbstractPutTests):
    pass


class TestPipe(Bound, AbstractPipeTests):
    pass


class TestOpen(Bound, AbstractOpenTests):
    pass
