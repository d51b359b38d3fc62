"""The batches of a stream: published once, whatever dies, whoever replays them, whichever way they came."""

from __future__ import annotations

import pickle
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest

import magicfs
from magicfs.datasets.recover import recover_jobs
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.formats import pointer
from magicfs.formats.task_commit import TaskCommit
from magicfs.job.spec import JobSpec
from magicfs.protocol import paths
from magicfs.protocol.ids import TaskId
from magicfs.report import JobReport
from magicfs.spark import batch_jobs
from magicfs.spark.batch_jobs import (
    abort_batch,
    batch_of,
    commit_batch,
    job_id_of,
    published_batch,
    run_of,
    settled_batch,
)
from magicfs.spark.streaming import batches, sink
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash, Fault, Kind
from magicfs.transaction.others import OtherJob, find_unfinished_jobs
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import JobScene
from proofs.scenes.manifests import published_manifest

pytestmark = [pytest.mark.slow, pytest.mark.sample(most=1)]

SINK = "clicks/día"
MODES = pytest.mark.parametrize("mode", ["append", "overwrite"])
# A crash before a request leaves what one after the request before it leaves.
DIES = Kind.CRASH_AFTER


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


def job_of(scene: JobScene, batch: int, mode: Any = "append", sink_id: str = SINK) -> magicfs.Job:
    """As a stream's writer makes it: not set up."""
    return magicfs.Job(
        scene.url,
        mode=mode,
        filesystem=scene.filesystem,
        run_id=run_of(sink_id, batch),
        job_id=job_id_of(scene.url, sink_id, batch),
        options={"tracking": "memory", "allow_empty": True},
    )


def wrote(job: magicfs.Job, body: bytes, tasks: int = 2) -> list[TaskCommit]:
    """What the tasks of one run of a batch return; one more attempt is lost."""
    commits = []
    for number in range(tasks):
        for _ in range(2 if number == 0 else 1):
            task = magicfs.Task(job.spec, TaskId(f"{number:06d}")).setup()
            task.filesystem.pipe_file(f"{task.path}/part-{number}.bin", body)
            commit = task.commit()
        commits.append(commit)
    return commits


def run(scene: JobScene, batch: int, body: bytes, mode: Any = "append") -> JobReport:
    job = job_of(scene, batch, mode)
    return commit_batch(job, SINK, batch, wrote(job, body))


def died(scene: JobScene, fault: Fault, batch: int, body: bytes, mode: Any = "append") -> int:
    """A run of a batch whose commit dies at a request, unless it has fewer; returns how many it had."""
    job = job_of(scene, batch, mode)
    commits = wrote(job, body)
    with requests_of(scene, fault) as traffic, suppress(Crash):
        commit_batch(job, SINK, batch, commits)
    return len(traffic.log)


class requests_of:  # noqa: N801 - reads as a function
    """The requests that drivers make inside fail as told."""

    def __init__(self, scene: JobScene, *faults: Fault) -> None:
        self.scene, self.traffic = scene, Traffic(faults)

    def __enter__(self) -> Traffic:
        store = faulty(self.scene.plain, self.traffic, Actor("driver"))
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(JobSpec, "store", lambda _: store)
        return self.traffic

    def __exit__(self, *_: object) -> None:
        self.patch.undo()


def published(scene: JobScene, batch: int, sink_id: str = SINK) -> str | None:
    place = paths.parse_url(scene.url)
    return scene.elsewhere(lambda engine: published_batch(engine, place, sink_id=sink_id, batch_id=batch))


def assert_clean(scene: JobScene) -> None:
    assert (scene.work(), scene.uploads()) == ([], [])
    assert scene.manifest_files() == set(scene.data())


def listed(scene: JobScene) -> list[int]:
    return [one.batch_id for one in batches(scene.url, SINK, filesystem=scene.filesystem)]


# -- replays ------------------------------------------------------------------------------------------------


def test_batches_are_published_one_by_one_and_can_be_asked_for(scene: JobScene) -> None:
    assert listed(scene) == []
    for number in range(3):
        assert not run(scene, number, b"%d" % number).published_before
        assert_clean(scene)
    found = batches(scene.url, SINK, filesystem=scene.filesystem)
    assert [(one.batch_id, one.files, one.bytes) for one in found] == [(0, 2, 2), (1, 2, 2), (2, 2, 2)]
    manifest = published_manifest(scene.url, found[1].job_id, filesystem=scene.filesystem)
    assert manifest.run_id == f"stream/{SINK}/1"
    assert found[0].committed_at <= found[1].committed_at
    assert found[0].committed_at.tzinfo is not None
    assert batches(scene.url, "another", filesystem=scene.filesystem) == []


