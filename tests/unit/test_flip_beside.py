"""``publish="flip"`` beside the way that its proofs walk: other jobs and machines, second tries, rights."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import pickle
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs import datasets
from magicfs.errors import (
    CommitDenied,
    CommitOutcomeUnknown,
    MagicError,
    OutputExists,
    ProtocolViolation,
    Unavailable,
    UsageError,
)
from magicfs.manifests import chain
from magicfs.protocol.flip import job_of as job_of_directory
from magicfs.stores import exchange_by_renames, local_exchange
from magicfs.stores.interrupt import run_on
from magicfs.stores.local import LocalStore
from magicfs.stores.local_tree import LocalTree
from magicfs.transaction import driver, flip, flip_checks
from magicfs.transaction.execute import Executor
from tests.unit.test_flip import beside, job_of, publish, seen, work, write

pytestmark = pytest.mark.sample(most=3)


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake" / "sales"


@pytest.fixture
def by_renames(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system that cannot exchange two directories."""
    monkeypatch.setattr(local_exchange, "_renameat2", lambda: None)
    monkeypatch.setattr(exchange_by_renames, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(exchange_by_renames, "_LAST_PAUSE_S", 0.001)


def open_job(destination: Path, name: str = "b", **options: Any) -> tuple[magicfs.Job, magicfs.TaskCommit]:
    """A job whose only task is committed."""
    job = job_of(destination, **options).setup()
    with job.task(0) as task:
        write(task, name, name.encode())
    assert task.committed is not None
    return job, task.committed


def url(destination: Path) -> str:
    return f"file://{destination}"


def recovered(destination: Path, **how: Any) -> list[tuple[str, str]]:
    return [(one.found, one.action) for one in magicfs.recover(url(destination), **how).jobs]


async def aside(program: Callable[[], Any]) -> Any:
    """What another process does while this one stands still."""
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(program()))
    thread.start()
    await asyncio.to_thread(thread.join)
    return done[0]


def whole(destination: Path) -> None:
    """Nothing is left, and manifests agree with what is there."""
    report = magicfs.verify(url(destination))
    assert (report.missing, report.altered, report.foreign) == ((), (), ())
    assert (beside(destination), work(destination)) == ([], [])


def test_partitioned_refuses_any_data_for_all_of_it_would_go(sales: Path) -> None:
    publish(sales, "d=1/a", "d=2/b", publish="files", conflict="fail", committer="partitioned")
    with pytest.raises(OutputExists):
        publish(sales, "d=3/c", conflict="fail", committer="partitioned")
    assert seen(sales) == ["d=1/a", "d=2/b"]
    whole(sales)


# -- renames that fail, and other machines ---------------------------------------------------------------


