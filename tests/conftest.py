from __future__ import annotations

import functools
import sys
from collections.abc import Iterator

import botocore.session
import pytest
from hypothesis import settings

from magicfs.filesystem import MagicFileSystem

pytest.register_assert_rewrite("proofs.tree_exam", "proofs.committer_exam")

pytest_plugins = ["magicfs.testing.fixtures", "magicfs.testing.exam_summary"]

# A deadline is a timed assertion, and fails on a busy machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


# Every client loads the description of S3 anew, for 200 ms and 10 MB; all clients of a test process share it.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)


@pytest.fixture(autouse=True)
def _no_filesystem_outlives_its_test() -> Iterator[None]:
    """Let fsspec forget its instances: of ten thousand tests, each with a store of its own, none would go."""
    yield
    MagicFileSystem.clear_instance_cache()


@pytest.fixture(autouse=True, scope="module")
def _no_client_outlives_its_module() -> Iterator[None]:
    """The same for those of S3."""
    yield
    if (s3fs := sys.modules.get("s3fs")) is not None:
        s3fs.S3FileSystem.clear_instance_cache()