@MODES
def test_a_replay_of_a_published_batch_changes_nothing_and_leaves_nothing(
    scene: JobScene, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    run(scene, 0, b"0", mode)
    first = run(scene, 1, b"1", mode)
    before = scene.everything()
    for number in (1, 1, 0):
        report = run(scene, number, b"again", mode)
        assert report.published_before
        assert scene.everything() == before
    assert report.job_id != first.job_id
    assert "batch 0 of sink clicks/día was already published" in caplog.text
    assert listed(scene) == [0, 1]


@MODES
def test_a_commit_that_died_at_any_request_is_made_good_by_the_replay(mode: str) -> None:
    outcomes = set()
    for number in range(1, 200):
        scene = JobScene()
        run(scene, 0, b"0", mode)
        if died(scene, Fault(DIES, number=number), 1, b"first", mode) < number:
            break
        report = run(scene, 1, b"again", mode)
        found = [one for one in scene.bodies() if one != b"0"]
        assert found == [b"first" if report.published_before else b"again"] * 2
        assert (b"0" in scene.bodies()) == (mode == "append")
        assert_clean(scene)
        assert listed(scene) == [0, 1]
        outcomes.add(report.published_before)
    assert 20 < number < 199, "every request was cut"
    assert outcomes == {True, False}


def each_job(scene: JobScene, batch: int, mode: Any) -> magicfs.Job:
    """As the sink of ``foreachBatch`` makes it: its id is its own, and it is set up before its tasks."""
    how = {"mode": mode, "tracking": "memory", "allow_empty": True, "filesystem": scene.filesystem}
    return magicfs.Job(scene.url, run_id=run_of(SINK, batch), **arranged(**how)).setup()


def each(scene: JobScene, batch: int, body: bytes, mode: Any = "append") -> bool:
    """A run of a batch by ``foreachBatch``; whether it was this one that published it."""
    place = paths.parse_url(scene.url)
    how = {"sink_id": SINK, "batch_id": batch}
    if scene.elsewhere(lambda engine: settled_batch(engine, place, **how)) is not None:
        return False
    job = each_job(scene, batch, mode)
    return not job.commit(wrote(job, body)).published_before


def each_died(scene: JobScene, fault: Fault, batch: int, body: bytes, mode: Any = "append") -> int:
    """As ``died``, by ``foreachBatch``."""
    job = each_job(scene, batch, mode)
    commits = wrote(job, body)
    with requests_of(scene, fault) as traffic, suppress(Crash):
        job.commit(commits)
    return len(traffic.log)


def run_again(scene: JobScene, batch: int, body: bytes, mode: Any = "append") -> bool:
    return not run(scene, batch, body, mode).published_before


@pytest.mark.sample(most=1)
@MODES
@pytest.mark.parametrize(
    ("dies", "replays"),
    [(died, each), (each_died, each), (each_died, run_again)],
    ids=lambda one: one.__name__,
)
def test_either_way_to_write_a_stream_makes_good_what_the_other_left_at_any_request(
    mode: str, dies: Any, replays: Any
) -> None:
    outcomes = set()
    for number in range(1, 200):
        scene = JobScene()
        each(scene, 0, b"0", mode)
        if dies(scene, Fault(DIES, number=number), 1, b"first", mode) < number:
            break
        again = replays(scene, 1, b"again", mode)
        found = [one for one in scene.bodies() if one != b"0"]
        assert found == [b"again" if again else b"first"] * 2
        assert_clean(scene)
        assert listed(scene) == [0, 1]
        outcomes.add(again)
    assert 15 < number < 199, "every request was cut"
    assert outcomes == {True, False}


def test_uploads_of_a_batch_whose_job_was_never_set_up_are_discarded_by_the_other_way(
    scene: JobScene,
) -> None:
    wrote(job_of(scene, 0), b"first")
    beside = wrote(job_of(scene, 1), b"next")
    assert each(scene, 0, b"again")
    assert scene.bodies() == [b"again"] * 2
    assert not commit_batch(job_of(scene, 1), SINK, 1, beside).published_before
    assert sorted(scene.bodies()) == [b"again"] * 2 + [b"next"] * 2
    assert_clean(scene)


def test_uploads_of_a_replay_that_died_are_discarded_by_the_other_way(scene: JobScene) -> None:
    assert run_again(scene, 0, b"first")
    wrote(job_of(scene, 0), b"replay")  # its tasks, and then the whole application died
    assert not each(scene, 0, b"again")
    assert scene.bodies() == [b"first"] * 2
    assert_clean(scene)


@pytest.mark.parametrize("replays", [each, run_again], ids=lambda one: one.__name__)
def test_a_job_that_died_when_it_had_finished_its_run_by_another_job_is_discarded(replays: Any) -> None:
    outcomes = set()
    for number in range(1, 200):
        scene = JobScene()
        each(scene, 0, b"0")
        past = Fault(DIES, operation="complete_upload", prefix="sales/")
        died(scene, past, 1, b"first")
        with requests_of(scene, Fault(DIES, number=number)) as traffic, suppress(Crash):
            job = each_job(scene, 1, "append")
            job.commit(wrote(job, b"second"))
        if len(traffic.log) < number:
            break
        again = replays(scene, 1, b"again")
        found = [one for one in scene.bodies() if one != b"0"]
        assert found == [b"first"] * 2
        assert not again
        assert_clean(scene)
        assert listed(scene) == [0, 1]
        outcomes.add(again)
    assert 20 < number < 199, "every request was cut"


def died_before_it_deleted(scene: JobScene) -> None:
    """Batch 1 is published, and replaces batch 0, which is still there."""
    each(scene, 0, b"0", "overwrite")
    cut = Fault(Kind.CRASH_BEFORE, operation="delete_all_matching", prefix="sales/part-")
    each_died(scene, cut, 1, b"1", "overwrite")
    assert sorted(scene.bodies()) == [b"0"] * 2 + [b"1"] * 2


@pytest.mark.parametrize("way", ["foreachBatch", "writeStream"])
def test_what_a_replay_cannot_clean_up_is_logged_and_the_batch_counts_as_published(
    scene: JobScene, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    died_before_it_deleted(scene)
    refused = Fault(Kind.ERROR_BEFORE, operation="delete_all_matching", prefix="sales/part-", times=None)
    if way == "foreachBatch":
        engine, place = scene.engine(Traffic((refused,))), paths.parse_url(scene.url)
        assert scene.lived(lambda: settled_batch(engine, place, sink_id=SINK, batch_id=1)) is not None
    else:
        job = job_of(scene, 1, "overwrite")
        commits = wrote(job, b"again")
        with requests_of(scene, refused):
            assert commit_batch(job, SINK, 1, commits).published_before
    assert "which an earlier run of this batch began: the files are published but" in caplog.text
    assert "run magicfs recover memory://" in caplog.text
    magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover()
    assert scene.bodies() == [b"1"] * 2
    assert_clean(scene)


def test_a_replay_beside_a_recovery_that_is_quicker_finds_the_job_ended(
    scene: JobScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    died_before_it_deleted(scene)
    place = paths.parse_url(scene.url)

    async def found_and_recovered(engine: Engine, destination: str) -> list[OtherJob]:
        found = await find_unfinished_jobs(engine, destination)
        monkeypatch.undo()
        scene.elsewhere(lambda other: recover_jobs(other, place))
        return found

    monkeypatch.setattr(batch_jobs, "find_unfinished_jobs", found_and_recovered)
    engine = scene.engine(Traffic())
    assert scene.lived(lambda: settled_batch(engine, place, sink_id=SINK, batch_id=1)) is not None
    assert scene.bodies() == [b"1"] * 2
    assert_clean(scene)


def test_sparks_abort_after_a_commit_that_died_anywhere_leaves_all_or_nothing() -> None:
    for number in range(1, 200):
        scene = JobScene()
        job = job_of(scene, 0)
        commits = wrote(job, b"first")
        with requests_of(scene, Fault(DIES, number=number)) as traffic, suppress(Crash):
            commit_batch(job, SINK, 0, commits)
        if len(traffic.log) < number:
            break
        abort_batch(job_of(scene, 0), SINK, 0, commits)
        assert scene.bodies() in ([], [b"first"] * 2)
        report = run(scene, 0, b"again")
        assert scene.bodies() == ([b"first"] * 2 if report.published_before else [b"again"] * 2)
        assert_clean(scene)
    assert number > 20


def test_an_abort_that_died_anywhere_does_not_keep_the_replay_from_publishing() -> None:
    for number in range(1, 100):
        scene = JobScene()
        job = job_of(scene, 0)
        commits = wrote(job, b"first")
        assert died_in_commit(scene, job, commits)
        with requests_of(scene, Fault(DIES, number=number)) as traffic, suppress(Crash):
            abort_batch(job_of(scene, 0), SINK, 0, commits)
        if len(traffic.log) < number:
            break
        report = run(scene, 0, b"again")
        assert scene.bodies() == ([b"first"] * 2 if report.published_before else [b"again"] * 2)
        assert_clean(scene)
    assert number > 5


def died_in_commit(scene: JobScene, job: magicfs.Job, commits: list[TaskCommit]) -> bool:
    """Between two completes."""
    cut = Fault(Kind.CRASH_AFTER, operation="complete_upload", prefix="sales/part-")
    with requests_of(scene, cut):
        try:
            commit_batch(job, SINK, 0, commits)
        except Crash:
            return True
    return False


def test_tasks_that_fail_after_a_batch_was_published_leave_it_alone(
    scene: JobScene, caplog: pytest.LogCaptureFixture
) -> None:
    """A replay whose second task fails for good: Spark aborts with the first one's message."""
    run(scene, 0, b"0")
    before = scene.everything()
    for known in (0, 1):
        job = job_of(scene, 0)
        commits = wrote(job, b"again")[:known]
        abort_batch(job, SINK, 0, commits)
        assert scene.everything() == before
    assert "aborted batch 0 of clicks/día, but it is published" in caplog.text


def test_an_abort_before_anything_was_set_up_discards_what_tasks_wrote(scene: JobScene) -> None:
    job = job_of(scene, 0)
    wrote(job, b"0")
    assert len(scene.uploads()) == 3
    abort_batch(job, SINK, 0, ())
    assert (scene.objects(), scene.uploads()) == ({}, [])
    abort_batch(job, SINK, 0, ())


def test_uploads_of_other_batches_and_sinks_are_left_alone(scene: JobScene) -> None:
    wrote(job_of(scene, 11), b"11")
    wrote(job_of(scene, 1, sink_id="another"), b"1")
    before = scene.uploads()
    run(scene, 1, b"1")
    run(scene, 1, b"again")
    assert scene.uploads() == before


# -- both routes --------------------------------------------------------------------------------------------


def by_foreach_batch(scene: JobScene, batch: int, body: bytes) -> magicfs.Job:
    """What ``magicfs.spark.write`` does with the batch's run: a job of a random id."""
    return scene.published({"part-0.bin": body}, {"part-1.bin": body}, run_id=run_of(SINK, batch))


def test_either_route_may_follow_the_other(scene: JobScene) -> None:
    first = by_foreach_batch(scene, 0, b"0")
    assert published(scene, 0) == first.id
    assert run(scene, 0, b"again").job_id == first.id
    report = run(scene, 1, b"1")
    assert published(scene, 1) == report.job_id
    assert by_foreach_batch(scene, 1, b"again").report.published_before
    assert scene.bodies() == [b"0", b"0", b"1", b"1"]
    assert listed(scene) == [0, 1]
    assert_clean(scene)


def test_a_stream_that_died_is_followed_by_foreach_batch() -> None:
    for number in range(1, 200, 3):
        scene = JobScene()
        if died(scene, Fault(DIES, number=number), 0, b"first") < number:
            break
        report = by_foreach_batch(scene, 0, b"again").report
        assert scene.bodies() == ([b"first"] * 2 if report.published_before else [b"again"] * 2)
        assert scene.manifest_files() == set(scene.data())
        assert scene.work() == []
        abort_batch(job_of(scene, 0), SINK, 0, ())
        assert_clean(scene)


# -- batches of long ago ------------------------------------------------------------------------------------


@pytest.fixture
def _few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointer, "RUNS_KEPT", 3)


@pytest.mark.usefixtures("_few_runs")
@pytest.mark.parametrize("compacted", [0, 3, 6, 9])
def test_a_batch_that_the_pointer_has_forgotten_is_found_in_the_chain(
    scene: JobScene, compacted: int
) -> None:
    job = run(scene, 0, b"0").job_id
    for number in range(8):
        if number == compacted - 1:
            magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        scene.published({f"{number}.bin": b"x"}, run_id=f"nightly {number}", mode="append")
    if compacted == 9:
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
    before = scene.everything()
    assert published(scene, 0) == job
    assert published(scene, 1) is None
    assert run(scene, 0, b"again").published_before
    assert scene.everything() == before
    assert listed(scene) == [0]


@pytest.mark.usefixtures("_few_runs")
def test_a_new_batch_asks_only_the_pointer(scene: JobScene) -> None:
    for number in range(6):
        run(scene, number, b"x")
    place, traffic = paths.parse_url(scene.url), Traffic()
    engine = scene.engine(traffic)
    asked = scene.lived(lambda: published_batch(engine, place, sink_id=SINK, batch_id=6))
    assert asked is None
    assert {request.key for request in traffic.log} == {"sales/_magicfs/current.json"}
    assert published(scene, 0) is not None


def test_batches_are_listed_behind_a_sum_and_above_it(scene: JobScene) -> None:
    for number in range(3):
        run(scene, number, b"x", "overwrite")
    found = batches(scene.url, SINK, filesystem=scene.filesystem)
    magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
    assert batches(scene.url, SINK, filesystem=scene.filesystem) == found
    run(scene, 3, b"x", "overwrite")
    assert listed(scene) == [0, 1, 2, 3]
    magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
    assert listed(scene) == [0, 1, 2, 3]
    assert run(scene, 1, b"again").published_before


# -- names --------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_ids_of_batches_are_the_same_everywhere_and_no_other_batches() -> None:
    first = job_id_of("s3://b/x", "s", 1)
    assert first == job_id_of("s3://b/x/", "s", 1)
    others = [("s3://b/x", "s", 11), ("s3://b/x", "s/1", 1), ("s3://b/x1", "s", 1), ("s3://c/x", "s", 1)]
    assert len({first, *(job_id_of(*one) for one in others)}) == 5
    shown = subprocess.run(
        [
            sys.executable,
            "-c",
            "from magicfs.spark.batch_jobs import *; print(job_id_of('s3://b/x', 's', 1))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip() == str(first)


@pytest.mark.parametrize(
    ("run_id", "number"),
    [
        ("stream/a/1", 1),
        ("stream/a/1/2", None),
        ("stream/a/", None),
        ("stream/a/-1", None),
        ("stream/a/x", None),
        ("stream/b/1", None),
        ("a/1", None),
    ],
)
def test_the_batch_of_a_run(run_id: str, number: int | None) -> None:
    assert batch_of(run_id, "a") == number
    assert batch_of(run_of("a", 7), "a") == 7


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 1000])
def test_names_that_are_none_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid sink name"):
        sink("s3://b/x", name)
    with pytest.raises(UsageError, match="is not a valid sink name"):
        batches("s3://b/x", name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run_id": "x"}, "sink\\(\\) has no option run_id; it sets run and job"),
        ({"partitionBy": "x"}, "partition_by"),
        ({"mode": "ignore"}, "would apply to earlier batches"),
        ({"mode": "errorifexists"}, "would apply to earlier batches"),
    ],
)
def test_options_that_cannot_be_right_are_refused_before_any_batch(options: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sink("s3://b/x", "s", **options)


def test_a_url_that_is_none_is_refused_before_any_batch() -> None:
    with pytest.raises(UsageError):
        sink("nowhere", "s")


def test_a_sink_asks_before_it_looks_at_the_frame_and_pickles() -> None:
    url = "memory://stream-batches/sales"
    with magicfs.Job(url, mode="append", run_id=run_of("s", 4)) as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.bin", b"4")
    write = pickle.loads(pickle.dumps(sink(url, "s", storage_options={"password": "hidden"})))
    assert "hidden" not in repr(write)
    sink(url, "s")(None, 4)  # type: ignore[arg-type] - no frame is needed


@pytest.mark.process
def test_importing_the_streams_imports_no_pyspark() -> None:
    code = "import magicfs.spark, sys; magicfs.spark.sink, magicfs.spark.batches; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {name.partition(".")[0] for name in shown.stdout.split()} & {"pyspark", "pyarrow", "pandas"}
