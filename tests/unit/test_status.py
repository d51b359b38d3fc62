"""``magicfs status``: one screen, one line a destination, one page."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.errors import AuditFailed, ObjectNotFound, PermissionDenied, UsageError
from magicfs.operate.page import page_of
from magicfs.operate.status import BucketStatus, DatasetStatus, Partition, Step, status
from magicfs.protocol.job_state import JobState
from magicfs.stores.memory.store import MemoryStore
from proofs.scenes.hadoop_jobs import HadoopJob
from proofs.scenes.job_scene import JobScene
from proofs.scenes.unfinished import Bucket, died_in

EVIL = 'r"><script>alert(1)</script><img src=http://evil.example/x>'


@pytest.fixture
def scene() -> JobScene:
    return JobScene()


def look(scene: JobScene, url: str = "") -> Any:
    return status(url or scene.url, price=0.5, filesystem=scene.filesystem)


def owing(scene: JobScene) -> magicfs.Job:
    """Two publications, one of which keeps what it replaced, and a job in quarantine."""
    scene.published({"day=1/a": b"12345", "day=2/b": b"123"})
    scene.published({"day=2/c": b"1"}, mode="overwrite_partitions", keep="7d")
    job = scene.job("append", audit=[lambda _: "never"], run_id=EVIL)
    with pytest.raises(AuditFailed):
        job.commit(scene.wrote(job, {"q": b"1234567"}))
    return job


class TestDataset:
    def test_one_screen_has_all_that_is_owed(self, scene: JobScene) -> None:
        job = owing(scene)
        found = look(scene)
        assert isinstance(found, DatasetStatus)
        assert (found.files, found.bytes, found.ok, found.problems) == (2, 6, False, [])
        assert found.newest is not None
        [unfinished] = found.jobs
        assert (unfinished.job_id, unfinished.state, unfinished.run_id) == (job.id, "quarantined", EVIL)
        assert "--commit --accept REASON, or magicfs recover" in unfinished.end
        [uploads] = found.uploads
        assert (uploads.owner.value, uploads.bytes) == ("quarantined", 7)
        assert (found.kept_files, found.kept_bytes) == (1, 3)
        assert found.dollars == pytest.approx(0.5 * 10 / 2**30)
        assert [(one.mode, one.added, one.removed, one.total) for one in found.steps] == [
            ("append", 8, 0, 8),
            ("overwrite_partitions", 1, 3, 6),
        ]
        assert [(one.name, one.files, one.bytes) for one in found.partitions] == [
            ("day=1", 1, 5),
            ("day=2", 1, 1),
        ]
        told = str(found)
        for word in ("newest", "2 (6 B)", "quarantined", "1 replaced file (", "needs a decision"):
            assert word in told, told

    def test_one_that_owes_nothing_says_so(self, scene: JobScene) -> None:
        scene.published({"a": b"1"})
        found = look(scene)
        assert (found.ok, found.jobs, found.uploads, found.leftovers) == (True, (), (), ())
        assert "nothing to decide" in str(found)

    def test_nothing_published_is_no_error_and_no_bucket_is_one(self, scene: JobScene) -> None:
        assert "nothing was published there" in str(look(scene))
        with pytest.raises(ObjectNotFound):
            look(scene, "memory://no-such-bucket-here/x")

    def test_what_cannot_be_read_is_a_problem_and_hides_nothing_else(self, scene: JobScene) -> None:
        job = owing(scene)
        scene.filesystem.pipe_file("bucket/sales/_magicfs/current.json", b"{")
        found = look(scene)
        assert any("current.json" in one for one in found.problems)
        assert [one.job_id for one in found.jobs] == [job.id]
        assert len(found.problems) == len(set(found.problems))
        assert "newest          unknown" in str(found)

    def test_a_pointer_that_is_gone_is_a_problem_until_it_is_adopted(self, scene: JobScene) -> None:
        scene.published({"a": b"1"})
        scene.filesystem.rm("bucket/sales/_magicfs/current.json")
        found, bucket = look(scene), look(scene, "memory://bucket")
        assert (found.ok, bucket.ok) == (False, False)
        for said in (str(found), bucket.table()[0][-1]):
            assert f"current.json is gone, so nobody can read the dataset: magicfs adopt {scene.url}" in said
        assert bucket.table()[0][1] == "unknown"
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt()
        assert (look(scene).ok, look(scene, "memory://bucket").ok) == (True, True)

    def test_a_notebook_shows_the_short_form_escaped(self, scene: JobScene) -> None:
        owing(scene)
        shown = magicfs.Dataset(scene.url, filesystem=scene.filesystem)._repr_html_()
        assert "quarantined" in shown
        assert "<script" not in shown

    def test_a_job_that_may_be_running_is_not_called_done(self, scene: JobScene) -> None:
        job = magicfs.Job(scene.url, filesystem=scene.filesystem).setup()
        found = look(scene)
        assert (found.ok, [one.job_id for one in found.jobs]) == (True, [job.id])
        assert "nothing to decide yet: the job may be running" in str(found)
        line = f"magicfs recover {scene.url} --job {job.id}"
        assert f"if its driver is dead: {line} --commit, or {line} --abort" in str(found)

    def test_a_job_that_stopped_while_it_published_needs_a_decision_after_ten_minutes(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        url = f"memory://{uuid4().hex}/sales"
        job = died_in(JobState.COMMITTING, url)
        assert status(url, price=0.5).ok
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 601)
        found = status(url, price=0.5)
        assert not found.ok
        assert f"end             magicfs recover {url}\n" in str(found)
        assert main(["uploads", url, "--json"]) == 1
        listed = json.loads(capsys.readouterr().out)["pending"]
        assert [one["end"] for one in listed] == [[f"magicfs recover {url} --job {job.id}"]] * 3

    def test_work_that_is_left_is_told(self, scene: JobScene) -> None:
        scene.published({"a": b"1"})
        scene.filesystem.pipe_file("bucket/sales/__magic_job-gone/job-gone/00/x", b"")
        found = look(scene)
        assert (found.ok, found.leftovers) == (False, ("memory://bucket/sales/__magic_job-gone/",))


class TestBucket:
    def test_each_destination_is_a_line(self, scene: JobScene) -> None:
        owing(scene)
        scene.filesystem.pipe_file("bucket/team/stock 50%/_magicfs/current.json", b"{")
        scene.filesystem.pipe_file("bucket/plain/year=2026/x.parquet", b"1")
        found = look(scene, "memory://bucket")
        assert isinstance(found, BucketStatus)
        assert (found.is_whole, found.ok) == (True, False)
        broken, sales = sorted(found.destinations, key=lambda one: not one.problem)
        assert "current.json" in broken.problem
        assert (sales.url, sales.unfinished, sales.waiting) == ("memory://bucket/sales", 1, 1)
        assert (sales.keeping, sales.published is not None) == (1, True)
        assert [row[1] for row in found.table() if row[-1]] == ["unknown"]
        assert [one.owner.value for one in found.uploads] == ["quarantined"]
        assert found.to_dict()["uploads"] == [
            {"owner": "quarantined", "uploads": 1, "bytes": 7, "all": True},
        ]

    def test_an_upload_that_nobody_needs_is_shown_and_needs_a_decision_after_a_day(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lake = Bucket(f"b-{uuid4().hex[:8]}")
        with magicfs.Job(lake.url("sales"), mode="append") as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/x", b"1")
        assert status(lake.url(""), price=0.5).ok
        lake.create_upload("elsewhere/y")
        assert main(["status", lake.url("")]) == 0
        assert "1 pending of unknown programs" in capsys.readouterr().out
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 86_401)
        lake.create_upload("elsewhere/z")  # the newest one is young: the program goes on
        assert main(["status", lake.url("")]) == 1
        told = capsys.readouterr().out
        assert "2 pending of unknown programs" in told
        assert "--abort --older-than 7d" in told

    def test_uploads_that_one_may_not_list_are_a_problem_and_hide_nothing_else(
        self, scene: JobScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scene.published({"a": b"1"})

        def denied(store: MemoryStore, prefix: str) -> AsyncIterator[Any]:
            raise PermissionDenied("list_uploads", prefix, "you may not")

        monkeypatch.setattr(MemoryStore, "list_uploads", denied)
        found = look(scene, "memory://bucket")
        here, sales = found.destinations
        assert (here.url, "you may not" in here.problem, found.ok) == ("memory://bucket", True, False)
        assert (sales.url, sales.published is not None) == ("memory://bucket/sales", True)

    def test_a_leaked_job_is_named_once_with_its_label(self, monkeypatch: pytest.MonkeyPatch) -> None:
        lake = Bucket(f"b-{uuid4().hex[:8]}")
        job = magicfs.Job(lake.url("sales"), mode="append", options={"label": "nightly sales"}).setup()
        task = job.task(0).setup()
        task.filesystem.pipe_file(f"{task.path}/x", b"1")
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 3700)
        told = str(status(lake.url("sales"), price=0.5))
        assert told.count(f"{job.id} --abort") == 1
        assert f"{job.id}, nightly sales, open" in told

    def test_an_empty_directory_of_a_job_is_no_dataset(
        self, scene: JobScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """SeaweedFS shows that of a trial for a while."""
        scene.published({"a": b"1"})
        listed = MemoryStore.list_directories

        async def shown(store: MemoryStore, prefix: str) -> AsyncIterator[str]:
            if prefix == "__magic":
                yield "__magic_job-gone/"
            async for one in listed(store, prefix):
                yield one

        monkeypatch.setattr(MemoryStore, "list_directories", shown)
        found = look(scene, "memory://bucket")
        assert isinstance(found, BucketStatus)
        assert [one.url for one in found.destinations] == ["memory://bucket/sales"]

    def test_a_job_that_may_be_running_needs_no_decision(
        self, scene: JobScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scene.published({"a": b"1"})
        job = scene.job("append").setup()
        found = look(scene, "memory://bucket")
        assert isinstance(found, BucketStatus)
        [sales] = found.destinations
        assert (sales.unfinished, sales.waiting, sales.states, found.ok) == (1, 0, "1 open", True)
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 3700)
        found = look(scene, "memory://bucket")
        assert isinstance(found, BucketStatus)
        assert (found.destinations[0].waiting, found.ok) == (1, False)
        assert found.table()[0][3] == "1 open; 1 to decide: see its own status"
        with pytest.raises(UsageError, match=rf"unfinished are: {job.id}; nothing was changed"):
            magicfs.datasets.abort(sales.url, job=job.id[:8], filesystem=scene.filesystem)

    def test_a_job_of_hadoops_counts_as_unfinished(self) -> None:
        lake = Bucket(f"b-{uuid4().hex[:8]}")
        HadoopJob(lake, "sales")
        [sales] = status(lake.url(""), price=0.5).destinations
        assert (sales.url, sales.published, sales.unfinished) == (lake.url("sales"), None, 1)
        assert not sales.waiting, "it may be running"

    def test_partitions_are_not_searched(self, scene: JobScene) -> None:
        scene.filesystem.pipe_file("bucket/plain/year=2026/_magicfs/current.json", b"{")
        assert isinstance(look(scene, "memory://bucket/plain"), DatasetStatus)


class _Page(HTMLParser):
    """What a page asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.asks: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.asks += [f"{name}={value}" for name, value in attrs if name in {"src", "href", "srcset", "data"}]


