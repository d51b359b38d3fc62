from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Callable
from uuid import uuid4

import pytest

import magicfs
from magicfs.cli import main as cli
from magicfs.datasets import abort, commit, preview_commit
from magicfs.errors import CommitDenied, CommitFailed, OutputExists
from magicfs.job.commit import LISTED_MAX
from magicfs.job.job import Job
from magicfs.protocol.ids import task_id
from magicfs.protocol.job_state import JobState
from magicfs.transaction import context
from proofs.scenes.hadoop_jobs import HadoopJob
from proofs.scenes.known import all_ended
from proofs.scenes.manifests import published_manifest
from proofs.scenes.unfinished import Bucket, died_in, written

NEW = {b"0", b"1", b"2"}
BEFORE = [JobState.OPEN, JobState.PREPARED]
DECIDED = [JobState.COMMITTING, JobState.COMPLETED]
UNDONE = [JobState.ABORTING, JobState.REVERTING]

Ran = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(f"b-{uuid4().hex[:8]}")


@pytest.fixture
def url(bucket: Bucket) -> str:
    return bucket.url("sales")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Ran:
    def main(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(arguments)
        said = capsys.readouterr()
        return code, said.out, said.err

    return main


def is_new(bucket: Bucket) -> bool:
    """Whether the destination shows exactly the job's files, and nothing of its work is left."""
    work = [key for key in bucket.objects() if "__magic" in key]
    return set(bucket.data("sales").values()) == NEW and not work and not bucket.uploads()


class TestRecover:
    def test_without_a_job_it_says_so_and_exits_0(self, bucket, url, run):
        bucket.put("sales/old.bin", b"old")
        before = bucket.objects()
        assert run("recover", url) == (0, f"no unfinished job under {url}; nothing was changed\n", "")
        assert bucket.objects() == before

    @pytest.mark.parametrize("how", [["--rollback"], ["--abort"], ["--job", str(uuid4())]])
    def test_without_a_job_a_decision_about_one_exits_2(self, bucket, url, run, how):
        bucket.put("sales/old.bin", b"old")
        code, out, err = run("recover", url, *how)
        assert (code, out) == (2, "")
        assert "no unfinished job" in err
        assert "nothing was changed" in err

    @pytest.mark.parametrize("state", BEFORE)
    def test_a_job_before_its_commit_point_is_left_and_exits_1(self, bucket, url, run, state):
        job = died_in(state, url, run_id="batch 7")
        before = bucket.objects()
        code, out, _ = run("recover", url)
        assert code == 1
        moved = f"{state}, last moved"
        for said in (
            job.id,
            "batch 7",
            moved,
            " s ago (20",
            "Z), on ",
            "left open",
            f"magicfs recover {url} --job {job.id} --commit",
        ):
            assert said in out
        assert bucket.objects() == before

    def test_a_job_in_memory_is_not_advised_to_be_committed(self, url, run):
        job = written(url, tracking="memory")
        code, out, _ = run("recover", url)
        assert code == 1
        assert "tracking='memory': only its driver knows what its tasks committed" in out
        assert f"magicfs recover {url} --job {job.id} --abort discards it; then run it again" in out
        assert "--commit" not in out
        assert "memory" not in run("recover", url, "--abort")[1].partition("done")[2]

    @pytest.mark.parametrize("state", DECIDED)
    @pytest.mark.parametrize("completed", [0, 2])
    def test_a_job_past_its_commit_point_is_finished(self, bucket, url, run, state, completed):
        job = died_in(state, url, completed=completed)
        code, out, _ = run("recover", url)
        assert code == 0
        assert job.id in out
        assert "finished" in out
        assert is_new(bucket)
        assert run("recover", url)[0] == 0

    @pytest.mark.parametrize("state", UNDONE)
    def test_what_was_begun_to_be_undone_is_undone(self, bucket, url, run, state):
        bucket.put("sales/old.bin", b"old")
        died_in(state, url, completed=2)
        code, out, _ = run("recover", url)
        assert code == 0
        assert "asked for by recover" in out
        assert bucket.objects() == {"sales/old.bin": b"old"}
        assert not bucket.uploads()

    @pytest.mark.parametrize("rollback", [False, True])
    @pytest.mark.parametrize("mode", ["append", "overwrite", "overwrite_partitions"])
    def test_a_job_whose_driver_died_among_its_files_is_all_new_or_all_old(
        self, bucket, url, run, mode, rollback
    ):
        bucket.put("sales/day=1/old.bin", b"old")
        bucket.put("sales/day=7/kept.bin", b"kept")
        before = bucket.objects()
        died_in(JobState.COMMITTING, url, completed=1, mode=mode)
        assert len(set(bucket.data("sales").values()) & NEW) == 1
        assert run("recover", url, *(["--rollback"] if rollback else []))[0] == 0
        kept = {"append": {b"old", b"kept"}, "overwrite": set(), "overwrite_partitions": {b"kept"}}
        if rollback:
            assert bucket.objects() == before
        else:
            assert set(bucket.data("sales").values()) == NEW | kept[mode]
        assert not bucket.uploads()

    def test_rollback_of_a_completed_job_is_denied_and_touches_nothing(self, bucket, url, run):
        died_in(JobState.COMPLETED, url)
        before = bucket.objects()
        code, _, err = run("recover", url, "--rollback")
        assert code == 4
        assert "stays so" in err
        assert bucket.objects() == before

    @pytest.mark.parametrize("state", DECIDED)
    def test_abort_past_the_commit_point_is_denied_and_touches_nothing(self, bucket, url, run, state):
        died_in(state, url, completed=1)
        before = bucket.objects()
        assert run("recover", url, "--abort")[0] == 4
        assert run("recover", "--abort", url)[0] == 4
        assert bucket.objects() == before

    @pytest.mark.parametrize(
        ("state", "how", "action"),
        [
            (JobState.COMMITTING, [], "would finish"),
            (JobState.COMPLETED, [], "would finish"),
            (JobState.COMMITTING, ["--rollback"], "would revert"),
            (JobState.OPEN, ["--abort"], "would abort"),
            (JobState.ABORTING, [], "would abort"),
            (JobState.REVERTING, [], "would revert"),
        ],
    )
    def test_dry_run_tells_what_would_be_done_and_exits_1(self, bucket, url, run, state, how, action):
        died_in(state, url, completed=1)
        before, uploads = bucket.objects(), bucket.uploads()
        code, out, _ = run("recover", url, "--dry-run", "--json", *how)
        document = json.loads(out)
        assert (code, document["undecided"]) == (1, True)
        assert document["jobs"][0]["action"] == action
        assert (bucket.objects(), bucket.uploads()) == (before, uploads)

    def test_json_is_one_line_with_every_job(self, bucket, url, run):
        first = died_in(JobState.OPEN, url)
        second = died_in(JobState.COMMITTING, url, run_id="r")
        code, out, _ = run("recover", url, "--json")
        assert code == 1
        assert out.count("\n") == 1
        jobs = {one["job_id"]: one for one in json.loads(out)["jobs"]}
        assert (jobs[first.id]["found"], jobs[first.id]["action"]) == ("open", "left")
        assert (jobs[second.id]["found"], jobs[second.id]["action"]) == ("committing", "finished")
        assert (jobs[second.id]["run_id"], jobs[second.id]["files"]) == ("r", 3)

    def test_rollback_and_abort_together_exit_2(self, url, run):
        assert run("recover", url, "--rollback", "--abort")[0] == 2

    def test_a_run_id_cannot_bring_escape_sequences_to_the_terminal(self, bucket, url, run):
        died_in(JobState.OPEN, url, run_id="\x1b]0;owned\x07")
        _, out, _ = run("recover", url)
        assert "\x1b" not in out
        assert "owned" in out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--commit"], "--commit needs --job ID; nothing was changed; magicfs recover"),
        (["--tasks", "2"], "--tasks requires --commit"),
        (["--allow-empty", "--abort"], "--allow-empty requires --commit"),
        (["--accept", "seen"], "--accept requires --commit"),
        (["--rollback", "--driver-is-dead"], "--driver-is-dead requires --commit or --abort"),
        (["--commit", "--abort"], "--abort: not allowed with argument --commit"),
        (["--abort", "--rollback"], "--rollback: not allowed with argument --abort"),
    ],
)
def test_options_that_make_no_sense_together(bucket, url, run, words, problem):
    died_in(JobState.OPEN, url)
    before = bucket.objects()
    code, out, err = run("recover", url, *words)
    assert (code, out) == (2, "")
    assert problem in err
    assert bucket.objects() == before


