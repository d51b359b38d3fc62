"""Jobs of Hadoop's manifest committer whose driver died: told, finished or discarded, and never in part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.datasets import abort, commit, preview_commit, recover
from magicfs.datasets.abort import abort_job
from magicfs.datasets.commit import commit_listed
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, CommitFailed, MagicError, UsageError
from magicfs.protocol.paths import parse_url
from magicfs.stores.local.store import LocalStore
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash, Fault, Kind
from proofs.scenes.hadoop_manifest_jobs import HadoopManifestJob
from proofs.scenes.manifests import published_manifest
from tests.sample import Some

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def job(tmp_path: Path) -> HadoopManifestJob:
    return HadoopManifestJob(tmp_path / "día 50% + #1" / "sales")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_command(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        told = capsys.readouterr()
        return code, told.out, told.err

    return run_command


def url_of(job: HadoopManifestJob) -> str:
    return f"file://{job.destination}"


def everything(job: HadoopManifestJob) -> dict[str, bytes]:
    found = (path for path in job.destination.rglob("*") if path.is_file())
    return {path.relative_to(job.destination).as_posix(): path.read_bytes() for path in found}


def data(job: HadoopManifestJob) -> dict[str, bytes]:
    found = everything(job)
    return {name: found[name] for name in found if not name.startswith(("_", "."))}


def check_ended(job: HadoopManifestJob, *, published: bool) -> None:
    assert data(job) == (job.files if published else {})
    assert [name for name in everything(job) if name.startswith(("_temporary", "__magic"))] == []
    assert recover(url_of(job)).jobs == ()


@pytest.mark.parametrize("renamed", [0, 3])
def test_recover_tells_of_it_and_changes_nothing(job: HadoopManifestJob, run: Run, renamed: int) -> None:
    job.rename(renamed)
    before = everything(job)
    code, out, _ = run("recover", url_of(job))
    assert code == 1
    for told in (
        job.id,
        "Hadoop's manifest committer",
        "2 tasks, 4 files",
        f"{4 - renamed} files to be renamed",
    ):
        assert told in out
    assert ("3 of the files, by its driver" in out) is bool(renamed)
    assert everything(job) == before
    code, shown, _ = run("show", f"{url_of(job)}/_temporary/{job.id}")
    assert (code, job.id in shown, "2 tasks, 4 files" in shown) == (0, True, True)
    with pytest.raises(UsageError, match="--driver-is-dead"):
        recover(url_of(job), abort=True)
    assert everything(job) == before


@pytest.mark.parametrize("renamed", [0, 1, 4])
def test_it_is_published_whole(job: HadoopManifestJob, run: Run, renamed: int) -> None:
    job.rename(renamed)
    before = everything(job)
    code, _, err = run("recover", "--commit", url_of(job), "--job", job.id)
    assert (code, "--driver-is-dead" in err) == (2, True)
    listed = preview_commit(url_of(job), job.id, driver_is_dead=True)
    assert (listed.tasks, listed.files, listed.published) == (2, 4, renamed)
    assert everything(job) == before
    assert run("recover", "--commit", url_of(job), "--job", job.id, "--driver-is-dead")[0] == 0
    check_ended(job, published=True)
    assert {one.key for one in published_manifest(url_of(job)).files} == set(job.files)
    assert run("verify", url_of(job))[0] == 0


def test_of_several_job_attempts_the_last_counts(job: HadoopManifestJob) -> None:
    again = HadoopManifestJob(job.destination, attempt=1, id=job.id)
    commit(url_of(job), job.id, driver_is_dead=True)
    check_ended(again, published=True)


def test_it_is_discarded(job: HadoopManifestJob, run: Run) -> None:
    (job.destination / "old.bin").write_bytes(b"old")
    before = everything(job)
    assert run("recover", "--abort", url_of(job), "--job", job.id)[0] == 2
    assert run("recover", "--abort", url_of(job), "--job", job.id, "--driver-is-dead", "--dry-run")[0] == 1
    assert everything(job) == before
    assert run("recover", "--abort", url_of(job), "--job", job.id, "--driver-is-dead")[0] == 0
    assert everything(job) == {"old.bin": b"old"}


def test_in_part_it_is_not_discarded(job: HadoopManifestJob) -> None:
    job.rename(2)
    before = everything(job)
    with pytest.raises(CommitDenied, match="2 of 4 files"):
        abort(url_of(job), job=job.id, driver_is_dead=True)
    assert everything(job) == before


def test_file_that_is_gone_is_told_before_anything_is_changed(job: HadoopManifestJob) -> None:
    job.source(list(job.files)[-1]).unlink()
    before = everything(job)
    with pytest.raises(CommitFailed, match="1 of 4 files"):
        commit(url_of(job), job.id, driver_is_dead=True)
    assert everything(job) == before


def test_name_that_is_taken_is_refused_and_kept(job: HadoopManifestJob) -> None:
    taken = job.destination / next(iter(job.files))
    taken.parent.mkdir(parents=True)
    taken.write_bytes(b"theirs")
    with pytest.raises(MagicError, match="taken"):
        commit(url_of(job), job.id, driver_is_dead=True)
    assert data(job) == {next(iter(job.files)): b"theirs"}
    assert job.source(next(iter(job.files))).is_file()


def test_malformed_manifest_keeps_it_from_being_committed(job: HadoopManifestJob) -> None:
    job.manifest(1).write_bytes(b"{")
    [one] = recover(url_of(job)).jobs
    assert one.foreign is not None
    assert "malformed" in one.foreign.problem
    before = everything(job)
    with pytest.raises(CommitFailed, match="malformed"):
        commit(url_of(job), job.id, driver_is_dead=True)
    assert everything(job) == before


def test_work_of_other_committers_is_none(tmp_path: Path) -> None:
    (tmp_path / "_temporary" / "0" / "_temporary").mkdir(parents=True)
    ours = magicfs.Job(f"file://{tmp_path}", committer="manifest", mode="append").setup()
    assert [one.foreign for one in recover(f"file://{tmp_path}").jobs] == [None]
    ours.abort()


# -- killed anywhere ---------------------------------------------------------------------------------------


def command(job: HadoopManifestJob, name: str, *faults: Fault) -> Traffic:
    traffic = Traffic(faults)
    engine = Engine(faulty(LocalStore(), traffic, Actor(name)), 1)
    location = parse_url(url_of(job))

    async def work() -> None:
        try:
            if name == "commit":
                await commit_listed(engine, location, job.id, driver_is_dead=True)
            else:
                await abort_job(engine, location, job=job.id, driver_is_dead=True)
        except (Crash, MagicError):
            return

    asyncio.run(work())
    return traffic


@pytest.mark.slow
@pytest.mark.parametrize("name", ["commit", "abort"])
@pytest.mark.parametrize("renamed", [0, 2])
def test_command_killed_at_each_of_its_requests(name: str, renamed: int, tmp_path: Path, some: Some) -> None:
    def begun(number: int) -> HadoopManifestJob:
        job = HadoopManifestJob(tmp_path / str(number) / "sales 50%")
        job.rename(renamed)
        return job

    requests = command(begun(0), name).count
    kinds = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER)
    for number in some(range(1, 2 * requests + 1), 12):
        job = begun(number)
        command(job, name, Fault(kinds[number % 2], number=(number + 1) // 2))
        wanted = name == "commit" or renamed > 0
        if any(one.action == "left" for one in recover(url_of(job)).jobs):
            if wanted:
                commit(url_of(job), job.id, driver_is_dead=True)
            else:
                abort(url_of(job), job=job.id, driver_is_dead=True)
        abort(url_of(job), job=job.id, driver_is_dead=True)  # versions of the job object that say nothing
        check_ended(job, published=wanted)
