"""Audits: what they see, what becomes of a job that fails one, and that nobody publishes it by mistake."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs import datasets
from magicfs.audit import (
    Audited,
    Check,
    CompatibleSchema,
    NoNulls,
    Partitions,
    Range,
    RowChange,
    Rows,
    SameSchema,
)
from magicfs.audit.extension import Judge
from magicfs.cli.main import main
from magicfs.committers import registry
from magicfs.datasets.commit import commit_listed
from magicfs.errors import AuditFailed, CommitDenied, CommitFailed, ProtocolViolation, UsageError
from magicfs.formats.audit import Audit
from magicfs.formats.job_object import JobObject
from magicfs.protocol import paths
from magicfs.protocol.ids import job_id, task_id
from magicfs.report import RecoveredJob
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind
from magicfs.transaction import output as job_output
from magicfs.transaction.driver import JobTransaction
from magicfs.transaction.extension import Accepted
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import JobScene
from proofs.scenes.manifests import published_manifest

pytestmark = pytest.mark.sample(most=2)

DEST = "env=prod/día 50% + #1"
CUTS = (Kind.CRASH_BEFORE, Kind.CRASH_AFTER)


def parquet(rows: int = 1, **columns: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns or {"n": pa.array(range(rows), pa.int64())}), buffer)
    return buffer.getvalue()


@pytest.fixture(params=["if-match", "numbered"])
def scene(request: pytest.FixtureRequest) -> JobScene:
    return JobScene(DEST, ignores=frozenset({"put_if_match"} if request.param == "numbered" else ()))


@pytest.fixture
def plain() -> JobScene:
    return JobScene(DEST)


def a_hundred(scene: JobScene, **how: Any) -> magicfs.Job:
    return scene.published({"old.parquet": parquet(100)}, footers=True, **how)


def dropped(scene: JobScene, mode: str = "overwrite", rows: int = 70, **how: Any) -> magicfs.Job:
    """A job of 30 % less rows, whose audit has failed."""
    job = scene.job(mode, audit=[RowChange(less=0.2)], **how)
    with pytest.raises(AuditFailed, match=r"70 rows after 100 \(-30.0%\)|70 rows") as caught:
        job.commit(scene.wrote(job, {"a.parquet": parquet(rows - 30)}, {"b.parquet": parquet(30)}))
    assert caught.value.quarantined
    return job


def held(scene: JobScene, job: magicfs.Job) -> JobObject:
    found = scene.job_object(job)
    assert found is not None
    return found


def accept(scene: JobScene, job: magicfs.Job, reason: str | None = "weekend", **how: Any) -> Any:
    return datasets.commit(scene.url, job.id, accept=reason, filesystem=scene.filesystem, **how)


def audit_of(scene: JobScene, job: str) -> Audit:
    found = published_manifest(scene.url, job, filesystem=scene.filesystem).audit
    assert found is not None
    return found


def rows_shown(scene: JobScene) -> list[int]:
    found = magicfs.Dataset(scene.url, filesystem=scene.filesystem).footers()
    return sorted(one.rows for one in found.values() if one)


def recovered(scene: JobScene, **how: Any) -> list[RecoveredJob]:
    return list(magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover(**how).jobs)


WAYS: dict[str, dict[str, Any]] = {
    "store": {},
    "memory": {"tracking": "memory"},
    "small files": {"tracking": "memory", "small_files": 100_000},
    "old layout": {"form": {"layout": "__magic"}},
    "equal names": {"unique_names": False},
}


class TestQuarantine:
    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("mode", ["append", "overwrite"])
    def test_a_drop_of_rows_is_held_and_accepted_later(self, scene: JobScene, way: str, mode: str):
        first = a_hundred(scene)
        before = scene.data()
        job = dropped(scene, mode, **WAYS[way])
        assert scene.data() == before
        assert rows_shown(scene) == [100]
        assert held(scene, job).is_quarantined
        for _ in range(2):
            [left] = recovered(scene)
            assert (left.job_id, left.found, left.action) == (job.id, "quarantined", "left")
            assert "70 rows after 100" in left.reason
        with pytest.raises(UsageError, match=r"in quarantine.*--accept"):
            accept(scene, job, None)
        assert scene.data() == before
        report = accept(scene, job)
        assert report.files == 2
        assert rows_shown(scene) == ([30, 40, 100] if mode == "append" else [30, 40])
        said = audit_of(scene, job.id)
        assert (said.against, said.accepted, said.passed) == (first.id, "weekend", False)
        assert [one.told for one in said.verdicts] == ["70 rows after 100 (-30.0%)"]
        assert scene.work() == []
        assert scene.uploads() == []
        assert recovered(scene) == []

    def test_or_it_is_discarded(self, scene: JobScene):
        a_hundred(scene)
        before = scene.data()
        job = dropped(scene)
        datasets.abort(scene.url, job=job.id, filesystem=scene.filesystem)
        assert scene.data() == before
        assert scene.work() == []
        assert scene.uploads() == []
        with pytest.raises(UsageError, match="no trace of a job"):
            accept(scene, job)

    def test_its_own_driver_may_discard_it_and_not_commit_it(self, plain: JobScene):
        a_hundred(plain)
        job = dropped(plain)
        assert "quarantined" in repr(job)
        with pytest.raises(ProtocolViolation, match="too late to call commit"):
            job.commit([])
        with pytest.raises(ProtocolViolation, match="its audit failed"):
            _ = job.report
        job.abort()
        assert plain.work() == []
        assert plain.uploads() == []

    def test_a_with_block_leaves_it(self, plain: JobScene):
        a_hundred(plain)
        with (
            pytest.raises(AuditFailed),
            magicfs.Job(
                plain.url, mode="overwrite", audit=[RowChange(0.2)], filesystem=plain.filesystem
            ) as job,
            job.task(0) as task,
        ):
            task.filesystem.pipe_file(f"{task.path}/a.parquet", parquet(70))
        assert held(plain, job).is_quarantined
        assert accept(plain, job).files == 1

    def test_nobody_takes_it_over(self, plain: JobScene):
        a_hundred(plain)
        job = dropped(plain)
        copy = magicfs.Job(
            plain.url, mode="overwrite", job_id=job.id, filesystem=plain.filesystem, options={"attempt": 1}
        )
        with pytest.raises(CommitDenied, match="in quarantine"):
            copy.setup()
        committer = registry.make("magic", job.spec.context, plain.engine(Traffic([])))
        with pytest.raises(CommitDenied):
            plain.lived(lambda: committer.commit_job([], job.found.driver))
        with pytest.raises(CommitDenied, match="in quarantine"):
            plain.lived(lambda: committer.commit_job([], None))
        assert held(plain, job).is_quarantined

    def test_who_has_no_token_publishes_nothing_else_once_it_is_accepted(self, plain: JobScene):
        a_hundred(plain)
        job = dropped(plain)
        before = plain.data()
        committer = registry.make("magic", job.spec.context, plain.engine(Traffic([])))
        late = magicfs.Task(job.spec, task_id(0)).setup()
        late.filesystem.pipe_file(f"{late.path}/other.parquet", parquet(1))
        others = [late.commit()]
        place = paths.parse_url(plain.url)
        moved = Traffic(
            [Fault(Kind.CRASH_AFTER, operation="put", prefix=job.spec.context.layout.job_object_key)]
        )
        engine = plain.engine(moved)
        assert plain.lived(lambda: commit_listed(engine, place, job.id, accept="weekend")) is None
        there = held(plain, job)
        assert there.audit is not None
        assert (there.state, there.audit.accepted) == ("open", "weekend")
        with pytest.raises(CommitDenied, match="accepted after its audit had failed"):
            plain.lived(lambda: committer.commit_job(others, None))
        assert plain.data() == before
        assert accept(plain, job, None).files == 2
        assert rows_shown(plain) == [30, 40]

    def test_a_newer_run_takes_its_place(self, plain: JobScene):
        a_hundred(plain)
        job = dropped(plain, run_id="daily")
        again = plain.job("overwrite", audit=[RowChange(less=0.2)], run_id="daily")
        assert plain.job_object(job) is None
        again.commit(plain.wrote(again, {"a.parquet": parquet(95)}))
        assert rows_shown(plain) == [95]
        assert audit_of(plain, again.id).passed

    def test_another_job_may_publish_meanwhile(self, plain: JobScene):
        a_hundred(plain)
        job = dropped(plain, "append")
        plain.published({"c.parquet": parquet(5)}, footers=True)
        accept(plain, job)
        assert rows_shown(plain) == [5, 30, 40, 100]

    def test_accepting_needs_a_reason_and_a_quarantine(self, plain: JobScene):
        a_hundred(plain)
        job = dropped(plain)
        with pytest.raises(UsageError, match="needs a reason"):
            accept(plain, job, " ")
        datasets.abort(plain.url, job=job.id, filesystem=plain.filesystem)
        open_job = plain.job("append")
        plain.wrote(open_job, {"x.bin": b"1"})
        with pytest.raises(UsageError, match="not in quarantine"):
            accept(plain, open_job)
        assert plain.state(open_job) == "open"

    @pytest.mark.parametrize("committer", ["directory", "partitioned"])
    @pytest.mark.parametrize("shared", [False, True])
    def test_staged_files(self, scene: JobScene, committer: str, shared: bool, tmp_path: Path):
        a_hundred(scene)
        options = {"work_directory": f"{tmp_path}/work"}
        if shared:
            options["cluster_directory"] = f"{tmp_path}/shared"
        job = magicfs.Job(
            scene.url,
            mode="append",
            audit=[RowChange(less=0.2)],
            committer=committer,
            filesystem=scene.filesystem,
            options={**options},
        )
        with pytest.raises(AuditFailed), job, job.task(0) as task:
            (Path(task.path) / "p=1").mkdir()
            (Path(task.path) / "p=1" / "a.parquet").write_bytes(parquet(70))
        assert rows_shown(scene) == [100]
        accept(scene, job)
        assert rows_shown(scene) == [70, 100]


def unjudged(scene: JobScene, mode: str = "overwrite", **how: Any) -> magicfs.Job:
    """A job whose tasks have committed, and whose driver has died before the rules were asked."""
    job = scene.job(mode, audit=[RowChange(less=0.2), holidays], **how)
    scene.wrote(job, {"a.parquet": parquet(40)}, {"b.parquet": parquet(30)})
    return job


def holidays(seen: Audited) -> bool:
    return seen.rows != 71


_RULES = r"RowChange\(less=0.2, more=None\); holidays"


class TestNotJudged:
    @pytest.mark.parametrize("mode", ["append", "overwrite"])
    @pytest.mark.parametrize("way", ["store", "old layout", "equal names"])
    def test_nobody_publishes_it_by_mistake(self, scene: JobScene, mode: str, way: str):
        first = a_hundred(scene)
        job = unjudged(scene, mode, **WAYS[way])
        before = scene.everything()
        for _ in range(2):
            [left] = recovered(scene)
            assert (left.job_id, left.found, left.action) == (job.id, "unjudged", "left")
            assert left.reason.startswith("it has to pass RowChange(less=0.2, more=None); holidays")
        for call in (datasets.commit, datasets.preview_commit):
            with pytest.raises(UsageError, match=rf"has to pass {_RULES} .*--accept REASON"):
                call(scene.url, job.id, filesystem=scene.filesystem)
        with pytest.raises(UsageError, match="needs a reason"):
            accept(scene, job, "")
        with pytest.raises(UsageError, match="was set up with the audit rules"):
            scene.job(mode, job_id=job.id, **WAYS[way])
        committer = registry.make("magic", job.spec.context, scene.engine(Traffic([])))
        for driver in (None, job.found.driver):
            with pytest.raises(CommitDenied, match=rf"has to pass {_RULES}"):
                scene.lived(lambda: committer.commit_job(None, driver))  # noqa: B023
        assert scene.everything() == before
        assert accept(scene, job).files == 2
        assert rows_shown(scene) == ([30, 40, 100] if mode == "append" else [30, 40])
        said = audit_of(scene, job.id)
        assert (said.against, said.accepted, said.passed) == (None, "weekend", False)
        assert [one.rule for one in said.verdicts] == ["RowChange(less=0.2, more=None)", "holidays"]
        assert {one.told for one in said.verdicts} == {"did not run: the job's driver died before it"}
        assert first.id != job.id
        assert scene.work() == []
        assert scene.uploads() == []
        assert recovered(scene) == []

    def test_or_it_is_judged_by_one_more_driver(self, scene: JobScene):
        a_hundred(scene)
        job = unjudged(scene)
        how = {"mode": "overwrite", "job_id": job.id, "filesystem": scene.filesystem}
        again = magicfs.Job(scene.url, audit=[RowChange(less=0.2)], **arranged(**how)).setup()
        with pytest.raises(AuditFailed, match="70 rows after 100"):
            again.commit()
        assert held(scene, again).is_quarantined
        datasets.abort(scene.url, job=job.id, filesystem=scene.filesystem)
        job = unjudged(scene)
        again = magicfs.Job(
            scene.url, audit=[RowChange(less=0.5)], **arranged(**how | {"job_id": job.id})
        ).setup()
        assert held(scene, again).options.audit.rules == ("RowChange(less=0.5, more=None)",)
        again.commit()
        assert rows_shown(scene) == [30, 40]
        assert audit_of(scene, job.id).passed

    def test_or_it_is_discarded(self, scene: JobScene):
        a_hundred(scene)
        before = scene.data()
        job = unjudged(scene)
        assert [one.action for one in recovered(scene, job=job.id, abort=True)] == ["aborted"]
        assert scene.data() == before
        assert scene.work() == []
        assert scene.uploads() == []

    def test_a_newer_run_takes_its_place(self, plain: JobScene):
        a_hundred(plain)
        job = unjudged(plain, run_id="daily")
        again = plain.job("overwrite", run_id="daily", footers=True)
        assert plain.job_object(job) is None
        again.commit(plain.wrote(again, {"a.parquet": parquet(9)}))
        assert rows_shown(plain) == [9]

    def test_what_only_the_driver_knew_is_not_published(self, plain: JobScene):
        a_hundred(plain)
        job = unjudged(plain, tracking="memory")
        with pytest.raises(UsageError, match="tracking='memory'"):
            accept(plain, job)

    def test_no_rules_are_no_rules(self, plain: JobScene):
        a_hundred(plain)
        job = plain.job("append", audit=[])
        plain.wrote(job, {"a.parquet": parquet(1)})
        assert b"audit" not in held(plain, job).to_bytes()
        assert datasets.commit(plain.url, job.id, filesystem=plain.filesystem).files == 1

    def test_what_was_listed_is_published_whoever_goes_on(self, plain: JobScene):
        a_hundred(plain)
        job = unjudged(plain)
        place = paths.parse_url(plain.url)
        moved = Traffic(
            [Fault(Kind.CRASH_AFTER, operation="put", prefix=job.spec.context.layout.job_object_key)]
        )
        engine = plain.engine(moved)
        assert plain.lived(lambda: commit_listed(engine, place, job.id, accept="weekend")) is None
        late = magicfs.Task(job.spec, task_id(7)).setup()
        late.filesystem.pipe_file(f"{late.path}/other.parquet", parquet(1))
        late.commit()
        assert accept(plain, job, None).files == 2
        assert rows_shown(plain) == [30, 40]
        assert audit_of(plain, job.id).accepted == "weekend"

    def test_one_that_was_judged_meanwhile_is_not_accepted_so(self, plain: JobScene):
        a_hundred(plain)
        job = unjudged(plain)
        context = job.spec.context
        engine = plain.engine(Traffic([]))
        output = plain.lived(lambda: job_output.load_listed(engine, context, None))
        seen = plain.lived(lambda: JobTransaction(engine, context).job())
        accepted = Accepted(engine, context, seen, output, "weekend")
        with pytest.raises(AuditFailed):
            job.commit()
        with pytest.raises(CommitDenied, match="has audited it meanwhile"):
            plain.lived(lambda: Judge().accept(accepted))
        datasets.abort(plain.url, job=job.id, filesystem=plain.filesystem)
        with pytest.raises(CommitDenied, match="has ended"):
            plain.lived(lambda: Judge().accept(accepted))

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", CUTS)
    @pytest.mark.parametrize("mode", ["append", "overwrite"])
    def test_deaths_of_whoever_accepts_it(self, kind: Any, mode: str):
        ends: set[str] = set()
        for number in range(1, 120):
            scene = JobScene(DEST)
            a_hundred(scene)
            before = scene.data()
            job = unjudged(scene, mode)
            engine, place = scene.engine(Traffic([Fault(kind, number=number)])), paths.parse_url(scene.url)
            done = scene.lived(lambda: commit_listed(engine, place, job.id, accept="weekend"))  # noqa: B023
            new = [30, 40, 100] if mode == "append" else [30, 40]
            left = recovered(scene)
            there = scene.job_object(job)
            if there is not None:
                assert scene.data() == before
                ends.add(left[0].found)
                assert left[0].action == "left"
                if number % 3 == 0:
                    datasets.abort(scene.url, job=job.id, filesystem=scene.filesystem)
                elif there.is_unjudged:
                    accept(scene, job)
                else:
                    accept(scene, job, None)
            if rows_shown(scene) == new:
                assert audit_of(scene, job.id).accepted == "weekend"
            else:
                assert rows_shown(scene) == [100]
                assert number % 3 == 0
            assert scene.work() == []
            assert scene.uploads() == []
            if done is not None:
                break
        assert 15 < number < 119, "every request"
        assert {"unjudged", "open"} <= ends

    @pytest.mark.slow
    @pytest.mark.parametrize("mode", ["append", "overwrite"])
    def test_deaths_of_a_driver_whose_audit_passes(self, mode: str):
        ends: set[str] = set()
        for number in range(1, 120):
            scene = JobScene(DEST)
            a_hundred(scene)
            job = scene.job(mode, audit=[RowChange(less=0.5)])
            commits = scene.wrote(job, {"a.parquet": parquet(40)}, {"b.parquet": parquet(30)})
            engine = scene.engine(Traffic([Fault(Kind.CRASH_AFTER, number=number)]))
            committer: Any = registry.make("magic", job.spec.context, engine)
            committer.given = (Judge((RowChange(less=0.5),)),)
            done = scene.lived(lambda: committer.commit_job(commits, job.found.driver))  # noqa: B023
            left = recovered(scene)
            if left and left[0].action == "left":
                ends.add(left[0].found)
                with pytest.raises(UsageError, match="has to pass"):
                    accept(scene, job, None)
                again = magicfs.Job(
                    scene.url,
                    mode=mode,  # type: ignore[arg-type]
                    job_id=job.id,
                    audit=[RowChange(less=0.5)],
                    filesystem=scene.filesystem,
                )
                again.setup().commit()
            assert rows_shown(scene) == ([30, 40, 100] if mode == "append" else [30, 40])
            assert audit_of(scene, job.id).passed
            assert scene.work() == []
            if done is not None:
                break
        assert 10 < number < 119, "every request"
        assert ends == {"unjudged"}

    def test_commands(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        url = f"{tmp_path}/d"
        job = magicfs.Job(url, audit=[Rows(min=5)]).setup()
        task = job.task(0).setup()
        task.filesystem.pipe_file(f"{task.path}/a.parquet", parquet(9))
        task.commit()
        assert main(["recover", url]) == 1
        out = capsys.readouterr().out
        assert "unjudged, last moved" in out
        assert "it has to pass Rows(min=5, max=None), and the audit has not run" in out
        assert "--accept REASON publishes it without the audit" in out
        assert main(["recover", "--json", url]) == 1
        assert json.loads(capsys.readouterr().out)["jobs"][0]["found"] == "unjudged"
        assert main(["uploads", url]) == 1
        assert ", not judged yet" in capsys.readouterr().out
        assert main(["uploads", "--json", url]) == 1
        [upload] = json.loads(capsys.readouterr().out)["pending"]
        assert (upload["quarantined"], upload["unjudged"]) == (False, True)
        there = max(Path(url).glob("__magic*/**/job*.json"))
        assert main(["show", str(there)]) == 0
        assert "to be judged by" in capsys.readouterr().out
        assert main(["recover", "--commit", url, "--job", job.id]) == 2
        assert "--accept REASON" in capsys.readouterr().err
        assert (
            main(["recover", "--commit", url, "--job", job.id, "--accept", "seen by eye", "--dry-run"]) == 1
        )
        assert main(["recover", "--commit", url, "--job", job.id, "--accept", "seen by eye"]) == 0
        capsys.readouterr()
        assert main(["show", f"{url}/_magicfs/{job.id}.json"]) == 0
        assert "seen by eye" in capsys.readouterr().out


class TestAbort:
    @pytest.mark.parametrize("way", WAYS)
    def test_nothing_is_left(self, scene: JobScene, way: str):
        a_hundred(scene)
        before = scene.data()
        job = scene.job("overwrite", audit=[RowChange(less=0.2)], audit_failure="abort", **WAYS[way])
        with pytest.raises(AuditFailed, match="was aborted") as caught:
            job.commit(scene.wrote(job, {"a.parquet": parquet(70)}))
        assert not caught.value.quarantined
        assert caught.value.failed == ("RowChange(less=0.2, more=None): 70 rows after 100 (-30.0%)",)
        assert isinstance(caught.value, CommitFailed)
        assert scene.data() == before
        assert scene.work() == []
        assert scene.uploads() == []
        job.abort()

    def test_an_unknown_word_is_refused(self):
        with pytest.raises(UsageError, match="audit_failure"):
            magicfs.Job("memory://bucket/x", options={"audit_failure": "ignore"})  # type: ignore[arg-type]

    @pytest.mark.parametrize("committer", ["file", "direct"])
    def test_committers_without_footers_refuse(self, committer: str):
        with pytest.raises(UsageError, match="footers are recorded in manifests"):
            magicfs.Job("memory://bucket/x", committer=committer, mode="append", audit=[Rows(1)])


class TestPassing:
    def test_verdicts_stand_in_the_manifest(self, scene: JobScene):
        first = a_hundred(scene)
        job = scene.job("overwrite", audit=[Rows(min=10), RowChange(less=0.2)])
        job.commit(scene.wrote(job, {"a.parquet": parquet(90)}), audit=[SameSchema()])
        said = audit_of(scene, job.id)
        assert said.passed
        assert said.against == first.id
        assert said.accepted is None
        assert [one.rule for one in said.verdicts] == [
            "Rows(min=10, max=None)",
            "RowChange(less=0.2, more=None)",
            "SameSchema()",
        ]
        assert said.verdicts[1].told == "90 rows after 100 (-10.0%)"

    def test_a_job_pickles_with_its_rules(self, tmp_path: Path):
        url = f"{tmp_path}/d"
        with magicfs.Job(url, options={"footers": True}) as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.parquet", parquet(100))
        job = magicfs.Job(url, mode="overwrite", audit=[RowChange(less=0.2)]).setup()
        with job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.parquet", parquet(70))
        with pytest.raises(AuditFailed):
            pickle.loads(pickle.dumps(job)).commit()
        assert [one.found for one in magicfs.Dataset(url).recover().jobs] == ["quarantined"]

    def test_without_rules_nothing_is_said(self, plain: JobScene):
        job = a_hundred(plain)
        assert published_manifest(plain.url, job.id, filesystem=plain.filesystem).audit is None
        assert held(plain, plain.job()).audit is None


def judged(scene: JobScene, rules: Sequence[Any], *tasks: Any, mode: str = "append") -> str | None:
    """What made the audit fail; None if it passed."""
    job = scene.job(mode, audit=rules, audit_failure="abort")
    try:
        job.commit(scene.wrote(job, *tasks))
    except AuditFailed as error:
        [said] = error.failed
        return said.partition(": ")[2]
    return None


class TestRules:
    @pytest.mark.parametrize(
        ("rule", "said"),
        [
            (Rows(3, 3), None),
            (Rows(min=4), "3 rows"),
            (Rows(max=2), "3 rows"),
            (RowChange(), None),
            (SameSchema(), None),
            (CompatibleSchema(), None),
            (NoNulls("n"), "1 nulls in 3 rows"),
            (NoNulls("n", share=0.34), None),
            (NoNulls("d"), None),
            (NoNulls("x"), "p=1/a-000000-JOB.parquet has no null count for x"),
            (Range("n", 1, 5), None),
            (Range("n", min=2), "from 1 to 5"),
            (Range("n", max=4), "from 1 to 5"),
            (Range("d", date(2026, 1, 1), date(2026, 1, 31)), None),
            (Range("d", max=date(2026, 1, 1)), "from 2026-01-01 to 2026-01-03"),
            (Range("none", 1, 2), None),
            (Range("n", max="x"), "from 1 to 5, which cannot be compared with the bounds"),
            (Partitions("p", ["1"]), None),
            (Partitions("p", ["2", "3"]), "p=1/a-000000-JOB.parquet lies in partition p=1"),
            (Partitions("q", ["1"]), "p=1/a-000000-JOB.parquet lies in no partition"),
            (lambda seen: None, None),
            (lambda seen: seen.rows == 3, None),
            (lambda seen: seen.rows == 4, "returned False"),
            (lambda seen: "too few" if seen.count < 2 else None, "too few"),
            (Check(lambda seen: 1 / 0, "divides"), "raised ZeroDivisionError('division by zero')"),
        ],
    )
    def test_what_each_says(self, plain: JobScene, rule: Any, said: str | None):
        columns = {
            "n": pa.array([1, None, 5], pa.int64()),
            "d": [date(2026, 1, day) for day in (1, 2, 3)],
            "none": pa.array([None] * 3, pa.int64()),
        }
        job = plain.job("append", audit=[rule], audit_failure="abort")
        commits = plain.wrote(job, {"p=1/a.parquet": parquet(**columns)})
        if said is None:
            job.commit(commits)
            return
        with pytest.raises(AuditFailed) as caught:
            job.commit(commits)
        assert caught.value.failed[0].partition(": ")[2].replace(job.id, "JOB") == said

    @pytest.mark.parametrize(
        ("rule", "rows", "said"),
        [
            (RowChange(less=0.3), 70, None),
            (RowChange(less=0.3), 69, "69 rows after 100 (-31.0%)"),
            (RowChange(less=None, more=0.5), 150, None),
            (RowChange(less=None, more=0.5), 151, "151 rows after 100 (+51.0%)"),
            (RowChange(less=0), 100, None),
            (RowChange(less=None), 0, None),
        ],
    )
    def test_against_the_publication_before(self, plain: JobScene, rule: Any, rows: int, said: str | None):
        a_hundred(plain)
        assert judged(plain, [rule], {"a.parquet": parquet(rows)}) == said

    def test_what_is_not_known_lets_nothing_pass(self, plain: JobScene):
        plain.published({"a.parquet": parquet(3)})
        assert "is not known" in str(judged(plain, [RowChange()], {"b.parquet": parquet(3)}))
        for rule in (Rows(), RowChange(), SameSchema(), CompatibleSchema()):
            found = judged(plain, [rule], {"a.parquet": parquet(3)}, {"b.bin": b"x"})
            assert found is not None
            assert found.startswith("1 of 2 files have no recorded statistics, such as b-000001-")

    def test_schemas(self, plain: JobScene):
        plain.published({"a.parquet": parquet(n=pa.array([1], pa.int32()), s=["x"], l=[[1]])}, footers=True)
        same = {"n": pa.array([2], pa.int32()), "s": ["y"], "l": [[2]]}
        wider = {**same, "n": pa.array([2], pa.int64())}
        more = {**same, "new": ["z"]}
        less = {"n": pa.array([2], pa.int32()), "s": ["y"]}
        other = {**same, "s": [1]}

        for columns, is_same, problem in (
            (same, True, None),
            (wider, False, None),
            (more, False, None),
            (less, False, "column l.list.element is missing"),
            (other, False, "column s is int64, previously string"),
        ):
            one = JobScene(DEST)
            one.published({"a.parquet": parquet(n=pa.array([1], pa.int32()), s=["x"], l=[[1]])}, footers=True)
            assert judged(one, [CompatibleSchema()], {"b.parquet": parquet(**columns)}) == problem
            two = JobScene(DEST)
            two.published({"a.parquet": parquet(n=pa.array([1], pa.int32()), s=["x"], l=[[1]])}, footers=True)
            assert (judged(two, [SameSchema()], {"b.parquet": parquet(**columns)}) is None) == is_same

    def test_two_schemas_in_one_job(self, plain: JobScene):
        found = judged(plain, [SameSchema()], {"a.parquet": parquet(1)}, {"b.parquet": parquet(x=["y"])})
        assert str(found).startswith("2 schemas: ")

    def test_a_function_sees_everything(self, plain: JobScene):
        first = a_hundred(plain)
        seen: list[Any] = []

        def look(one: Audited) -> None:
            files = list(one.files())
            seen.extend((one.job_id, one.destination, one.run_id, one.mode, one.count, one.rows, len(files)))
            assert one.previous is not None
            seen.append((one.previous.job_id, one.previous.rows, one.previous.files))
            assert [file.partition for file in files] == [{"p": "ü/1"}]

        job = plain.job("append", run_id="r", audit=[look])
        job.commit(plain.wrote(job, {"p=%C3%BC%2F1/a.parquet": parquet(7)}))
        assert seen == [job.id, plain.url, "r", "append", 1, 7, 1, (first.id, 100, 1)]

    def test_a_negative_share_is_refused(self):
        with pytest.raises(UsageError, match="0 or more"):
            RowChange(less=-0.1)


class TestDeaths:
    """The process dies before or after each of its requests."""

    @pytest.mark.parametrize("kind", CUTS)
    @pytest.mark.parametrize("mode", ["append", "overwrite"])
    @pytest.mark.parametrize("on_failure", ["quarantine", "abort"])
    def test_of_the_driver_whose_audit_fails(self, kind: Any, mode: str, on_failure: Any):
        ends: set[str] = set()
        for number in range(1, 99):
            scene = JobScene(DEST)
            a_hundred(scene)
            before = scene.data()
            job = scene.job(mode, footers=True)
            commits = scene.wrote(job, {"a.parquet": parquet(40)}, {"b.parquet": parquet(30)})
            engine = scene.engine(Traffic([Fault(kind, number=number)]))
            committer: Any = registry.make("magic", job.spec.context, engine)
            committer.given = (Judge((RowChange(less=0.2),), on_failure),)
            raised = _raised(scene, lambda: committer.commit_job(commits, job.found.driver))  # noqa: B023
            assert scene.data() == before, number
            for _ in range(2):
                left = recovered(scene)
                assert scene.data() == before, number
            there = scene.job_object(job)
            if there is None:
                ends.add("ended")
                assert left == []
                assert scene.work() == []
                assert scene.uploads() == []
            elif there.is_quarantined:
                ends.add("quarantined")
                assert [one.found for one in left] == ["quarantined"]
                if number % 2:
                    accept(scene, job)
                    assert sorted(rows_shown(scene)) == ([30, 40, 100] if mode == "append" else [30, 40])
                    assert audit_of(scene, job.id).accepted == "weekend"
                else:
                    datasets.abort(scene.url, job=job.id, filesystem=scene.filesystem)
                    assert scene.data() == before
            else:
                ends.add("open")
                assert (there.state, there.audit) == ("open", None)
                datasets.abort(scene.url, job=job.id, filesystem=scene.filesystem)
                assert scene.data() == before
            assert scene.work() == []
            assert scene.uploads() == []
            if isinstance(raised, AuditFailed):
                break
        assert 5 < number < 98, "every request"
        assert ends == ({"open", "quarantined"} if on_failure == "quarantine" else {"open", "ended"})

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", CUTS)
    @pytest.mark.parametrize("mode", ["append", "overwrite"])
    @pytest.mark.parametrize("way", ["store", "memory", "small files"])
    def test_of_whoever_accepts(self, kind: Any, mode: str, way: str):
        ends: set[str] = set()
        for number in range(1, 120):
            scene = JobScene(DEST)
            a_hundred(scene)
            before = scene.data()
            job = dropped(scene, mode, **WAYS[way])
            engine, place = scene.engine(Traffic([Fault(kind, number=number)])), paths.parse_url(scene.url)
            done = scene.lived(lambda: commit_listed(engine, place, job.id, accept="weekend"))  # noqa: B023
            new = [30, 40, 100] if mode == "append" else [30, 40]
            assert rows_shown(scene) in ([100], new)
            left = recovered(scene)
            there = scene.job_object(job)
            if there is not None:
                assert scene.data() == before
                assert there.state in {"open", "prepared"}
                ends.add(left[0].found)
                assert left[0].action == "left"
                if number % 3 == 0:
                    datasets.abort(scene.url, job=job.id, filesystem=scene.filesystem)
                    assert scene.data() == before
                elif there.is_quarantined:
                    accept(scene, job)
                else:
                    accept(scene, job, None)
            else:
                ends.add("published")
            if rows_shown(scene) == new:
                said = audit_of(scene, job.id)
                assert (said.passed, said.accepted) == (False, "weekend")
            else:
                assert rows_shown(scene) == [100]
                assert number % 3 == 0
            assert scene.work() == []
            assert scene.uploads() == []
            if done is not None:
                break
        assert 15 < number < 119, "every request"
        assert {"quarantined", "open", "published"} <= ends

    @pytest.mark.parametrize("kind", CUTS)
    def test_of_whoever_discards(self, kind: Any):
        from magicfs.datasets.abort import abort_job

        for number in range(1, 99):
            scene = JobScene(DEST)
            a_hundred(scene)
            before = scene.data()
            job = dropped(scene)
            engine, place = scene.engine(Traffic([Fault(kind, number=number)])), paths.parse_url(scene.url)
            done = scene.lived(lambda: abort_job(engine, place, job=job_id(job.id)))  # noqa: B023
            recovered(scene)
            datasets.abort(scene.url, job=job.id, filesystem=scene.filesystem)
            assert scene.data() == before
            assert scene.work() == []
            assert scene.uploads() == []
            if done is not None:
                break
        assert 5 < number < 98, "every request"


def _raised(scene: JobScene, work: Any) -> BaseException | None:
    try:
        scene.lived(work)
    except AuditFailed as error:
        return error
    return None


class TestCommands:
    def test_from_the_audit_to_accepting(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        url = f"{tmp_path}/d"
        with magicfs.Job(url, options={"footers": True}) as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.parquet", parquet(100))
        job = magicfs.Job(url, mode="overwrite", audit=[RowChange(less=0.2)])
        with pytest.raises(AuditFailed), job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.parquet", parquet(70))
        assert main(["recover", url]) == 1
        out = capsys.readouterr().out
        assert "quarantined" in out
        assert "70 rows after 100" in out
        assert "--accept" in out
        assert main(["uploads", url]) == 1
        assert f"magicfs recover {url} --job {job.id} --commit --accept" in capsys.readouterr().out.replace(
            "file://", ""
        )
        held = max(Path(url).glob("__magic*/**/job.0*.json"))
        assert main(["show", str(held)]) == 0
        out = capsys.readouterr().out
        assert "quarantine" in out
        assert "70 rows after 100" in out
        assert main(["recover", "--commit", url, "--job", job.id]) == 2
        assert "--accept" in capsys.readouterr().err
        assert main(["recover", "--commit", url, "--job", job.id, "--accept", "weekend", "--dry-run"]) == 1
        assert main(["recover", "--commit", url, "--job", job.id, "--accept", "weekend"]) == 0
        capsys.readouterr()
        assert main(["show", f"{url}/_magicfs/{job.id}.json"]) == 0
        out = capsys.readouterr().out
        assert "weekend" in out
        assert main(["show", "--json", f"{url}/_magicfs/{job.id}.json"]) == 0
        assert json.loads(capsys.readouterr().out)["document"]["audit"]["accepted"] == "weekend"