class TestCommit:
    @pytest.mark.parametrize(
        ("mode", "hadoop"),
        [("append", None), ("append", "3.3"), ("overwrite", None), ("error", None), ("error", "3.3")],
    )
    def test_an_open_job_is_published_from_its_pending_sets(self, bucket, url, run, mode, hadoop):
        if mode != "error":
            bucket.put("sales/old.bin", b"old")
        first = Job(url, mode=mode, options={"hadoop": hadoop}).setup()
        job = written(url, mode=mode, hadoop=hadoop, attempt=3, job_id=first.id)
        code, out, _ = run("recover", "--commit", url, "--job", job.id)
        assert code == 0
        assert f"job         {job.id}, committer magic, mode {mode}" in out
        data = bucket.data("sales")
        assert ("sales/old.bin" in data) == (mode == "append")
        data.pop("sales/old.bin", None)
        assert set(data.values()) == NEW
        assert not bucket.uploads()

    @pytest.mark.slow
    @pytest.mark.parametrize("state", [JobState.PREPARED, *DECIDED])
    def test_a_job_whose_driver_died_later_is_published_too(self, bucket, url, run, state):
        job = died_in(state, url, completed=1)
        assert run("recover", "--commit", url, "--job", job.id)[0] == 0
        assert is_new(bucket)

    @pytest.mark.parametrize("state", UNDONE)
    def test_a_job_that_is_being_undone_is_denied(self, bucket, url, run, state):
        job = died_in(state, url, completed=1)
        before = bucket.objects()
        code, _, err = run("recover", "--commit", url, "--job", job.id)
        assert code == 4
        assert f"magicfs recover {url}" in err
        assert bucket.objects() == before

    def test_its_driver_learns_that_another_process_has_committed_it(self, bucket, url, run):
        job = written(url)
        assert run("recover", "--commit", url, "--job", job.id)[0] == 0
        report = job.commit(job.commits[:1])
        assert report.files == 3
        assert report.warnings == ("another process finished the job",)
        assert is_new(bucket)

    def test_another_job_of_the_destination_is_left_as_it_is(self, bucket, url, run):
        job, other = written(url), written(url)
        before = {key: body for key, body in bucket.objects().items() if other.id in key}
        assert run("recover", "--commit", url, "--job", job.id)[0] == 0
        assert {key: body for key, body in bucket.objects().items() if other.id in key} == before
        assert len(bucket.uploads()) == 3

    def test_a_second_commit_says_that_the_job_has_ended(self, bucket, url, run):
        job = written(url)
        assert run("recover", "--commit", url, "--job", job.id)[0] == 0
        before = bucket.objects()
        code, _, err = run("recover", "--commit", url, "--job", job.id)
        assert code == 4
        assert "has ended" in err
        assert bucket.objects() == before

    def test_dry_run_tells_tasks_files_and_names(self, bucket, url, run):
        job = written(url, mode="overwrite")
        before = bucket.objects()
        code, out, _ = run("recover", "--commit", url, "--job", job.id, "--dry-run")
        assert code == 1
        assert "3 (3 B)" in out
        assert f"{url}/part-000000-{job.id}.bin" in out
        document = json.loads(run("recover", "--commit", url, "--job", job.id, "--dry-run", "--json")[1])
        assert (document["action"], document["found"], document["tasks"]) == ("would commit", "open", 3)
        assert bucket.objects() == before

    def test_json_is_the_report(self, bucket, url, run):
        job = written(url)
        code, out, _ = run("recover", "--commit", url, "--job", job.id, "--json")
        document = json.loads(out)
        assert (code, document["job_id"], document["files"]) == (0, job.id, 3)
        assert document["manifest"] == f"{url}/_magicfs/{job.id}.json"

    def test_an_unknown_job_exits_2_and_changes_nothing(self, bucket, url, run):
        written(url)
        before = bucket.objects()
        code, _, err = run("recover", "--commit", url, "--job", str(uuid4()))
        assert code == 2
        assert "no trace of a job" in err
        assert bucket.objects() == before

    def test_a_job_without_a_committed_task_exits_2_and_changes_nothing(self, bucket, url, run):
        bucket.put("sales/old.bin", b"old")
        job = written(url, mode="overwrite", tasks=0)
        job.task(0).setup().filesystem.pipe_file(f"{job.task(0).setup().path}/a", b"not committed")
        all_ended()
        before = bucket.objects()
        code, _, err = run("recover", "--commit", url, "--job", job.id)
        assert code == 2
        assert "no task of job" in err
        assert f"magicfs recover {url} --job {job.id} --abort" in err
        assert bucket.objects() == before

    def test_tracking_in_memory_is_refused_and_changes_nothing(self, bucket, url, run):
        job = written(url, tracking="memory")
        before = bucket.objects()
        code, _, err = run("recover", "--commit", url, "--job", job.id)
        assert code == 2
        assert "tracking='memory'" in err
        assert bucket.objects() == before

    def test_an_altered_pending_set_changes_nothing(self, bucket, url):
        job = written(url)
        key = next(key for key in bucket.objects() if key.endswith(".pendingset"))
        bucket.put(key, b"{")
        before, uploads = bucket.objects(), bucket.uploads()
        with pytest.raises(CommitFailed, match="is malformed or inconsistent"):
            commit(url, job.id)
        assert (bucket.objects(), bucket.uploads()) == (before, uploads)

    def test_a_run_that_is_published_is_not_published_again(self, bucket, url):
        with magicfs.Job(url, mode="append", run_id="batch 7") as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.bin", b"a")
        again = written(url, run_id="batch 7")
        assert again.found.published == job.id
        with pytest.raises(CommitDenied, match="was published by job"):
            commit(url, again.id)
        assert len(bucket.data("sales")) == 1

    def test_data_in_the_way_of_fail_is_refused(self, bucket, url):
        job = written(url, mode="error")
        bucket.put("sales/theirs.bin", b"theirs")
        with pytest.raises(OutputExists):
            commit(url, job.id)
        assert bucket.data("sales") == {"sales/theirs.bin": b"theirs"}
        assert len(bucket.uploads()) == 3


