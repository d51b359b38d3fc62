"""Real processes, killed and recovered; and what tells at which request a process was killed."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from magicfs.stores.azure import blocks as azure_blocks
from proofs.doubles.servers import Server
from proofs.kill.__main__ import main
from proofs.kill.campaign import Tally
from proofs.kill.content import Lane, Rows, outcome
from proofs.kill.disk import Disk, DiskWatch
from proofs.kill.ground import Ground, Seen
from proofs.kill.judge import Judge
from proofs.kill.phases import DRIVER, REQUIRED, Phase, newest_version, phase_of, request_of
from proofs.kill.plans import EVERY_SHAPE, plan, undisturbed
from proofs.kill.stores import STORES, Arrived
from proofs.kill.watching import WatchingProxy

pytestmark = pytest.mark.sample(most=1)

ZERO = ("rows_lost", "rows_duplicated", "partial_datasets", "uploads_left", "work_left")
JOB = "a/d/__magic_job-1f/job-1f"


@pytest.mark.parametrize(
    "store",
    ["s3", pytest.param("gcs", marks=pytest.mark.nightly), pytest.param("azure", marks=pytest.mark.nightly)],
)
def test_killed_jobs_are_recovered_and_no_row_is_lost(store: str) -> None:
    # First a whole machine dies, then a worker, and then the first recovery.
    command = [sys.executable, "-m", "proofs.kill", "--kills", "2", "--seed", "2543", "--store", store]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    figures = json.loads(line)
    assert figures["ok"] is True
    assert figures["store"] == store
    assert figures["kills"] == 2 == sum(figures["phases"].values())
    assert {name: figures[name] for name in ZERO} == dict.fromkeys(ZERO, 0)
    assert set(figures["delays_s"]) == set(REQUIRED)


@pytest.mark.nightly
@pytest.mark.parametrize("committer", ["manifest", "file-v1"])
def test_killed_jobs_of_renames_are_recovered_and_no_row_is_lost(committer: str) -> None:
    command = [sys.executable, "-m", "proofs.kill", "--kills", "2", "--seed", "7"]
    command += ["--committer", committer, "--store", "local"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    figures = json.loads(line)
    assert figures["ok"] is True
    assert (figures["store"], figures["committer"]) == ("local", committer)
    assert figures["kills"] == 2 == sum(figures["phases"].values())
    assert {name: figures[name] for name in ZERO} == dict.fromkeys(ZERO, 0)
    assert figures["tracking"] == {"store": 2}


@pytest.mark.parametrize(
    "arguments", [["--committer", "manifest"], ["--committer", "file-v1"], ["--store", "local"]]
)
def test_kill_refuses_a_committer_where_it_is_not_killed(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    assert "with --store local" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--kills", "0"], ["--kills", "many"], ["--rounds-in-parallel", "0"]])
def test_kill_refuses_numbers_that_are_none(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2


def test_every_figure_that_must_be_zero_fails_a_run() -> None:
    wrong: dict[str, Seen] = {
        "rows_lost": Seen(rows_lost=1),
        "rows_duplicated": Seen(rows_duplicated=1),
        "partial_datasets": Seen(partial=1),
        "seen_early": Seen(early=1),
        "seen_torn": Seen(torn=1),
        "uploads_left": Seen(uploads=["key"]),
        "work_left": Seen(work=["key"]),
        "troubles": Seen(troubles=["said"]),
    }
    for name, seen in wrong.items():
        tally = Tally()
        tally.add(undisturbed(EVERY_SHAPE[0], "x"), Seen(killed=[DRIVER]))
        assert tally.clean
        tally.add(undisturbed(EVERY_SHAPE[0], "x"), seen)
        assert not tally.clean
        assert tally.to_dict()[name] == 1
        assert tally.to_dict()["kills"] == 1
        assert tally.to_dict()["late"] == 1


# -- what the judge sees -----------------------------------------------------------------------------------


@pytest.fixture
def bucket(ministack: Server, bucket_factory: Callable[..., str]) -> str:
    return bucket_factory(ministack, "kill")


def judge_of(server: Server, bucket: str, tmp_path: Path, old: list[str], new: list[str]) -> Judge:
    lane = Lane(bucket, "d", "text")
    rows = [Rows(("d1", row) for row in some) for some in (old, new)]
    return Judge(Ground(server, tmp_path), lane, rows[0], rows[1], Seen())


def write(server: Server, bucket: str, key: str, *rows: str) -> None:
    server.s3_client().put_object(Bucket=bucket, Key=key, Body="".join(f"{row}\n" for row in rows).encode())


def test_judge_counts_lost_and_duplicated_rows(ministack: Server, bucket: str, tmp_path: Path) -> None:
    judge = judge_of(ministack, bucket, tmp_path, [], ["a", "b", "c"])
    write(ministack, bucket, "d/day=d1/1.txt", "a", "a", "x")
    write(ministack, bucket, "d/day=d1/_hidden/1.txt", "b")
    write(ministack, bucket, "elsewhere/day=d1/1.txt", "c")
    judge.compare_rows(judge.new, "a test")
    assert (judge.seen.rows_lost, judge.seen.rows_duplicated, judge.seen.partial) == (2, 2, 1)


def test_judge_sees_what_is_visible_too_early_and_what_is_gone(
    ministack: Server, bucket: str, tmp_path: Path
) -> None:
    judge = judge_of(ministack, bucket, tmp_path, ["a", "b"], ["c"])
    write(ministack, bucket, "d/day=d1/1.txt", "a", "b")
    write(ministack, bucket, "d/__magic_job-1f/job-1f/job.json", '{"state": "open"}')
    judge.look_between()
    assert (judge.seen.state, judge.seen.early) == ("open", 0)
    write(ministack, bucket, "d/day=d1/2.txt", "c")
    judge.look_between()
    assert judge.seen.early == 1
    write(ministack, bucket, "d/__magic_job-1f/job-1f/job.json", '{"state": "committing"}')
    judge.look_between()
    assert judge.seen.early == 1
    write(ministack, bucket, "d/day=d1/1.txt", "a")
    write(ministack, bucket, "d/day=d1/2.txt")
    judge.look_between()
    assert judge.seen.early == 2


def test_judge_finds_uploads_and_work_that_are_left(ministack: Server, bucket: str, tmp_path: Path) -> None:
    judge = judge_of(ministack, bucket, tmp_path, [], [])
    judge.look_for_leftovers(lambda _: [])
    assert not judge.seen.troubles
    ministack.s3_client().create_multipart_upload(Bucket=bucket, Key="d/day=d1/1.txt")
    write(ministack, bucket, "dd/__magic_job-1f/x")
    left = "d/__magic_job-1f/job-1f/00/sets/x.pendingset"
    with WatchingProxy(ministack.endpoint, STORES["s3"], "d") as proxy:
        ministack.s3_client(endpoint=proxy.endpoint).put_object(Bucket=bucket, Key=left, Body=b"")
    judge.look_for_leftovers(proxy.history)
    (told,) = [trouble for trouble in judge.seen.troubles if left in trouble]
    assert told.startswith(f"left: {left}; 0.00 s: PutObject by the ")
    assert ": 200 at " in told
    assert judge.seen.uploads == ["d/day=d1/1.txt"]
    assert judge.seen.work == ["d/__magic_job-1f/job-1f/00/sets/x.pendingset"]


def test_judge_finds_work_files_and_uploads_that_are_left_on_a_disk(tmp_path: Path) -> None:
    with Disk() as disk:
        lane = Lane(disk.create_bucket("kill"), "d", "text", scheme="file")
        judge = Judge(Ground(disk, tmp_path, "manifest"), lane, Rows(), Rows(), Seen())
        uploads = "d/__magic_job-1f/.magicfs-uploads"
        left = ["d/__magic_job-1f/x.json", "d/_temporary/1f/0/x.txt", f"{uploads}/1.1.ab/data"]
        beside = ["d/day=d1/_SUCCESS", "d0/_temporary/x", "d/_magicfs/1f.json"]
        dying = [f"{uploads}/ab.new/data", f"{uploads}/1.1.cd/upload.json", "d/_magicfs/.magicfs-ab.tmp"]
        for name in (*left, *beside, *dying):
            file = Path(lane.bucket, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        empty = "d/_temporary/1f/0/tasks"
        for name in (empty, "d/day=d2"):
            Path(lane.bucket, name).mkdir(parents=True)
        judge.look_for_leftovers(lambda _: [])
        assert sorted(judge.seen.work) == sorted(left)
        assert judge.seen.uploads == [left[-1]]
        assert disk.residue(lane.bucket) == sorted([*dying, f"{empty}/"])


AT_WORK = f"{JOB.removeprefix('a/d/')}/job.json"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, Phase.START),
        ({"__magic_job-1f/probe": ""}, Phase.SETUP),
        ({AT_WORK: "open"}, Phase.SETUP),
        ({AT_WORK: "open", "_temporary/manifest_1f/0/tasks/t/x.txt": ""}, Phase.OPEN),
        ({AT_WORK: "open", "_temporary/manifest_1f/0/manifests/t.json": ""}, Phase.TASK_COMMIT),
        ({AT_WORK: "prepared"}, Phase.FACTS),
        ({AT_WORK: "committing"}, Phase.COMPLETE),
        ({AT_WORK: "open", AT_WORK.replace("job.json", "job.00001.json"): "committing"}, Phase.COMPLETE),
        ({AT_WORK: "completed"}, Phase.MANIFEST),
        ({AT_WORK: "completed", "_magicfs/current.json": "1f"}, Phase.DELETE),
        ({AT_WORK: "completed", "_magicfs/current.json": "1f", "_SUCCESS": "1f"}, Phase.CLEANUP),
        ({AT_WORK: "reverting"}, Phase.CLEANUP),
        ({"_SUCCESS": "1f"}, Phase.CLEANUP),
    ],
)
def test_phase_of_a_job_is_told_by_what_lies_on_a_disk(files: dict[str, str], expected: Phase) -> None:
    with Disk() as disk:
        bucket = disk.create_bucket("kill")
        with DiskWatch(disk, bucket, "a/d", slow=True) as watch:
            for name, said in files.items():
                file = Path(bucket, "a/d", name)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps({"state": said}))
            assert watch.phase([DRIVER]) is expected
            assert watch.has_published() == ("_SUCCESS" in files)
            assert watch.job() == (
                "1f" if any("1f/" in name for name in files if "__magic" in name) else None
            )


def test_outcome_of_each_conflict_mode() -> None:
    old = Rows({("d1", "a"): 1, ("d2", "b"): 1})
    tasks = ({"d2": ["c"]}, {"d2": ["d"], "d3": ["e"]})
    new = Rows({("d2", "c"): 1, ("d2", "d"): 1, ("d3", "e"): 1})
    assert outcome("append", old, tasks) == old + new
    assert outcome("overwrite", old, tasks) == new
    assert outcome("overwrite_partitions", old, tasks) == Rows({("d1", "a"): 1}) + new
    assert outcome("error", Rows(), tasks) == new


# -- plans -------------------------------------------------------------------------------------------------


def test_plans_are_repeatable_and_kill_at_uniform_times() -> None:
    plans = [plan(5, number, fresh=False) for number in range(4000)]
    assert plans == [plan(5, number, fresh=False) for number in range(4000)]
    tenths = [sum(int(one.fraction * 10) == tenth for one in plans) for tenth in range(10)]
    assert min(tenths) > 300
    assert max(tenths) < 500
    assert {one.shape for one in plans} | {plan(5, n, fresh=True).shape for n in range(20)} == set(
        EVERY_SHAPE
    )
    assert sum(one.server for one in plans) == 200
    for one in plans[:200]:
        assert one.victims([DRIVER]) == [DRIVER]
        killed = one.victims([DRIVER, "worker-0", "worker-1", "worker-2"])
        assert len(killed) in {1, 4}
        assert killed != ["worker-2"]  # it may never be given a task


# -- phases ------------------------------------------------------------------------------------------------

DONE = {Phase.SETUP, Phase.OPEN, Phase.TASK_COMMIT, Phase.FACTS, Phase.SWAP, Phase.COMPLETE}
TASKS = {Phase.SETUP, Phase.OPEN}


@pytest.mark.parametrize(
    ("role", "operation", "key", "before", "expected"),
    [
        ("worker-0", "CreateMultipartUpload", "a/d/day=1/x.txt", set(), Phase.OPEN),
        ("worker-0", "UploadPart", "a/d/day=1/x.txt", TASKS, Phase.PART),
        ("worker-0", "PutObject", f"{JOB}/00/tasks/t/__base/x.txt", TASKS, Phase.PENDING),
        ("worker-0", "PutObject", f"{JOB}/00/tasks/t/__base/x.txt.pending", TASKS, Phase.PENDING),
        ("worker-0", "GetObject", f"{JOB}/00/tasks/t/__base/x.txt.pending", TASKS, Phase.TASK_COMMIT),
        ("worker-0", "PutObject", f"{JOB}/00/sets/t.pendingset", TASKS, Phase.TASK_COMMIT),
        ("worker-0", "PutObject", f"{JOB}/00/task_1.pendingset", TASKS, Phase.TASK_COMMIT),
        (DRIVER, "PutObject", f"{JOB}/probe-12", set(), Phase.SETUP),
        (DRIVER, "CreateMultipartUpload", f"{JOB}/probe-12", set(), Phase.SETUP),
        (DRIVER, "DeleteObject", f"{JOB}/probe-12", set(), Phase.SETUP),
        (DRIVER, "HeadObject", "a/d", set(), Phase.SETUP),
        (DRIVER, "GetObject", f"{JOB}/00/sets/t.pendingset", TASKS, Phase.FACTS),
        (DRIVER, "PutObject", f"{JOB}/facts/n/00000.json", TASKS, Phase.FACTS),
        (DRIVER, "GetObject", "a/d/_SUCCESS", TASKS, Phase.FACTS),
        (DRIVER, "GetObject", "a/d/_magicfs/current.json", TASKS, Phase.FACTS),
        (DRIVER, "PutObject", f"{JOB}/job.json", TASKS | {Phase.FACTS}, Phase.SWAP),
        (DRIVER, "PutObject", f"{JOB}/job.00002.json", TASKS | {Phase.FACTS}, Phase.SWAP),
        (DRIVER, "GetObject", f"{JOB}/job.json", TASKS | {Phase.FACTS}, Phase.SWAP),
        (DRIVER, "CompleteMultipartUpload", "a/d/day=1/x.txt", TASKS, Phase.COMPLETE),
        (DRIVER, "HeadObject", "a/d/day=1/x.txt", DONE, Phase.COMPLETE),
        (DRIVER, "PutObject", "a/d/_magicfs/1f.json", DONE, Phase.MANIFEST),
        (DRIVER, "GetObject", "a/d/_magicfs/current.json", DONE, Phase.MANIFEST),
        (DRIVER, "DeleteObject", "a/d/day=1/old.txt", DONE, Phase.DELETE),
        (DRIVER, "DeleteObject", "a/d/_SUCCESS", DONE, Phase.SUCCESS),
        (DRIVER, "PutObject", "a/d/_SUCCESS", DONE, Phase.SUCCESS),
        (DRIVER, "DeleteObject", f"{JOB}/job.json", DONE, Phase.CLEANUP),
        (DRIVER, "AbortMultipartUpload", "a/d/day=1/x.txt", TASKS, Phase.CLEANUP),
    ],
)
def test_phase_of_a_request_for_an_object(
    role: str, operation: str, key: str, before: set[Phase], expected: Phase
) -> None:
    assert phase_of(request_of(role, operation, f"/bucket/{key}", ""), "a/d", before) is expected


@pytest.mark.parametrize(
    ("role", "prefix", "before", "expected"),
    [
        (DRIVER, "a/d/", set(), Phase.SETUP),
        (DRIVER, "a/d/__magic", set(), Phase.SETUP),
        (DRIVER, "a/d/", TASKS, Phase.FACTS),
        (DRIVER, f"{JOB}/00/", TASKS, Phase.FACTS),
        (DRIVER, f"{JOB}/", DONE, Phase.CLEANUP),
        ("worker-1", f"{JOB}/00/tasks/t/", TASKS, Phase.TASK_COMMIT),
    ],
)
def test_phase_of_a_listing_depends_on_who_lists_and_when(
    role: str, prefix: str, before: set[Phase], expected: Phase
) -> None:
    query = f"list-type=2&prefix={prefix.replace('/', '%2F')}&encoding-type=url"
    assert phase_of(request_of(role, "ListObjectsV2", "/bucket", query), "a/d", before) is expected


@pytest.mark.parametrize(
    ("role", "keys", "before", "expected"),
    [
        (DRIVER, ["a/d/day=1/old &amp; odd.txt"], DONE, Phase.DELETE),
        (DRIVER, ["a/d/_SUCCESS"], DONE, Phase.SUCCESS),
        (DRIVER, [f"{JOB}/00/sets/t.pendingset", f"{JOB}/facts/n/00000.json"], DONE, Phase.CLEANUP),
        (DRIVER, [f"{JOB}/probe-12"], set(), Phase.SETUP),
        ("worker-0", [f"{JOB}/00/tasks/t/__base/x.txt"], TASKS, Phase.TASK_COMMIT),
    ],
)
def test_phase_of_a_bulk_delete_is_told_by_its_body(
    role: str, keys: list[str], before: set[Phase], expected: Phase
) -> None:
    objects = "".join(f"<Object><Key>{key}</Key><ETag>1</ETag></Object>" for key in keys)
    request = request_of(role, "DeleteObjects", "/bucket", "delete", f"<Delete>{objects}</Delete>".encode())
    assert phase_of(request, "a/d", before) is expected
    assert "&amp;" not in "".join(request.keys)


def test_job_object_that_is_put_first_is_setup_and_its_state_is_read_from_any_body() -> None:
    body = b'1d;chunk-signature=00\r\n{"format": "magicfs.job/1", "state" : "committing"}\r\n0\r\n'
    path = f"/bucket/{JOB}/job.json"
    first = request_of(DRIVER, "PutObject", path, "", body, if_none_match=True)
    later = request_of(DRIVER, "PutObject", path, "", body)
    assert (phase_of(first, "a/d"), phase_of(later, "a/d")) == (Phase.SETUP, Phase.SWAP)
    assert later.state == "committing"
    assert request_of(DRIVER, "PutObject", "/bucket/a/d/job.json", "", body).state is None
    assert request_of(DRIVER, "GetObject", path, "", body).state is None


# -- other stores: the same steps by other requests --------------------------------------------------------

GCS_KEY = f"/storage/v1/b/bucket/o/{JOB.replace('/', '%2F')}%2Fjob.json"
INSERT = json.dumps({"name": f"{JOB}/job.json", "metadata": {}}).encode() + b'\r\n{"state": "open"}'
BATCH = (
    b"--b\r\n\r\nDELETE /storage/v1/b/bucket/o/a%2Fd%2Fx%20y?ifGenerationMatch=1 HTTP/1.1\r\n"
    b"--b\r\n\r\nDELETE /storage/v1/b/bucket/o/a%2Fd%2F_SUCCESS HTTP/1.1\r\n"
)
UPLOAD = azure_blocks.new_upload_id(0)
BLOCKS = {
    "CreateMultipartUpload": azure_blocks.opening(UPLOAD, {}, {})[1],
    "UploadPart": azure_blocks.part(UPLOAD, 1, azure_blocks.EMPTY),
    "AbortMultipartUpload": azure_blocks.end(UPLOAD),
}


def arrived(store: str, method: str, target: str, body: bytes = b"", **headers: str) -> Arrived:
    path, _, query = target.partition("?")
    return Arrived(STORES[store].operation(method, path, query, headers), path, query, headers, body)


@pytest.mark.parametrize(
    ("store", "method", "target", "body", "operation", "keys"),
    [
        ("gcs", "POST", "/upload/storage/v1/b/bucket/o", INSERT, "PutObject", [f"{JOB}/job.json"]),
        ("gcs", "GET", f"{GCS_KEY}?alt=media", b"", "GetObject", [f"{JOB}/job.json"]),
        ("gcs", "GET", GCS_KEY, b"", "HeadObject", [f"{JOB}/job.json"]),
        ("gcs", "DELETE", f"{GCS_KEY}?ifGenerationMatch=5", b"", "DeleteObject", [f"{JOB}/job.json"]),
        ("gcs", "GET", "/storage/v1/b/bucket/o?prefix=a%2Fd%2F", b"", "ListObjectsV2", ["a/d/"]),
        ("gcs", "POST", "/bucket/a/d/day%3D1/x?uploads", b"", "CreateMultipartUpload", ["a/d/day=1/x"]),
        ("gcs", "PUT", "/bucket/a/d/x?partNumber=1&uploadId=u", b"x", "UploadPart", ["a/d/x"]),
        ("gcs", "POST", "/bucket/a/d/x?uploadId=u", b"", "CompleteMultipartUpload", ["a/d/x"]),
        ("gcs", "POST", "/batch/storage/v1", BATCH, "DeleteObjects", ["a/d/x y", "a/d/_SUCCESS"]),
        (
            "azure",
            "PUT",
            "/account/box/a/d/x%20y?comp=blocklist",
            b"",
            "CompleteMultipartUpload",
            ["a/d/x y"],
        ),
        (
            "azure",
            "PUT",
            f"/account/box/{JOB}/job.json",
            b'{"state": "open"}',
            "PutObject",
            [f"{JOB}/job.json"],
        ),
        ("azure", "HEAD", "/account/box/a/d/_SUCCESS", b"", "HeadObject", ["a/d/_SUCCESS"]),
        ("azure", "DELETE", "/account/box/a/d/x", b"", "DeleteObject", ["a/d/x"]),
        (
            "azure",
            "GET",
            "/account/box?restype=container&comp=list&prefix=a%2Fd",
            b"",
            "ListObjectsV2",
            ["a/d"],
        ),
    ],
)
def test_a_request_of_another_store_is_named_as_the_step_on_s3(
    store: str, method: str, target: str, body: bytes, operation: str, keys: list[str]
) -> None:
    told = STORES[store].request(arrived(store, method, target, body, **{"User-Agent": "app/worker-1 x"}))
    assert (told.role, told.operation, list(told.keys)) == ("worker-1", operation, keys)
    assert told.state == ("open" if operation == "PutObject" else None)


@pytest.mark.parametrize("operation", BLOCKS)
def test_a_block_on_azure_is_named_by_what_its_id_says(operation: str) -> None:
    block_id = (
        base64.b64encode(str(BLOCKS[operation]).encode()).decode().replace("=", "%3D").replace("+", "%2B")
    )
    told = STORES["azure"].request(
        arrived("azure", "PUT", f"/account/box/a/d/x?comp=block&blockid={block_id}")
    )
    assert (told.operation, told.keys) == (operation, ("a/d/x",))


def test_a_write_of_what_is_not_there_yet_is_known_on_each_store() -> None:
    gcs = arrived("gcs", "POST", "/upload/storage/v1/b/bucket/o?ifGenerationMatch=0", INSERT)
    azure = arrived("azure", "PUT", "/account/box/x", b"", **{"If-None-Match": "*"})
    for store, one in {"gcs": gcs, "azure": azure}.items():
        assert STORES[store].request(one).first


@pytest.mark.parametrize(
    ("versions", "newest"),
    [
        ([], "job"),
        (["00001"], "job.00001"),
        (["00001", "00002"], "job.00002"),
        (["00001", "00003"], "job.00001"),
    ],
)
def test_state_of_a_job_is_that_of_its_newest_version(versions: list[str], newest: str) -> None:
    listed = [f"{JOB}/job.json", *(f"{JOB}/job.{number}.json" for number in versions)]
    assert newest_version(f"{JOB}/job.json", listed) == f"{JOB}/{newest}.json"