class TestPage:
    def test_it_asks_for_nothing_and_runs_nothing(self, scene: JobScene) -> None:
        owing(scene)
        text = page_of(look(scene))
        page = _Page()
        page.feed(text)
        assert (page.asks, {"script", "img", "link", "iframe"} & set(page.tags)) == ([], set())
        assert not re.search(r"url\(|@import|https?://(?!evil)", text.partition("</style>")[0])
        assert "default-src 'none'" in text
        assert "&lt;script&gt;" in text

    def test_a_bucket_has_one_too(self, scene: JobScene) -> None:
        owing(scene)
        assert "memory://bucket/sales" in page_of(look(scene, "memory://bucket"))

    @pytest.mark.parametrize("number", [1, 2, 3, 119, 121, 1000])
    def test_the_map_shows_sizes_as_areas(self, number: int) -> None:
        parts = tuple(Partition(f"p={n}", 1, number - n, None) for n in range(number))
        text = page_of(DatasetStatus("s3://b/x", 0.0, partitions=parts))
        boxes = re.findall(r"left:([\d.]+)%;top:([\d.]+)%;width:([\d.]+)%;height:([\d.]+)%", text)
        areas = [float(width) * float(height) for *_, width, height in boxes]
        assert len(boxes) == min(number, 120)
        assert sum(areas) == pytest.approx(10_000, rel=0.02)
        shown = sum(one.bytes for one in parts[:120])
        assert areas[0] / 10_000 == pytest.approx(parts[0].bytes / shown, rel=0.1)

    def test_columns_that_have_nothing_are_left_out(self) -> None:
        counted, not_counted = (Step("j", "append", 5.0, rows, 1, 0, 1) for rows in (3, None))
        for steps, shown in (((counted, not_counted), True), ((not_counted,), False)):
            made = page_of(DatasetStatus("s3://b/x", 10.0, steps=steps))
            assert ("<th>Rows</th>" in made, "<th>Added</th>" in made) == (shown, True)

    def test_sizes_of_nothing_are_no_error(self) -> None:
        parts = (Partition("a", 1, 0, 5.0), Partition("b", 1, 0, None))
        assert "2 partitions" in page_of(DatasetStatus("s3://b/x", 10.0, partitions=parts))


class TestCommand:
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        url = f"file://{tmp_path}/a b%"
        with magicfs.Job(url, committer="magic", mode="append") as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/x", b"1")
        return url

    def test_it_prints_one_screen_and_writes_one_page(
        self, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        page = tmp_path / "page.html"
        assert main(["status", url, "--html", str(page)]) == 0
        assert "nothing to decide" in capsys.readouterr().out
        assert page.read_text().startswith("<!doctype html>")
        assert [one.name for one in tmp_path.iterdir() if "page" in one.name] == ["page.html"]
        assert main(["status", url, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert (document["files"], document["ok"]) == (1, True)
        assert main(["status", f"file://{tmp_path}"]) == 0
        assert url in capsys.readouterr().out

    def test_a_place_that_cannot_be_written_is_named(
        self, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["status", url, "--html", str(tmp_path / "no" / "page.html")]) == 2
        assert "give --html another file" in capsys.readouterr().err