class Failing:
    """Fails so many renames of a new dataset into its place, before or after they took place."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, times: int, *, lost: bool = False) -> None:
        self.left, self.lost, self.real = times, lost, LocalTree._rename

        def rename(tree: LocalTree, source: str, destination: str) -> None:
            self.rename(tree, source, destination)

        monkeypatch.setattr(LocalTree, "_rename", rename)

    def rename(self, tree: LocalTree, source: str, destination: str) -> None:
        if ".magicfs-" in source and not destination.endswith("~old") and self.left:
            self.left -= 1
            if self.lost:
                self.real(tree, source, destination)
            raise Unavailable("rename", source, "503")
        self.real(tree, source, destination)


@pytest.mark.usefixtures("by_renames")
@pytest.mark.parametrize("lost", [False, True])
def test_rename_that_fails_once_or_whose_answer_is_lost_is_looked_after(
    sales: Path, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    publish(sales, "a")
    Failing(monkeypatch, 1, lost=lost)
    publish(sales, "b")
    assert seen(sales) == ["b"]
    whole(sales)


@pytest.mark.usefixtures("by_renames")
@pytest.mark.parametrize("then", ["commit", "recover", "recover --job", "abort", "other machine"])
def test_driver_that_stops_between_two_renames(
    sales: Path, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    publish(sales, "a")
    job, committed = open_job(sales)
    failing = Failing(monkeypatch, 10**6)
    with pytest.raises(CommitOutcomeUnknown):
        job.commit([committed])
    assert not sales.exists()
    failing.left = 0
    match then:
        case "commit":
            assert job.commit([committed]).files == 1
        case "recover":
            assert recovered(sales) == [("flipped", "finished")]
        case "recover --job":
            with pytest.raises(CommitDenied):
                magicfs.recover(url(sales), job=str(job.id), rollback=True)
            assert recovered(sales, job=str(job.id)) == [("flipped", "finished")]
        case "abort":
            with pytest.raises(ProtocolViolation, match="published"):
                job.abort()
        case "other machine":  # whose system exchanges in one step
            monkeypatch.undo()
            assert recovered(sales) == [("flipped", "finished")]
    assert seen(sales) == ["b"]
    whole(sales)


@pytest.mark.usefixtures("by_renames")
def test_two_renames_are_atomic_for_nobody_where_something_is_replaced(sales: Path) -> None:
    for conflict in ("replace", "fail"):
        job = job_of(sales, conflict=conflict)
        committer = job.spec.make_committer()
        run_on(job.spec.loop, committer.setup_job)
        promised = committer.guarantees
        expected = conflict == "fail"
        assert promised.atomic_job_commit_list is promised.atomic_job_commit_manifest is expected
        run_on(job.spec.loop, committer.abort_job, ())


def test_full_disk_does_not_stop_what_needs_no_space(sales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(sales, "a")
    job, committed = open_job(sales)

    def full(_: Path) -> bool:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(local_exchange, "can_exchange", full)
    job.commit([committed])
    assert seen(sales) == ["b"]


# -- others at the destination -----------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["_sum", "_move"])
def test_compaction_that_a_flip_overtakes_changes_nothing(
    sales: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    for name in ("a", "b"):
        publish(sales, name, publish="files", conflict="append")
    module: Any = chain if place == "_move" else importlib.import_module("magicfs.datasets.compact")
    real, flipped = getattr(module, place), []

    async def overtaken(*args: Any) -> Any:
        if not flipped and threading.current_thread() is not None and _is_compacting(args):
            flipped.append(True)
            await aside(lambda: publish(sales, "new"))
        return await real(*args)

    monkeypatch.setattr(module, place, overtaken)
    with contextlib.suppress(MagicError):  # it may say so, and be run again
        datasets.compact(url(sales))
    assert flipped
    assert seen(sales) == ["new"]
    whole(sales)
    publish(sales, "more", publish="files", conflict="append")
    assert seen(sales) == ["more", "new"]
    whole(sales)


def _is_compacting(args: tuple[Any, ...]) -> bool:
    conflicts = [one.conflict for one in args if hasattr(one, "conflict")]
    return not conflicts or "compact" in conflicts


def test_open_job_whose_object_another_flip_took_is_left_and_published(sales: Path) -> None:
    publish(sales, "a")
    job, committed = open_job(sales, "x")
    publish(sales, "y")
    assert recovered(sales, dry_run=True) == [("open", "left")]
    assert recovered(sales) == [("open", "left")]
    job.commit([committed])
    assert seen(sales) == ["x"]
    whole(sales)


@pytest.mark.parametrize("how", ["recover", "recover --job", "abort"])
def test_open_job_whose_object_another_flip_took_is_aborted_by_name(sales: Path, how: str) -> None:
    publish(sales, "a")
    job, committed = open_job(sales, "x")
    publish(sales, "y")
    match how:
        case "recover":
            assert recovered(sales, abort=True) == [("open", "aborted")]
        case "recover --job":
            assert recovered(sales, abort=True, job=str(job.id)) == [("open", "aborted")]
        case "abort":
            datasets.abort(url(sales), job=str(job.id))
    with pytest.raises(CommitDenied):
        job.commit([committed])
    assert seen(sales) == ["y"]
    whole(sales)


def test_job_below_that_has_published_nothing_yet_keeps_a_flip_away(sales: Path) -> None:
    (sales / "sub").mkdir(parents=True)
    below = magicfs.Job(url(sales / "sub"), conflict="append").setup()
    with below.task(0) as task:
        write(task, "y", b"y")
    with pytest.raises(CommitDenied, match="sub"):
        publish(sales, "x", conflict="fail")
    assert task.committed is not None
    below.commit([task.committed])
    assert seen(sales) == ["sub/y"]
    assert beside(sales) == []


def test_job_below_that_comes_at_the_last_moment_is_kept(
    sales: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(sales, "a")
    real = flip.join

    def begin() -> None:
        below = magicfs.Job(url(sales / "sub"), conflict="append").setup()
        with below.task(0) as task:
            write(task, "y", b"y")

    async def join(*args: Any) -> Any:
        found = await real(*args)
        if not (sales / "sub").exists():
            await aside(begin)
        return found

    monkeypatch.setattr(flip, "join", join)
    report = publish(sales, "x")
    assert "kept" in "".join(report.warnings)
    [kept] = beside(sales)
    assert [path for path in (sales.parent / kept / "sub").rglob("*.pendingset") if path.is_file()]
    assert [path for path in (sales.parent / kept / "sub").rglob("job.json") if path.is_file()]


def test_open_upload_of_a_writer_without_a_job_is_kept(sales: Path) -> None:
    publish(sales, "a")
    asyncio.run(LocalStore().create_upload(f"{sales}/c".lstrip("/"), metadata={}))
    assert "(open)" in "".join(publish(sales, "b").warnings)
    assert recovered(sales) == [("flipped", "not finished")]
    assert len(list(sales.parent.rglob("upload.json"))) == 1


def test_what_is_kept_does_not_block_a_destination_that_is_gone(
    sales: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(sales, "a")
    real = flip.join

    async def join(*args: Any) -> Any:
        found = await real(*args)
        (sales / "late.csv").write_bytes(b"late")
        return found

    monkeypatch.setattr(flip, "join", join)
    publish(sales, "b")
    monkeypatch.undo()
    [kept] = beside(sales)
    shutil.rmtree(sales)
    publish(sales, "c", publish="files", conflict="append")
    assert recovered(sales) == [("flipped", "not finished")]
    assert (sales.parent / kept / "late.csv").read_bytes() == b"late"
    assert seen(sales) == ["c"]


def test_datasets_whose_names_hold_the_mark_are_not_taken_for_work(sales: Path) -> None:
    publish(sales, "a")
    other = sales.parent / "sales.magicfs-x"
    job, committed = open_job(other)
    assert job_of_directory("lake/sales", f"lake/.sales.magicfs-x.magicfs-{job.id}") is None
    assert recovered(sales) == []
    job.commit([committed])
    assert seen(other) == ["b"]
    with pytest.raises(UsageError, match="job id"):
        job_of(sales, job_id="x.magicfs-1").setup()


@pytest.mark.parametrize("directory", ["_temporary_id=1", "__magic=1"])
def test_partitions_whose_names_begin_like_work_are_data(sales: Path, directory: str) -> None:
    publish(sales, f"{directory}/a")
    publish(sales, f"{directory}/b")
    assert [path.name[0] for path in (sales / directory).iterdir()] == ["b"]
    assert beside(sales) == []


# -- what is taken along -------------------------------------------------------------------------------------


def test_hidden_files_are_those_of_the_last_try(sales: Path) -> None:
    publish(sales, "a")
    (sales / "_note").write_text("v1")
    (sales / "_gone").write_text("gone")
    other = magicfs.Job(url(sales), conflict="append").setup()
    job, committed = open_job(sales)
    with pytest.raises(CommitDenied):
        job.commit([committed])
    (sales / "_note").write_text("v2")
    (sales / "_gone").unlink()
    other.abort()
    report = job.commit([committed])
    assert (report.tasks, report.files, report.warnings) == (1, 1, ())
    assert (sales / "_note").read_text() == "v2"
    assert not (sales / "_gone").exists()
    assert beside(sales) == []


def test_hidden_file_that_vanishes_and_links_do_not_stop_a_flip(
    sales: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(sales, "d=1/a")
    (sales / ".tmp.rsync").write_text("v1")
    (sales / "_latest").symlink_to("d=1")
    real = flip_checks.carry

    async def carry(*args: Any) -> Any:
        (sales / ".tmp.rsync").unlink(missing_ok=True)
        return await real(*args)

    monkeypatch.setattr(flip_checks, "carry", carry)
    publish(sales, "d=1/b")
    assert (sales / "_latest").is_symlink()
    assert (sales / "_latest").readlink() == Path("d=1")
    assert beside(sales) == []


@pytest.mark.parametrize("way", ["one step", "renames"])
def test_nobody_may_read_more_than_before(sales: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if way == "renames":
        monkeypatch.setattr(local_exchange, "_renameat2", lambda: None)
    publish(sales, "a", publish="files")
    sales.chmod(0o2750)
    (sales / "_secret").write_text("s")
    (sales / "_secret").chmod(0o600)
    publish(sales, "b")
    assert stat.S_IMODE(sales.stat().st_mode) == 0o2750
    assert stat.S_IMODE((sales / "_secret").stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owner_of_the_destination_stays(sales: Path) -> None:
    publish(sales, "a", publish="files")
    os.chown(sales, 65534, 65533)
    publish(sales, "b")
    assert (sales.stat().st_uid, sales.stat().st_gid) == (65534, 65533)


def test_summaries_without_data_are_taken_along(sales: Path) -> None:
    sales.mkdir()
    (sales / "_metadata").write_text("m")
    assert publish(sales, "b", conflict="fail").warnings == ()
    assert (sales / "_metadata").read_text() == "m"
    assert beside(sales) == []


# -- second tries --------------------------------------------------------------------------------------------


def test_second_of_two_flips_is_published_at_its_first_commit(sales: Path) -> None:
    publish(sales, "a")
    job, committed = open_job(sales, "x")
    publish(sales, "y")
    assert job.commit([committed]).files == 1
    assert seen(sales) == ["x"]
    whole(sales)


def test_recovery_that_finishes_beside_its_driver_lets_it_know(
    sales: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(sales, "a")
    job, committed = open_job(sales)
    real, done = flip._rename_in_success, []

    async def rename(*args: Any) -> None:
        await real(*args)
        if not done:
            done.append(True)
            done.append(await aside(lambda: recovered(sales)))

    monkeypatch.setattr(flip, "_rename_in_success", rename)
    assert job.commit([committed]).files == 1
    assert done[1] == [("committing", "finished")]
    whole(sales)


@pytest.fixture
def died_while_completing(sales: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[magicfs.Job, Path]:
    publish(sales, "a")
    job, committed = open_job(sales)

    async def dies(_self: Executor, _version: Any) -> Any:
        raise Unavailable("complete", "x", "gone")

    with monkeypatch.context() as patch:
        patch.setattr(Executor, "_complete", dies)
        with pytest.raises(CommitOutcomeUnknown):
            job.commit([committed])
    return job, sales


def test_next_attempt_goes_on_where_the_first_one_died(
    died_while_completing: tuple[magicfs.Job, Path],
) -> None:
    job, sales = died_while_completing
    assert recovered(sales) == [("open", "left")]
    second = job_of(sales, job_id=job.id, attempt=1).setup()
    report = second.commit([])
    assert report.files == 1
    assert seen(sales) == ["b"]
    whole(sales)


def test_what_a_next_attempt_writes_too_late_is_discarded(
    sales: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(sales, "a")
    job, committed = open_job(sales, "x")
    real = driver.prepare

    async def dies(engine: Any, context: Any, *args: Any) -> Any:
        if context.new:
            raise Unavailable("put", "x", "died")
        return await real(engine, context, *args)

    with monkeypatch.context() as patch:
        patch.setattr(driver, "prepare", dies)
        with pytest.raises(Unavailable):
            job.commit([committed])
    second = job_of(sales, job_id=job.id, attempt=1).setup()
    with second.task(0) as task:
        write(task, "x", b"again")
    assert task.committed is not None
    report = second.commit([task.committed])
    assert "earlier attempt" in "".join(report.warnings)
    assert [path.read_bytes() for path in sales.glob("x*")] == [b"x"]
    whole(sales)


@pytest.mark.parametrize("place", ["exchange", "write_record"])
def test_next_run_of_the_same_ends_what_the_first_one_left(
    sales: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    publish(sales, "a")
    job, committed = open_job(sales, run_id="r")

    async def dies(*_args: Any, **_how: Any) -> Any:
        raise Unavailable(place, "x", "gone")

    with monkeypatch.context() as patch:
        patch.setattr(flip, place, dies)
        with pytest.raises((CommitOutcomeUnknown, Unavailable)):
            job.commit([committed])
    publish(sales, "c", run_id="r")
    assert seen(sales) == (["b"] if place == "exchange" else ["c"])
    whole(sales)


def test_record_that_is_written_too_late_goes(sales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(sales, "a")
    job, committed = open_job(sales)
    real = flip.write_record

    async def late(*args: Any) -> Any:
        await aside(lambda: recovered(sales, abort=True))
        return await real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(flip, "write_record", late)
        with pytest.raises(CommitDenied):
            job.commit([committed])
    whole(sales)
    publish(sales, "c")


def test_attempt_that_forgets_to_flip_is_refused(sales: Path) -> None:
    publish(sales, "a")
    job, committed = open_job(sales)
    with pytest.raises(UsageError, match="publish='flip'"):
        magicfs.Job(url(sales), conflict="replace", job_id=job.id, attempt=1).setup()
    job.commit([committed])


def test_command_cannot_commit_a_flip_and_says_what_can(sales: Path) -> None:
    publish(sales, "a")
    job, committed = open_job(sales)
    for allow_empty in (False, True):
        with pytest.raises(UsageError, match="attempt=1"):
            datasets.commit(url(sales), str(job.id), allow_empty=allow_empty)
    job.commit([committed])
    assert seen(sales) == ["b"]


@pytest.fixture(params=["store", "memory"])
def late_task(sales: Path, request: pytest.FixtureRequest) -> str:
    """A task that writes after its job has flipped; the job's id."""
    job = job_of(sales, tracking=request.param, conflict="fail").setup()
    with job.task(0) as task:
        write(task, "b", b"b")
    raw = pickle.dumps(job.task(7))
    assert task.committed is not None
    job.commit([task.committed])
    late = pickle.loads(raw)  # it was asleep in another process
    late.setup()
    with late.filesystem.open(f"{late.path}/late", "wb") as file:
        file.write(b"late")
    return str(job.id)


def test_command_finds_what_a_late_task_has_left(sales: Path, late_task: str) -> None:
    datasets.abort(url(sales), job=late_task)
    assert list(sales.parent.rglob("upload.json")) == []
    assert seen(sales) == ["b"]
    assert beside(sales) == []
