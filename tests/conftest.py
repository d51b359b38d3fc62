from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import botocore.session
import pytest

from magicfs.filesystem import MagicFileSystem
from magicfs.runtime import watchers
from magicfs.stores import resolve

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

pytest.register_assert_rewrite("proofs.tree_exam", "proofs.committer_exam", "proofs.scenes.store_subjects")

pytest_plugins = ["proofs.doubles.fixtures", "magicfs.testing.exam_summary", "tests.sample"]


# Every client loads the description of S3 anew, for 200 ms and 10 MB; all clients of a test process share it.
botocore.session.create_loader = functools.cache(botocore.session.create_loader)


@pytest.fixture(autouse=True)
def _no_filesystem_outlives_its_test() -> Iterator[None]:
    """Let fsspec forget its instances: of ten thousand tests, each with a store of its own, none would go."""
    yield
    MagicFileSystem.clear_instance_cache()


@pytest.fixture(autouse=True)
def _nothing_outlives_its_test() -> Iterator[None]:
    """What guests put around stores or let watch jobs would stay for the tests that follow."""
    yield
    left = [*resolve.AROUND, *watchers.WATCHERS]
    assert left == [], f"this test leaves guests behind: {left}"


@pytest.fixture(autouse=True, scope="module")
def _no_client_outlives_its_module() -> Iterator[None]:
    """The same for those of S3 and Azure."""
    yield
    if (s3fs := sys.modules.get("s3fs")) is not None:
        s3fs.S3FileSystem.clear_instance_cache()
    if (adlfs := sys.modules.get("adlfs")) is not None:
        adlfs.AzureBlobFileSystem.clear_instance_cache()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let collections of garbage not look at twenty thousand tests, for half a second each."""
    gc.collect()
    gc.freeze()


# What of the tests with Spark starts no JVM, or a process of its own.
WITHOUT_SESSION = tuple(
    f"tests/spark/test_{name}.py"
    for name in (
        *("demo", "java", "partition_writer", "spark_options", "spark_proof"),
        *("spark_read_alone", "spark_worker", "spark_writer_alone"),
    )
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two more processes than processors: many tests wait, for a server, a JVM, or a clock.

    Not those of a quick run, in which each process collects for longer than it waits.
    """
    return len(os.sched_getaffinity(0)) + (0 if "not slow" in config.option.markexpr else 2)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Give all tests of one Spark to one process: each that has any starts a JVM, and warms it up.

    Unit tests come last. They are many and short, so that no process waits for the end of another.
    """
    from xdist.scheduler import LoadScopeScheduling

    class SparkTogether(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            has_session = nodeid.startswith("tests/spark/") and not nodeid.startswith(WITHOUT_SESSION)
            return "spark" if has_session else super()._split_scope(nodeid)

        def schedule(self) -> None:
            is_first = self.collection is None
            super().schedule()
            if not is_first:
                return
            for scope in [one for one in self.workqueue if one.startswith("tests/unit/")]:
                self.workqueue.move_to_end(scope)
            for scope in [one for one in self.workqueue if one == "spark"]:
                self.workqueue.move_to_end(scope, last=False)

    return SparkTogether(config, log) if config.getvalue("dist") == "loadscope" else None
