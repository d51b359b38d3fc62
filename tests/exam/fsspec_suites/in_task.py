"""fsspec's abstract suites inside a task, for a pytest of their own (``test_fsspec_suites.py``).

The environment says where: SUITE_TRACKING is the job's tracking, SUITE_URL its destination, SUITE_OPTIONS are
its storage options. Each test runs in a task of its own; the last one publishes what all of them have left.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pytest
from fsspec.tests.abstract import AbstractFixtures
from fsspec.tests.abstract.copy import AbstractCopyTests
from fsspec.tests.abstract.get import AbstractGetTests
from fsspec.tests.abstract.open import AbstractOpenTests
from fsspec.tests.abstract.pipe import AbstractPipeTests
from fsspec.tests.abstract.put import AbstractPutTests

import magicfs
from magicfs.stores.memory.store import default_world

URL = os.environ["SUITE_URL"]
OPTIONS = json.loads(os.environ["SUITE_OPTIONS"])
TRACKING: Any = os.environ["SUITE_TRACKING"]


class Work:
    """A job, the commits of its tasks, and what each task saw below its path before it committed."""

    def __init__(self) -> None:
        self.job = magicfs.Job(
            URL, mode="append", storage_options=OPTIONS, options={"tracking": TRACKING}
        ).setup()
        self.commits: list[magicfs.TaskCommit] = []
        self.seen: set[str] = set()

    def commit(self, task: magicfs.Task) -> None:
        suffix = f"-{task.id}-{self.job.id}"
        for path in task.filesystem.find(task.path):
            directory, _, name = path.removeprefix(task.path).strip("/").rpartition("/")
            stem, dot, extension = name.partition(".")
            self.seen.add(f"{directory}/{stem}{suffix}{dot}{extension}")
        self.commits.append(task.commit())


@pytest.fixture(scope="session")
def work() -> Work:
    if URL.startswith("memory://"):
        default_world().create_bucket(URL.removeprefix("memory://").partition("/")[0])
    return Work()


class Inside(AbstractFixtures):
    @pytest.fixture
    def task(self, work: Work) -> Iterator[magicfs.Task]:
        task = work.job.task(len(work.commits)).setup()
        yield task
        work.commit(task)

    @pytest.fixture
    def fs(self, task: magicfs.Task) -> Any:
        return task.filesystem

    @pytest.fixture
    def fs_join(self) -> Callable[..., str]:
        return lambda *names: "/".join(names)

    @pytest.fixture
    def fs_path(self, task: magicfs.Task) -> str:
        return f"{task.path}/{uuid.uuid4().hex}"

    @pytest.fixture
    def fs_target(self, fs_path: str) -> str:
        """As the suite's own, but what the test has left there is published."""
        return f"{fs_path}/target"

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False


class TestPut(Inside, AbstractPutTests):
    pass


class TestCopyInto(Inside, AbstractCopyTests):
    """From ordinary paths into the task."""

    @pytest.fixture
    def outside(self) -> str:
        return f"{URL.partition('://')[2]}/_sources/{uuid.uuid4().hex}"

    @pytest.fixture
    def fs_bulk_operations_scenario_0(self, fs: Any, fs_join: Any, outside: str) -> str:
        return self._bulk_operations_scenario_0(fs, fs_join, outside)

    @pytest.fixture
    def fs_glob_edge_cases_files(self, fs: Any, fs_join: Any, outside: str) -> str:
        return self._glob_edge_cases_files(fs, fs_join, outside)

    @pytest.fixture
    def fs_dir_and_file_with_same_name_prefix(self, fs: Any, fs_join: Any, outside: str) -> str:
        return self._dir_and_file_with_same_name_prefix(fs, fs_join, outside)

    @pytest.fixture
    def fs_10_files_with_hashed_names(self, fs: Any, fs_join: Any, outside: str) -> str:
        return self._10_files_with_hashed_names(fs, fs_join, outside)


class TestCopyWithin(Inside, AbstractCopyTests):
    pass


class TestGet(Inside, AbstractGetTests):
    pass


class TestPipe(Inside, AbstractPipeTests):
    pass


class TestOpen(Inside, AbstractOpenTests):
    pass


class TestPublished:
    def test_what_the_tasks_saw_is_published_and_nothing_else(self, work: Work) -> None:
        work.job.commit(work.commits)
        destination = URL.partition("://")[2]
        plain, _ = fsspec.core.url_to_fs(f"magic::{URL}", **{URL.partition("://")[0]: OPTIONS})
        plain.invalidate_cache()
        found = {path.removeprefix(f"{destination}/") for path in plain.find(destination)}
        published = {name for name in found if not name.startswith("_")}
        assert sorted(published - work.seen)[:3] == []
        assert sorted(work.seen - published)[:3] == []
        assert len(work.seen) > 50
