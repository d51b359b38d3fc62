"""Finders of jobs of other programs: asked only where such jobs are looked for, and refused by name."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from uuid import uuid4

import pytest

import magicfs
from magicfs.datasets import Cluster, abort, commit, recover
from magicfs.datasets.finders import find_one, finders
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.protocol.ids import JobId
from magicfs.protocol.paths import Location
from magicfs.runtime import registered
from magicfs.stores.memory.store import MemoryStore, default_world
from proofs.scenes.hadoop_jobs import HadoopJob
from proofs.scenes.unfinished import Bucket

DESTINATION = "sales"


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(f"b-{uuid4().hex[:8]}")


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Lets these entry points, name and value, be all that are installed."""

    def set_up(**values: str) -> None:
        found = tuple(EntryPoint(name, value, "magicfs.finders") for name, value in values.items())
        monkeypatch.setattr(registered, "_points", lambda group: found if group == "magicfs.finders" else ())
        forget()

    yield set_up
    forget()


_points = registered._points


def forget() -> None:
    finders.cache_clear()
    registered.load.cache_clear()
    _points.cache_clear()


def test_hadoops_finder_is_registered() -> None:
    [one] = entry_points(group="magicfs.finders")
    assert (one.name, list(finders())) == ("hadoop", ["hadoop"])


@pytest.mark.parametrize("call", [recover, abort, commit], ids=["recover", "abort", "commit"])
def test_finder_that_cannot_be_loaded_is_named_where_jobs_are_looked_for(
    bucket: Bucket, install: Callable[..., None], call: Callable[..., object]
) -> None:
    HadoopJob(bucket, DESTINATION)
    before = bucket.objects(), bucket.uploads()
    install(hadoop="magicfs_of_nobody.finder:Finder")
    with pytest.raises(UsageError, match=r"'hadoop' of magicfs.finders .*No module.*--force-reinstall"):
        call(bucket.url(DESTINATION), job="some-job")
    assert (bucket.objects(), bucket.uploads()) == before


def test_doctor_says_how_to_mend_a_finder(bucket: Bucket, install: Callable[..., None]) -> None:
    HadoopJob(bucket, DESTINATION)
    install(hadoop="magicfs_of_nobody.finder:Finder")
    found = magicfs.Dataset(bucket.url(DESTINATION)).doctor(read_only=True).findings
    [one] = [one for one in found if one.subject == "list uploads"]
    assert (one.verdict, one.error) == ("wrong", "UsageError")
    assert one.advice.startswith("install it again: python -m pip install --force-reinstall ")


def test_error_names_the_distribution(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "elephants-1.0.dist-info"
    home.mkdir()
    (home / "METADATA").write_text("Metadata-Version: 2.1\nName: elephants\nVersion: 1.0\n")
    (home / "entry_points.txt").write_text("[magicfs.finders]\nelephant = elephants:Finder\n")
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    with pytest.raises(UsageError, match=r"of magicfs.finders comes from elephants and cannot"):
        finders()
    monkeypatch.undo()
    forget()
    assert list(finders()) == ["hadoop"]


def test_job_of_ours_needs_no_finder(bucket: Bucket, install: Callable[..., None]) -> None:
    install(hadoop="magicfs_of_nobody.finder:Finder")
    job = magicfs.Job(bucket.url(DESTINATION), mode="append").setup()
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/part-0", b"x")
    assert commit(bucket.url(DESTINATION), job.id).files == 1


def test_without_finders_jobs_of_other_programs_are_not_found(
    bucket: Bucket, install: Callable[..., None]
) -> None:
    job, url = HadoopJob(bucket, DESTINATION), bucket.url(DESTINATION)
    assert [one.job_id for one in recover(url).jobs] == [job.id]
    install()
    assert recover(url).jobs == ()


def test_job_that_a_command_has_begun_to_finish_needs_the_finder(
    bucket: Bucket, install: Callable[..., None]
) -> None:
    job, url = HadoopJob(bucket, DESTINATION), bucket.url(DESTINATION)
    engine = Engine(MemoryStore(bucket.name, default_world()), 8)
    found = asyncio.run(find_one(engine, Location("memory", bucket.name, DESTINATION), JobId(job.id), None))
    assert found is not None
    asyncio.run(found.take_over())
    before = bucket.objects(), bucket.uploads()
    install()
    for call in (abort, commit):
        with pytest.raises(UsageError, match=r"'hadoop' of magicfs.finders is not installed; nothing"):
            call(url, job=job.id)
    assert (bucket.objects(), bucket.uploads()) == before


@pytest.mark.process
def test_a_job_of_ours_loads_no_finder() -> None:
    code = (
        "import sys, magicfs; job = magicfs.Job('memory://b/d', mode='append').setup(); job.commit(); "
        "print(*[name for name in sys.modules if 'finder' in name or name.startswith('magicfs.hadoop')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"magicfs.datasets.finders", "magicfs.hadoop"} & set(shown.stdout.split())


def test_cluster_is_a_url_or_the_whole() -> None:
    whole = Cluster("hdfs://nn/tmp/staging", "etl")
    assert (Cluster.of(None), Cluster.of(whole)) == (None, whole)
    assert Cluster.of("hdfs://nn/tmp/staging") == Cluster("hdfs://nn/tmp/staging")
