"""``publish="flip"`` on local files: what users and readers see, what is refused, what is left."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.errors import CommitDenied, MagicError, OutputExists, Unavailable, UsageError
from magicfs.protocol import ids
from magicfs.protocol.flip import new_directory
from magicfs.stores import local_exchange
from magicfs.stores.interrupt import run_on
from magicfs.transaction import flip, flip_remains

pytestmark = pytest.mark.sample(most=3)

REPLACING = ["magic", "directory"]
NAMES = ["sales", "wäre 50% +#", "p=1", "a.b~old", " x"]


@pytest.fixture(params=NAMES)
def destination(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    lake = tmp_path / "lake 1"
    lake.mkdir()
    (lake / f"{request.param}0").mkdir()
    (lake / f"{request.param}0" / "a.txt").write_bytes(b"others'")
    found: Path = lake / request.param
    return found


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    (tmp_path / "lake").mkdir()
    return tmp_path / "lake" / "sales"


def job_of(destination: Path, **options: Any) -> magicfs.Job:
    return magicfs.Job(f"file://{destination}", **{"conflict": "replace", "publish": "flip", **options})


def write(task: magicfs.Task, name: str, body: bytes) -> None:
    path = f"{task.path}/{name}"
    task.filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    task.filesystem.pipe_file(path, body)


def publish(destination: Path, *names: str, **options: Any) -> magicfs.JobReport:
    with job_of(destination, **options) as job:
        for number, name in enumerate(names):
            with job.task(number) as task:
                write(task, name, name.encode())
    assert job.report is not None
    return job.report


def seen(destination: Path) -> list[str]:
    """What a reader sees who lists, without what unique names add."""
    files = [path for path in destination.rglob("*") if path.is_file()]
    names = [path.relative_to(destination) for path in files]
    return sorted(str(one).split("-0")[0] for one in names if not any(part[0] in "._" for part in one.parts))


def beside(destination: Path) -> list[str]:
    """What lies hidden in the parent."""
    return sorted(path.name for path in destination.parent.iterdir() if path.name[0] == ".")


def work(destination: Path) -> list[str]:
    return [str(path) for path in destination.rglob("__magic*")]


@pytest.mark.parametrize("committer", REPLACING)
def test_whole_destination_is_published_and_replaced(destination: Path, committer: str) -> None:
    first = publish(destination, "d=1/a", "d=2/b", conflict="fail", committer=committer)
    assert (first.files, first.tasks, first.files_deleted, first.warnings) == (2, 2, 0, ())
    assert seen(destination) == ["d=1/a", "d=2/b"]
    second = publish(destination, "d=3/c", committer=committer)
    assert (second.files, second.files_deleted, second.warnings) == (1, 2, ())
    assert second.committer == committer
    assert seen(destination) == ["d=3/c"]
    (name,) = second.filenames
    assert name.startswith(f"file://{destination}/d=3/c-0")
    assert magicfs.verify(f"file://{destination}").files == 1
    assert (destination / "_SUCCESS").read_text().count(".magicfs-") == 0
    assert beside(destination) == []
    assert work(destination) == []
    assert (destination.parent / f"{destination.name}0" / "a.txt").read_bytes() == b"others'"


def test_partitioned_committer_publishes_where_nothing_is(sales: Path) -> None:
    publish(sales, "d=1/a", "d=2/b", conflict="fail", committer="partitioned")
    assert (seen(sales), beside(sales), work(sales)) == (["d=1/a", "d=2/b"], [], [])


def test_chain_of_manifests_goes_on(sales: Path) -> None:
    before = publish(sales, "a", publish="files")
    publish(sales, "b")
    publish(sales, "c", publish="files", conflict="append")
    report = publish(sales, "d")
    manifests = [path.name for path in (sales / "_magicfs").iterdir()]
    assert len({name.partition(".")[0] for name in manifests}) == 5
    assert f"{before.job_id}.json" in manifests
    assert magicfs.verify(f"file://{sales}").job_id == report.job_id
    assert magicfs.compact(f"file://{sales}") is not None
    publish(sales, "e")
    assert seen(sales) == ["e"]


def test_fail_is_refused_where_data_is(sales: Path) -> None:
    publish(sales, "a")
    with pytest.raises(OutputExists):
        publish(sales, "b", conflict="fail")
    assert (seen(sales), beside(sales), work(sales)) == (["a"], [], [])


def test_hidden_files_of_others_are_taken_along(sales: Path) -> None:
    publish(sales, "a")
    (sales / "_note").write_bytes(b"somebody's")
    (sales / ".hidden").mkdir()
    (sales / ".hidden" / "x").write_bytes(b"too")
    report = publish(sales, "b")
    assert (sales / "_note").read_bytes() == b"somebody's"
    assert (sales / ".hidden" / "x").read_bytes() == b"too"
    assert report.files_deleted == 1
    assert beside(sales) == []


def test_files_without_manifest_are_replaced_too(sales: Path) -> None:
    (sales / "d=1").mkdir(parents=True)
    (sales / "d=1" / "old.csv").write_bytes(b"older than magicfs")
    assert publish(sales, "new").files_deleted == 1
    assert seen(sales) == ["new"]


def test_same_run_is_published_once(sales: Path) -> None:
    publish(sales, "a", run_id="monday")
    again = publish(sales, "b", run_id="monday")
    assert again.published_before
    assert (seen(sales), beside(sales), work(sales)) == (["a"], [], [])


def test_body_that_raises_changes_nothing(sales: Path) -> None:
    publish(sales, "a")
    with pytest.raises(ZeroDivisionError), job_of(sales) as job, job.task(0) as task:
        write(task, "b", b"")
        raise ZeroDivisionError
    assert (seen(sales), beside(sales), work(sales)) == (["a"], [], [])


def test_job_without_files_deletes_nothing_unless_told(sales: Path) -> None:
    publish(sales, "a")
    with pytest.raises(UsageError, match="allow_empty=True"):
        publish(sales)
    assert (seen(sales), beside(sales), work(sales)) == (["a"], [], [])
    publish(sales, allow_empty=True)
    assert (seen(sales), beside(sales), work(sales)) == ([], [], [])


def test_many_tasks_in_threads(sales: Path) -> None:
    publish(sales, "old")
    with job_of(sales) as job, concurrent.futures.ThreadPoolExecutor(8) as pool:

        def one(number: int) -> None:
            with job.task(number) as task:
                write(task, f"d={number % 3}/f{number:02d}", b"%d" % number)

        list(pool.map(one, range(40)))
    assert job.report is not None
    assert job.report.files == len(seen(sales)) == 40


# -- refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"conflict": "append"}, "use conflict='replace' or 'fail'"),
        ({"conflict": "replace_partitions"}, "use conflict='replace' or 'fail'"),
        (
            {"committer": "file", "committer_options": {"algorithm": 2}, "conflict": "fail"},
            "publishes when its tasks commit",
        ),
        ({"committer": "direct", "conflict": "fail"}, "needs a job object"),
        ({"publish": "rename"}, "publish"),
    ],
)
def test_what_no_flip_can_do_is_refused_by_name(sales: Path, options: dict[str, Any], told: str) -> None:
    publish(sales, "a")
    with pytest.raises(UsageError, match=told):
        publish(sales, "b", **options)
    assert (seen(sales), beside(sales), work(sales)) == (["a"], [], [])


def test_extra_destinations_are_refused(sales: Path) -> None:
    with pytest.raises(UsageError, match="extra_destinations"):
        job_of(sales, extra_destinations=[f"file://{sales}2"])


def test_store_that_renames_by_copying_is_refused() -> None:
    with pytest.raises(UsageError, match=r"renames by copying every file; use local files"):
        magicfs.Job("memory://bucket/sales", conflict="replace", publish="flip").setup()


def test_whole_bucket_is_refused() -> None:
    with pytest.raises(UsageError, match="nothing beside a whole bucket"):
        new_directory("", ids.job_id("5f4c2d1e-8a4b-4f0e-9d5a-0c1b2a3d4e5f"))


def test_name_that_would_be_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="choose a shorter name"):
        job_of(tmp_path / ("x" * 220))


def test_symbolic_link_is_refused(sales: Path) -> None:
    publish(sales, "a")
    link = sales.parent / "link"
    link.symlink_to(sales)
    with pytest.raises(UsageError, match="symbolic link; give the directory"):
        publish(link, "b")
    assert (seen(sales), beside(sales), work(sales)) == (["a"], [], [])


def test_mount_point_is_refused() -> None:
    with pytest.raises(UsageError, match="mount point; choose a directory in it"):
        publish(Path("/dev/shm"), "b", allow_empty=True)


# -- others ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("committer", REPLACING)
def test_open_job_is_named_and_afterwards_the_flip_goes_on(sales: Path, committer: str) -> None:
    publish(sales, "a")
    other = magicfs.Job(f"file://{sales}", conflict="append", committer=committer).setup()
    job = job_of(sales, committer=committer).setup()
    with job.task(0) as task:
        write(task, "b", b"")
    assert task.committed is not None
    with pytest.raises(CommitDenied, match=other.id):
        job.commit([task.committed])
    assert seen(sales) == ["a"]
    other.abort()
    job.commit([task.committed])
    assert (seen(sales), beside(sales), work(sales)) == (["b"], [], [])


@pytest.mark.parametrize("name", ["__magic", "__magic_job-1234", "_temporary"])
def test_work_of_a_writer_without_job_object_is_named(sales: Path, name: str) -> None:
    publish(sales, "a")
    (sales / name / "0").mkdir(parents=True)
    (sales / name / "0" / "file").write_bytes(b"")
    with pytest.raises(CommitDenied, match=f"sales/{name} is where"):
        publish(sales, "b")
    assert seen(sales) == ["a"]
    assert beside(sales) == []
    assert (sales / name / "0" / "file").exists()


def test_what_was_written_at_the_last_moment_is_kept_and_named(
    sales: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(sales, "a")
    join = flip.join

    async def late(*args: Any) -> Any:
        found = await join(*args)
        (sales / "d=9").mkdir(exist_ok=True)
        (sales / "d=9" / "late.csv").write_bytes(b"late")
        return found

    monkeypatch.setattr(flip, "join", late)
    report = publish(sales, "b")
    assert seen(sales) == ["b"]
    [warning] = report.warnings
    assert "d=9/late.csv" in warning
    [left] = beside(sales)
    assert (sales.parent / left / "d=9" / "late.csv").read_bytes() == b"late"
    assert report.files_deleted == 1


def test_jobs_that_flip_at_once_are_published_one_after_the_other(sales: Path) -> None:
    publish(sales, "a")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(publish, sales, f"n{number}") for number in range(4)]
    ended = [call.exception() for call in calls]
    assert all(one is None or isinstance(one, CommitDenied) for one in ended), ended
    won = [f"n{number}" for number, one in enumerate(ended) if one is None]
    [last] = seen(sales)
    assert last in (won or ["a"])  # on a busy machine each may have met another one, and given way
    assert magicfs.verify(f"file://{sales}").files == 1
    assert (beside(sales), work(sales)) == ([], [])


def test_chain_that_changes_meanwhile_is_copied_again(sales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(sales, "a")
    publish(sales, "b", conflict="append", publish="files")
    copy, compacted = flip._copy_chain, []

    async def interrupted(engine: Any, destination: str, new: str) -> bool:
        same = await copy(engine, destination, new)
        if not compacted:
            (sales / "_magicfs" / "another.json").write_bytes(b"{}")
            compacted.append(True)
            return False
        return same

    monkeypatch.setattr(flip, "_copy_chain", interrupted)
    publish(sales, "c")
    assert (sales / "_magicfs" / "another.json").exists()
    assert seen(sales) == ["c"]


# -- deaths ----------------------------------------------------------------------------------------------


def dying(monkeypatch: pytest.MonkeyPatch, place: Any, name: str) -> None:
    async def die(*_args: Any, **_kwargs: Any) -> Any:
        raise Unavailable(name, "sales", "nobody answers")

    monkeypatch.setattr(place, name, die)


def left_open(sales: Path) -> magicfs.Job:
    job = job_of(sales).setup()
    with job.task(0) as task:
        write(task, "b", b"b")
    return job


def test_job_that_was_never_committed_is_discarded(sales: Path) -> None:
    publish(sales, "a")
    left_open(sales)
    assert len(beside(sales)) == 1
    told = magicfs.recover(f"file://{sales}", dry_run=True)
    assert [one.found for one in told.jobs] == ["open"]
    magicfs.recover(f"file://{sales}", abort=True)
    assert (seen(sales), beside(sales), work(sales)) == (["a"], [], [])


def test_job_that_was_aborted_elsewhere_is_refused_at_once(sales: Path) -> None:
    publish(sales, "a")
    job = left_open(sales)
    magicfs.recover(f"file://{sales}", abort=True)
    with pytest.raises(CommitDenied, match="ended without being published"):
        job.commit(tasks=1)
    assert (seen(sales), beside(sales), work(sales)) == (["a"], [], [])


@pytest.mark.parametrize("rollback", [False, True])
@pytest.mark.parametrize("step", ["join", "exchange"])
def test_driver_that_dies_past_its_commit_point_is_recovered(
    sales: Path, step: str, rollback: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(sales, "a")
    with monkeypatch.context() as patch:
        dying(patch, flip, step)
        with pytest.raises(MagicError):
            publish(sales, "b")
    assert seen(sales) == ["a"]
    told = magicfs.recover(f"file://{sales}", dry_run=True)
    assert [one.found for one in told.jobs] == ["committing"]
    magicfs.recover(f"file://{sales}", rollback=rollback)
    assert (seen(sales), beside(sales), work(sales)) == (["a" if rollback else "b"], [], [])
    publish(sales, "c")
    assert seen(sales) == ["c"]


def test_old_dataset_that_was_left_is_cleared_by_recover(
    sales: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(sales, "a")
    with monkeypatch.context() as patch:
        dying(patch, flip_remains, "clear_old")
        report = publish(sales, "b")
    assert any("recover" in warning for warning in report.warnings)
    assert seen(sales) == ["b"]
    assert len(beside(sales)) == 1
    told = magicfs.recover(f"file://{sales}", dry_run=True)
    assert [(one.found, one.action) for one in told.jobs] == [("flipped", "would finish")]
    assert len(beside(sales)) == 1
    magicfs.recover(f"file://{sales}")
    assert (seen(sales), beside(sales)) == (["b"], [])
    assert magicfs.recover(f"file://{sales}").jobs == ()


# -- how they change places ------------------------------------------------------------------------------


def test_where_the_system_cannot_exchange_renames_do_it(sales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_exchange, "_renameat2", lambda: None)
    publish(sales, "a", conflict="fail")
    assert publish(sales, "b").files_deleted == 1
    assert (seen(sales), beside(sales), work(sales)) == (["b"], [], [])


@pytest.mark.parametrize(
    ("can", "conflict", "atomic"),
    [(True, "replace", True), (False, "replace", False), (False, "fail", True)],
)
def test_guarantee_says_what_the_filesystem_can(
    sales: Path, can: bool, conflict: str, atomic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can:
        monkeypatch.setattr(local_exchange, "_renameat2", lambda: None)
    job = job_of(sales, conflict=conflict)
    committer = job.spec.make_committer()

    async def asked() -> bool:
        found = await committer.setup_job()
        await committer.abort_job((), found.driver)
        return committer.guarantees.atomic_job_commit_list

    assert run_on(job.spec.loop, asked) is atomic
    assert beside(sales) == []


def test_filesystem_that_is_asked_is_left_as_it_was(sales: Path) -> None:
    before = sorted(sales.parent.iterdir())
    assert local_exchange.can_exchange(sales.parent)
    assert sorted(sales.parent.iterdir()) == before


def test_reader_who_lists_all_the_time_sees_exactly_old_or_exactly_new(sales: Path) -> None:
    publish(sales, *(f"0-{number}" for number in range(20)))
    stop, looks = [], []

    def look() -> None:
        while not stop:
            looks.append({name[0] for name in listed(sales)})

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            for turn in range(1, 6):
                publish(sales, *(f"{turn}-{number}" for number in range(20)))
        finally:
            stop.append(True)
        looking.result()
    assert all(len(each) == 1 for each in looks)
    assert len(looks) > 5


def listed(directory: Path) -> list[str]:
    """One listing of one directory, as an open descriptor gives it: of one inode, whatever its name is."""
    return [path.name for path in directory.iterdir() if path.name[0] not in "._"]