class TestCommitOfHadoop:
    @pytest.mark.parametrize("layout", ["__magic_job", "__magic"])
    def test_a_dead_job_is_published(self, bucket, url, run, layout):
        bucket.put("sales/old.bin", b"old")
        job = HadoopJob(bucket, "sales", layout=layout)
        code, out, _ = run("recover", "--commit", url, "--job", job.id, "--driver-is-dead")
        assert code == 0
        assert "mode append" in out
        data = bucket.data("sales")
        assert data.pop("sales/old.bin") == b"old"
        assert data == job.files
        assert not bucket.uploads()
        assert not [key for key in bucket.objects() if "__magic" in key]
        assert magicfs.Dataset(url).recover().jobs == ()

    def test_without_the_vow_nothing_is_changed(self, bucket, url, run):
        job = HadoopJob(bucket, "sales")
        before, uploads = bucket.objects(), bucket.uploads()
        code, _, err = run("recover", "--commit", url, "--job", job.id)
        assert code == 2
        assert "--driver-is-dead" in err
        assert (bucket.objects(), bucket.uploads()) == (before, uploads)

    def test_dry_run_tells_that_it_is_hadoops(self, bucket, url):
        job = HadoopJob(bucket, "sales", attempt=2)
        before = bucket.objects()
        listed = preview_commit(url, job.id, driver_is_dead=True)
        assert (listed.found, listed.tasks, listed.files, listed.attempt) == ("hadoop", 2, 4, 2)
        assert bucket.objects() == before

    @pytest.mark.parametrize("completed", [1, 3, 4])
    def test_a_driver_that_died_while_publishing_is_rolled_forward(self, bucket, url, run, completed):
        job = HadoopJob(bucket, "sales")
        job.complete(completed)
        assert len(bucket.data("sales")) == completed
        code, out, _ = run("recover", "--commit", url, "--job", job.id, "--driver-is-dead", "--json")
        assert code == 0
        assert json.loads(out)["files"] == 4
        assert bucket.data("sales") == job.files
        assert not bucket.uploads()
        assert not [key for key in bucket.objects() if "__magic" in key]
        assert len(published_manifest(url).files) == 4

    def test_names_that_are_taken_are_refused_and_kept(self, bucket, url):
        job = HadoopJob(bucket, "sales")
        taken = next(iter(job.files))
        bucket.put(taken, b"theirs")
        with pytest.raises(OutputExists, match="taken"):
            commit(url, job.id, driver_is_dead=True)
        assert bucket.data("sales") == {taken: b"theirs"}
        assert len(bucket.uploads()) == 4

    def test_what_a_task_left_after_its_job_had_ended_is_never_published(self, bucket, url, run):
        job = magicfs.Job(url, mode="append").setup()
        job.abort()
        zombie = magicfs.Task(job.spec, task_id("late")).setup()
        zombie.filesystem.pipe_file(f"{zombie.path}/b.bin", b"late")
        zombie.commit()
        code, _, err = run("recover", "--commit", url, "--job", job.id, "--driver-is-dead")
        assert code == 4
        assert "has ended" in err
        assert bucket.data("sales") == {}


