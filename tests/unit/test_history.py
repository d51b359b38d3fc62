"""What was published, and the dataset as it was then."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.errors import ObjectNotFound, UsageError
from magicfs.past.asked import parse_as_of
from proofs.scenes.job_scene import JobScene

DEST = "env=prod/día 50% + #1"


def rows(*values: int) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": pa.array(values, pa.int64())}), sink)
    return sink.getvalue()


@pytest.fixture(params=["if-match", "numbered"])
def scene(request: pytest.FixtureRequest) -> JobScene:
    return JobScene(DEST, ignores=frozenset({"put_if_match"} if request.param == "numbered" else ()))


def values(scene: JobScene, **how: object) -> list[int]:
    found = magicfs.Dataset(scene.url, filesystem=scene.filesystem).to_arrow(**how)  # type: ignore[arg-type]
    return sorted(found.to_table(columns=["n"], use_threads=False)["n"].to_pylist())


class TestHistory:
    def test_every_publication_stands_in_it_and_no_sum_does(self, scene: JobScene):
        first = scene.published({"a.parquet": b"xx"}, run_id="monday")
        second = scene.published({"b.parquet": b"y"}, {"c.parquet": b""})
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        third = scene.published({"d.parquet": b"z"}, mode="overwrite")
        found = magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()
        assert [(one.job_id, one.run_id, one.mode, one.files, one.bytes) for one in found] == [
            (third.id, None, "overwrite", 1, 1),
            (second.id, None, "append", 2, 1),
            (first.id, "monday", "append", 1, 2),
        ]
        assert found[0].published > found[1].published > found[2].published
        assert abs(found[0].published - datetime.now(UTC)) < timedelta(minutes=5)
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).history(limit=1) == found[:1]

    def test_nothing_was_published(self, scene: JobScene):
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).history() == []

    def test_a_limit_below_one_is_refused(self, scene: JobScene):
        with pytest.raises(UsageError, match="limit=0"):
            magicfs.Dataset(scene.url, filesystem=scene.filesystem).history(limit=0)

    def test_the_command_shows_it(self, tmp_path, capsys: pytest.CaptureFixture[str]):
        url = str(tmp_path / "sales #1")
        (tmp_path / "sales #1").mkdir()
        (tmp_path / "sales #1" / "_notes.txt").write_text("mine")
        assert main(["log", url]) == 0
        assert "nothing is published" in capsys.readouterr().out
        with magicfs.Job(url, run_id="monday") as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.csv", b"12")
        assert main(["log", url]) == 0
        row = capsys.readouterr().out.splitlines()[1].split()
        assert row[5:] == [job.id, "error", "1", "2", "B", "monday"]
        assert main(["log", url, "--json", "--limit", "3"]) == 0
        [one] = json.loads(capsys.readouterr().out)["publications"]
        assert (one["job_id"], one["files"]) == (job.id, 1)


class TestAsOf:
    def test_by_job_run_and_time_and_through_a_sum(self, scene: JobScene):
        first = scene.published({"a.parquet": rows(1)}, run_id="monday")
        second = scene.published({"a.parquet": rows(2)})
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        third = scene.published({"a.parquet": rows(3)})
        log = magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()
        at = {one.job_id: one.published for one in log}
        assert values(scene) == [1, 2, 3]
        for as_of in (
            first.id,
            f"job:{first.id}",
            "monday",
            "run:monday",
            at[first.id],
            at[first.id].isoformat(timespec="milliseconds"),
            f"time:{at[first.id].isoformat(timespec='milliseconds')}",
        ):
            assert values(scene, as_of=as_of) == [1], as_of
        assert values(scene, as_of=second.id) == [1, 2]
        assert values(scene, as_of=at[third.id] - timedelta(milliseconds=1)) == [1, 2]
        assert values(scene, as_of=third.id) == [1, 2, 3]
        assert values(scene, as_of=datetime.now(UTC) + timedelta(days=1)) == [1, 2, 3]

    def test_files_that_are_gone_are_told_of(self, scene: JobScene):
        first = scene.published({"a.parquet": rows(1)})
        scene.published({"a.parquet": rows(2)}, mode="overwrite")
        with pytest.raises(ObjectNotFound, match=r"1 of 1 files .* are gone or overwritten"):
            values(scene, as_of=first.id)

    def test_files_of_one_name_are_never_taken_for_older_ones(self, scene: JobScene):
        first = scene.published({"a.parquet": rows(1)}, unique_names=False)
        scene.published({"a.parquet": rows(2)}, mode="overwrite", unique_names=False)
        with pytest.raises(ObjectNotFound, match="are gone or overwritten"):
            values(scene, as_of=first.id)

    def test_what_was_never_published_is_not_found(self, scene: JobScene):
        with pytest.raises(ObjectNotFound, match="no job, run or tag 'tuesday'"):
            values(scene, as_of="tuesday")
        job = scene.published({"a.parquet": rows(1)})
        open_job = scene.job()
        for as_of in ("tuesday", "run:tuesday", f"run:{job.id}", open_job.id):
            with pytest.raises(ObjectNotFound, match=r"no (job|run|tag).* at "):
                values(scene, as_of=as_of)
        with pytest.raises(ObjectNotFound, match=r"no job was published to .* before 20"):
            values(scene, as_of="2001-01-01T00:00Z")

    def test_a_name_of_two_publications_is_refused(self, scene: JobScene):
        first = scene.published({"a.parquet": rows(1)}, job_id="daily")
        scene.published({"a.parquet": rows(2)}, run_id="daily")
        with pytest.raises(UsageError, match="matches several"):
            values(scene, as_of="daily")
        assert values(scene, as_of="job:daily") == [1]
        assert values(scene, as_of="run:daily") == [1, 2]
        assert first.id == "daily"

    def test_a_day_is_first_of_all_a_name(self, scene: JobScene):
        scene.published({"a.parquet": rows(1)}, run_id="2026-03-30")
        scene.published({"a.parquet": rows(2)})
        assert values(scene, as_of="2026-03-30") == [1]
        with pytest.raises(UsageError, match="time zone"):
            values(scene, as_of="2026-03-31")

    def test_last_and_as_of_are_not_both(self, scene: JobScene):
        with pytest.raises(UsageError, match="not both"):
            values(scene, last=True, as_of="monday")


class TestReading:
    def test_a_moment_needs_a_time_zone(self):
        for as_of in ("time:2026-03-31", "time:2026-03-31T12:00", datetime(2026, 3, 31)):
            with pytest.raises(UsageError, match="time zone"):
                parse_as_of(as_of)

    def test_a_moment_is_read_to_the_millisecond(self):
        assert parse_as_of("time:2026-03-31T14:00:00.007+02:00").moment_ms == 1_774_958_400_007
        assert parse_as_of(datetime(2026, 3, 31, 12, 0, 0, 7000, UTC)).moment_ms == 1_774_958_400_007

    @pytest.mark.parametrize("as_of", ["", "time:yesterday", "time:1969-12-31T00:00Z"])
    def test_what_is_none_is_refused(self, as_of: str):
        with pytest.raises(UsageError):
            parse_as_of(as_of)
