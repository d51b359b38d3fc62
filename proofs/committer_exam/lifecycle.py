"""From setup to ``_SUCCESS``: what is visible when, and what is left."""

from __future__ import annotations

import gc
import gzip
from pathlib import Path
from typing import Any

import pytest

from magicfs.errors import CommitDenied, ProtocolViolation
from magicfs.formats.hadoop_uri import decode
from magicfs.protocol.layout import WorkLayout
from proofs.committer_exam.base import DESTINATION, Examined, body, committed, rows_of
from proofs.committer_exam.bench import Bench
from proofs.committer_exam.selection import concerns
from proofs.scenes.known import all_ended

__all__ = ["LifecycleExam"]

_WRAPPED = [("a", "wb", None), ("b", "wt", None), ("c.gz", "wb", "gzip"), ("d.gz", "wt", "gzip")]


class LifecycleExam(Examined):
    """A job in which nothing goes wrong."""

    def test_job_setup_writes_its_job_object_and_nothing_else(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        """Hadoop's ``setupJob`` deletes ``_SUCCESS`` and makes directories; here the old state stays."""
        bench.write(f"{DESTINATION}/_SUCCESS", b"old")
        job = self.job(bench, **way)
        layout = job.spec.work_layout
        assert layout.job_object_key == f"{layout.job_directory}/job.json"
        assert bench.listed() == sorted([layout.job_object_key, f"{DESTINATION}/_SUCCESS"])
        assert bench.read(f"{DESTINATION}/_SUCCESS") == b"old"
        assert not bench.pending()
        said = self.job_object(bench, job)
        assert (said.job_id, said.state, said.options) == (job.id, "open", job.spec.options)

    def test_nothing_is_visible_before_the_job_commit_and_every_row_after(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        """``AbstractITCommitProtocol.testCommitLifecycle``."""
        job = self.job(bench, **way)
        files = [(number, f"{name}-{number}.txt") for number in range(3) for name in ("a", "day=1/b")]
        for number in range(3):
            with job.task(number) as task:
                self.write(task, {name: body(n, name) for n, name in files if n == number})
                assert task.needs_commit()
                assert not self.published(bench)
            assert not self.published(bench)
            assert len(bench.pending(DESTINATION)) == self.waiting(2 * (number + 1))
        report = job.commit(job.commits)
        assert (report.tasks, report.files) == (3, 6)
        assert report.bytes == sum(len(body(*file)) for file in files)
        assert self.rows(bench) == rows_of(*files)
        assert self.manifested(job) == set(self.published(bench))
        self.assert_nothing_left(bench)

    def test_success_file_names_the_job_its_files_and_its_statistics(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        """``testCommitLifecycle``, ``testOutputFormatIntegration``: read back by the format's own parser."""
        job = self.job(bench, **way)
        self.run_task(job, 0, "a 0.txt", "b/ü.txt")
        self.run_task(job, 1, "a 1.txt")
        report = job.commit(job.commits)
        success = self.success(bench)
        assert success.success
        assert (success.job_id, success.committer) == (job.id, self.committer)
        prefix = f"/{DESTINATION}/"
        # Hadoop's manifest committer writes URIs.
        filenames = [
            decode(name).removeprefix(bench.url) if "://" in name else name for name in success.filenames
        ]
        assert sorted(filenames) == sorted(f"{prefix}{name}" for name in self.published(bench))
        counters = success.statistics.counters
        assert counters["committer_tasks_completed"] == 2
        assert counters["committer_commits_completed"] == 3
        assert counters["committer_bytes_committed"] == report.bytes
        assert counters["committer_jobs_completed"] == 1
        assert success.diagnostics["magicfs.mode"] == self.mode
        assert f"{bench.url}/{success.diagnostics['magicfs.manifest']}" == report.manifest

    def test_success_file_names_at_most_a_hundred_files(self, bench: Bench) -> None:
        """``CommitConstants.SUCCESS_MARKER_FILE_LIMIT``."""
        job = self.job(bench, **self.cheapest_mode())
        self.run_task(job, 0, *(f"{number}.txt" for number in range(103)))
        report = job.commit(job.commits)
        assert len(self.success(bench).filenames) == len(report.filenames) == 100
        assert len(self.published(bench)) == report.files == 103

    def test_files_that_a_listing_finds_are_published(
        self, bench: Bench, stored_mode: dict[str, Any]
    ) -> None:
        job = self.job(bench, **stored_mode)
        self.run_task(job, 0, "a0.txt")
        self.run_task(job, 1, "a1.txt", "b1.txt")
        report = job.commit()
        assert (report.tasks, report.files) == (2, 3)
        assert self.rows(bench) == rows_of((0, "a0.txt"), (1, "a1.txt"), (1, "b1.txt"))
        self.assert_nothing_left(bench)

    def test_another_driver_publishes_what_a_listing_finds(
        self, bench: Bench, stored_mode: dict[str, Any]
    ) -> None:
        """``AbstractITCommitProtocol.testAMWorkflow``: a committer made elsewhere from the same job."""
        first = self.job(bench, **stored_mode)
        self.run_task(first, 0, "a.txt")
        second = self.job(bench, job_id=first.id, **stored_mode)
        with pytest.raises(CommitDenied, match="was taken over by another driver"):
            first.commit()
        assert not self.published(bench)
        assert second.commit().files == 1
        assert self.rows(bench) == rows_of((0, "a.txt"))
        self.assert_nothing_left(bench)

    @concerns("delayed uploads")
    def test_listing_is_refused_where_it_shows_nothing(self, bench: Bench) -> None:
        job = self.job(bench, tracking="memory")
        self.run_task(job, 0, "a.txt")
        with pytest.raises(ProtocolViolation, match=r"pass their TaskCommits to job\.commit"):
            job.commit()
        assert not self.published(bench)
        assert job.commit(job.commits).files == 1

    @pytest.mark.parametrize("tasks", [1, 2, 9])
    def test_all_tasks_are_published(self, bench: Bench, tasks: int) -> None:
        job = self.job(bench)
        files = [(number, f"part-{number}.txt") for number in range(tasks)]
        for file in files:
            self.run_task(job, *file)
        assert job.commit(job.commits).tasks == tasks
        assert self.rows(bench) == rows_of(*files)
        self.assert_nothing_left(bench)

    def test_task_that_wrote_nothing_commits_nothing(self, bench: Bench, way: dict[str, Any]) -> None:
        """``AbstractITCommitProtocol.testCommitterWithNoOutputs``."""
        job = self.job(bench, **way)
        with job.task(0) as empty:
            assert not empty.needs_commit()
        assert committed(empty).files == 0
        self.run_task(job, 1, "a.txt")
        assert job.commit(job.commits).tasks == 2
        assert self.rows(bench) == rows_of((1, "a.txt"))
        self.assert_nothing_left(bench)

    def test_job_of_no_tasks_leaves_its_success_file_its_manifest_and_the_pointer(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        job = self.job(bench, **way)
        report = job.commit([])
        assert report.files == 0
        assert self.success(bench).filenames == ()
        left = ["_SUCCESS", f"_magicfs/{job.id}.json", "_magicfs/current.json"]
        assert bench.listed() == sorted(f"{DESTINATION}/{name}" for name in left)
        assert report.manifest == f"{bench.url}/{DESTINATION}/_magicfs/{job.id}.json"
        assert self.manifests(bench) == sorted(f"{DESTINATION}/{name}" for name in left[1:])
        assert self.manifested(job) == set()

    def test_empty_file_is_published_with_no_bytes_and_no_header(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        """``ITestCommitOperations.testCommitEmptyFile``."""
        job = self.job(bench, **way)
        with job.task(0) as task:
            self.write(task, {"empty.txt": b""})
        job.commit(job.commits)
        assert list(self.published(bench).values()) == [b""]
        (name,) = self.published(bench)
        assert "x-hadoop-s3a-magic-data-length" not in bench.metadata(f"{DESTINATION}/{name}")

    def test_files_behind_text_and_compression_outlive_their_wrappers(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        job = self.job(bench, **way)
        with job.task(0) as task:
            for name, how, compression in _WRAPPED:
                wrapper = task.filesystem.open(f"{task.path}/{name}", how, compression=compression)
                with wrapper as file:
                    file.write("row\n" if "t" in how else b"row\n")
                del wrapper, file
            gc.collect()
        assert job.commit(job.commits).files == len(_WRAPPED)
        bodies = self.published(bench).values()
        assert [gzip.decompress(b) if b[:2] == b"\x1f\x8b" else b for b in bodies] == [b"row\n"] * 4

    def test_partitions_nest_to_any_depth(self, bench: Bench, way: dict[str, Any]) -> None:
        """``ITestCommitOperations.testBaseRelativePath``, ``testConcurrentCommitTaskWithSubDir``."""
        job = self.job(bench, **way)
        directory = "year=2026/month=11/day=21/a b/%41/+"
        for number in range(2):
            self.run_task(job, number, f"{directory}/part-{number}.txt", f"root-{number}.txt")
        job.commit(job.commits)
        assert self.rows(bench) == rows_of(
            *((n, name) for n in range(2) for name in (f"{directory}/part-{n}.txt", f"root-{n}.txt"))
        )
        below = [name for name in self.published(bench) if "/" in name]
        assert {name.rpartition("/")[0] for name in below} == {directory}
        assert len(below) == 2

    def test_old_files_stay_beside_the_new_ones(self, bench: Bench, way: dict[str, Any]) -> None:
        for number in range(2):
            job = self.job(bench, **way)
            self.run_task(job, 0, f"run-{number}.txt")
            job.commit(job.commits)
        assert self.rows(bench) == rows_of((0, "run-0.txt"), (0, "run-1.txt"))
        self.assert_nothing_left(bench)

    def test_with_blocks_do_all_of_it(self, bench: Bench, way: dict[str, Any]) -> None:
        with self.job(bench, **way) as job:
            for number in range(2):
                with job.task(number) as task:
                    self.write(task, {f"{number}.txt": body(number, "x")})
            assert not self.published(bench)
        assert job.report.files == 2
        assert self.rows(bench) == rows_of((0, "x"), (1, "x"))
        self.assert_nothing_left(bench)

    @concerns("delayed uploads")
    def test_work_lies_where_the_layout_says(self, bench: Bench) -> None:
        """``AbstractITCommitProtocol.testOutputFormatIntegration``: magic, and named after the job."""
        job = self.job(bench)
        with job.task(7) as task:
            layout = WorkLayout(DESTINATION, job.spec.job)
            assert task.path.split("/", 1)[1] == layout.work_directory(task.attempt_id)
            self.write(task, {"a.txt": b"1234"})
            all_ended()
            marker = f"{layout.work_directory(task.attempt_id)}/a.txt"
            assert self.work(bench) == [marker, f"{marker}.pending", layout.job_object_key]
            assert bench.read(marker) == b""
            assert bench.metadata(marker).get("x-hadoop-s3a-magic-data-length", "4") == "4"
            assert task.filesystem.info(f"{task.path}/a.txt")["size"] == 4
        assert self.work(bench) == [layout.set_key(task.attempt_id), layout.job_object_key]

    @concerns("local files")
    def test_work_stays_on_its_machine_until_its_task_commits(
        self, bench: Bench, way: dict[str, Any]
    ) -> None:
        """``StagingCommitter``: before its commit nothing of an attempt is in the store, no upload either."""
        job = self.job(bench, **way)
        with job.task(7) as task:
            directory = Path(task.path)
            assert directory.name == f"{job.id}-{task.attempt_id}"
            assert list(directory.iterdir()) == []
            self.write(task, {"d/a.txt": b"1234", "_metadata": b"b", ".part.crc": b"c"})
            assert task.filesystem.info(f"{task.path}/d/a.txt")["size"] == 4
            assert task.needs_commit()
            assert bench.listed() == [job.spec.work_layout.job_object_key]
            assert not bench.pending()
        assert not self.place.attempts()
        assert committed(task).files == len(bench.pending()) == 1
        set_key = committed(task).set_key
        assert set_key is not None
        lies_in_store = [set_key] if "committer_options" not in way else []
        assert self.work(bench) == sorted([job.spec.work_layout.job_object_key, *lies_in_store])
        assert self.place.read_set(bench, set_key)
        job.abort()
        self.assert_ended(bench)

    @concerns("delayed uploads")
    def test_work_of_memory_tracking_leaves_no_object(self, bench: Bench) -> None:
        """``fs.s3a.committer.magic.track.commits.in.memory.enabled`` (HADOOP-19047)."""
        job = self.job(bench, tracking="memory")
        self.run_task(job, 0, "a.txt")
        assert bench.listed() == [job.spec.work_layout.job_object_key]
        assert len(bench.pending()) == 1