class TestAbort:
    @pytest.mark.parametrize("state", BEFORE)
    def test_an_open_job_is_discarded(self, bucket, url, run, state):
        bucket.put("sales/old.bin", b"old")
        job = died_in(state, url)
        code, out, _ = run("recover", "--abort", url)
        assert code == 0
        assert "3 uploads" in out
        assert bucket.objects() == {"sales/old.bin": b"old"}
        assert not bucket.uploads()
        with pytest.raises(CommitDenied):
            job.commit()

    def test_without_a_job_it_exits_2(self, bucket, url, run):
        assert run("recover", "--abort", url)[0] == 2

    def test_two_jobs_and_none_named_exit_2_and_one_named_leaves_the_other(self, bucket, url, run):
        first, second = written(url), written(url)
        code, _, err = run("recover", "--abort", url)
        assert code == 2
        assert first.id in err
        assert second.id in err
        assert run("recover", "--abort", url, "--job", first.id)[0] == 0
        assert len(bucket.uploads()) == 3
        second.commit()
        assert set(bucket.data("sales").values()) == NEW

    def test_dry_run_changes_nothing(self, bucket, url, run):
        job = written(url)
        before, uploads = bucket.objects(), bucket.uploads()
        assert run("recover", "--abort", url, "--dry-run")[0] == 1
        assert run("recover", "--abort", url, "--job", job.id, "--dry-run")[0] == 1
        assert (bucket.objects(), bucket.uploads()) == (before, uploads)

    @pytest.mark.parametrize("unique", [True, False])
    @pytest.mark.parametrize("published", [True, False])
    def test_late_zombies_of_an_ended_job_are_swept_and_nothing_else(
        self, bucket, url, run, unique, published
    ):
        job = written(url, unique_names=unique, tasks=int(published))
        if published:
            job.commit()
        else:
            job.abort()
        kept = bucket.objects()
        zombie = magicfs.Task(job.spec, task_id("late")).setup()
        zombie.filesystem.pipe_file(f"{zombie.path}/late.bin", b"late")
        bucket.create_upload("sales/theirs.bin")
        neighbour = written(bucket.url("sales2"))
        ours = {key for key in bucket.objects() if key.startswith("sales/")} - set(kept)
        assert ours
        code, out, _ = run("recover", "--abort", url, "--job", job.id, "--dry-run", "--json")
        assert (code, json.loads(out)["jobs"][0]["action"]) == (1, "would sweep")
        assert {key for key in bucket.objects() if key.startswith("sales/")} - set(kept) == ours
        code, out, _ = run("recover", "--abort", url, "--job", job.id)
        assert code == 0
        assert "swept" in out
        assert {k: v for k, v in bucket.objects().items() if k.startswith("sales/")} == kept
        assert "sales/theirs.bin" in bucket.uploads()
        assert len(bucket.uploads()) == 4
        neighbour.commit()
        again = run("recover", "--abort", url, "--job", job.id)
        nothing = f"job {job.id} left nothing under {url}; nothing was changed\n"
        stays = (
            f"job     {job.id}\nfound   ended\ndone    swept\nreason  it is published, and its files stay\n"
        )
        assert again == (0, stays if published else nothing, "")

    def test_a_job_at_work_further_down_is_not_taken_for_one_that_has_ended(self, bucket, run):
        job = written(bucket.url("lake/sales"))
        before, uploads = bucket.objects(), bucket.uploads()
        code, _, err = run("recover", "--abort", bucket.url("lake"), "--job", job.id)
        assert code == 2
        assert bucket.url("lake/sales") in err
        assert (bucket.objects(), bucket.uploads()) == (before, uploads)

    def test_a_job_of_hadoops_needs_the_vow(self, bucket, url, run):
        job = HadoopJob(bucket, "sales")
        before, uploads = bucket.objects(), bucket.uploads()
        code, _, err = run("recover", "--abort", url, "--job", job.id)
        assert code == 2
        assert "--driver-is-dead" in err
        assert (bucket.objects(), bucket.uploads()) == (before, uploads)
        assert abort(url, job=job.id, driver_is_dead=True).jobs[0].uploads == 4
        assert not bucket.uploads()
        assert not [key for key in bucket.objects() if "pending" in key]

    def test_a_name_that_is_no_job_id_exits_2(self, url, run):
        assert run("recover", "--abort", url, "--job", "../x")[0] == 2
        assert run("recover", "--commit", url, "--job", "../x")[0] == 2


class TestShow:
    def test_a_job_object_shows_state_facts_and_what_it_deletes(self, bucket, url, run):
        bucket.put("sales/old.bin", b"old")
        job = died_in(JobState.PREPARED, url, run_id="batch 7")
        key = job.spec.work_layout.job_object_key
        code, out, _ = run("show", bucket.url(key))
        assert code == 0
        for told in (job.id, "batch 7", "prepared: the files to replace", "overwrite", "deletions"):
            assert told in out
        assert json.loads(run("show", bucket.url(key), "--json")[1])["kind"] == "job"

    def test_deletions_show_the_old_files(self, bucket, url, run):
        bucket.put("sales/día 1/old.bin", b"old")
        died_in(JobState.PREPARED, url)
        (key,) = (key for key in bucket.objects() if "deletions-" in key)
        code, out, _ = run("show", bucket.url(key))
        assert code == 0
        assert "sales/día 1/old.bin" in out
        assert json.loads(run("show", bucket.url(key), "--json")[1])["kind"] == "deletions"


class TestFindings:
    def messages(self, caplog: pytest.LogCaptureFixture) -> list[str]:
        said = [one.getMessage() for one in caplog.records if one.name == "magicfs"]
        assert said.pop(0).endswith(" is set up: mode append")  # the step itself, before what was found
        return said

    def test_unfinished_jobs_and_pending_uploads_are_logged_one_line_each(self, bucket, url, caplog):
        other = written(url, run_id="nightly\n1", tasks=1)
        with caplog.at_level(logging.INFO, logger="magicfs"):
            job = magicfs.Job(url, mode="append").setup()
        said = self.messages(caplog)
        assert len(said) == 2
        assert f"job {other.id} of run 'nightly\\n1' is unfinished: open since 20" in said[0]
        assert f"an upload of 'sales/part-000000-{other.id}.bin' is pending since 20" in said[1]
        assert all(job.id in one and "\n" not in one for one in said)

    def test_of_many_uploads_the_oldest_are_logged_and_the_rest_is_counted(self, bucket, url, caplog):
        for number in range(LISTED_MAX + 5):
            bucket.create_upload(f"sales/{number:03}.bin")
        with caplog.at_level(logging.INFO, logger="magicfs"):
            magicfs.Job(url, mode="append").setup()
        said = self.messages(caplog)
        assert len(said) == LISTED_MAX + 1
        assert "5 more uploads" in said[-1]

    def test_many_unfinished_jobs_are_said_with_how_to_clear_them(
        self, bucket, url, caplog, run, monkeypatch
    ):
        for _ in range(3):
            written(url, tasks=0)
        monkeypatch.setattr(context, "MANY_JOBS", 2)
        caplog.clear()
        magicfs.Job(url, mode="append").setup()
        [said] = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
        assert said.startswith(f"3 jobs are unfinished at {url}")
        advice = f"magicfs recover {url} --job ID --abort ends one whose driver is dead"
        assert advice in said
        assert run("recover", url, "--dry-run")[1].startswith(f"4 jobs are unfinished at {url}")
        assert advice in run("doctor", url, "--read-only")[1]

    def test_a_clean_destination_is_silent(self, url, caplog):
        with caplog.at_level(logging.INFO, logger="magicfs"):
            magicfs.Job(url, mode="append").setup()
        assert self.messages(caplog) == []


@pytest.mark.parametrize("command", [["recover"], ["doctor"], ["status"]])
def test_a_command_that_is_printed_is_one_command_whatever_directories_are_called(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever may write to a bucket names its directories, and people paste what is printed."""
    bucket = uuid4().hex
    evil = f"memory://{bucket}/x; touch $(id) `id` 'y"
    job = magicfs.Job(evil, mode="append").setup()
    cli.main([*command, f"memory://{bucket}"])
    cli.main([*command, evil])
    printed = capsys.readouterr().out
    lines = [line[line.index("magicfs ") :] for line in printed.splitlines() if "magicfs recover" in line]
    assert lines
    for line in lines:
        words = shlex.split(line.partition(", then")[0])
        assert words[:3] == ["magicfs", "recover", evil], line
    job.abort()
