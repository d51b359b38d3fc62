"""What OpenTelemetry, the log and the log of operations show of jobs. Exporters are the SDK's own."""

from __future__ import annotations

import json
import logging
import pickle
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import prometheus_client
import pytest
import yaml
from fsspec.asyn import sync
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import magicfs
from magicfs import datasets, watch
from magicfs.cli import main as cli
from magicfs.cli.printing import error_document
from magicfs.datasets.abort import abort_job
from magicfs.errors import CommitFailed, FormatError, Unavailable, UsageError
from magicfs.protocol.job_state import JobState
from magicfs.runtime import watchers
from magicfs.stores import resolve
from magicfs.stores.retrying import RetryingStore
from magicfs.testing.counting_store import CountingStore
from magicfs.watch.operations import Operation, operations
from magicfs.watch.telemetry import METRICS
from proofs.scenes.job_scene import JobScene
from proofs.scenes.unfinished import Bucket, died_in, written


class Seen:
    """What the exporters of the SDK have of this process."""

    def __init__(self) -> None:
        self.spans = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))

    def tree(self) -> list[str]:
        """The names of all spans below each other, in the order in which they began."""
        found = sorted(self.spans.get_finished_spans(), key=lambda one: one.start_time or 0)
        by_id = {one.context.span_id: one for one in found}

        def path(one: ReadableSpan) -> str:
            above = by_id.get(one.parent.span_id) if one.parent else None
            return f"{path(above)}/{one.name}" if above else one.name

        return [path(one) for one in found]

    def named(self, name: str) -> ReadableSpan:
        [found] = [one for one in self.spans.get_finished_spans() if one.name == name]
        return found

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Values by the name of the metric and the values of its attributes."""
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: {
                " ".join(str(value) for value in (point.attributes or {}).values()): getattr(
                    point, "value", getattr(point, "count", None)
                )
                for point in metric.data.data_points
            }
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def seen() -> Iterator[Seen]:
    found = Seen()
    watch.start(tracer_provider=found.tracers, meter_provider=MeterProvider([found.reader]))
    watch.start()
    yield found
    watch.stop()
    watch.stop()
    assert watchers.WATCHERS == []


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(f"b-{uuid4().hex[:8]}")


def run(scene: JobScene, **options: Any) -> magicfs.Job:
    with magicfs.Job(scene.url, mode="append", filesystem=scene.filesystem, **options) as job:
        for number in range(2):
            with job.task(number) as task:
                task.count("records_written", 4)
                task.filesystem.pipe_file(f"{task.path}/a", b"123")
    return job


class TestTelemetry:
    def test_a_job_is_a_tree_of_spans(self, seen: Seen) -> None:
        job = run(JobScene(), run_id="r")
        task = ["job/task", "job/task/task commit"]
        phases = [f"job/commit/{one}" for one in ("prepare", "complete", "publish")]
        assert seen.tree() == ["job", "job/setup", *task, *task, "job/commit", *phases]
        attributes = seen.named("commit").attributes or {}
        assert attributes["magicfs.job.id"] == job.id
        assert attributes["magicfs.run.id"] == "r"
        assert attributes["magicfs.requests.complete_upload"] == 2
        complete = seen.named("complete").attributes or {}
        assert complete["magicfs.requests.complete_upload"] == 2
        events = {one.name: one.attributes or {} for one in seen.named("commit").events}
        assert [*events] == ["commit point", "published"]
        assert events["published"]["magicfs.rows"] == 8
        assert events["published"]["magicfs.files"] == 2

    def test_metrics_count_files_bytes_rows_requests_and_seconds(self, seen: Seen) -> None:
        scene = JobScene()
        run(scene)
        found = seen.metrics()
        assert {*found} == {*METRICS} - {"magicfs.retries", "magicfs.conflicts"}
        assert found["magicfs.files"] == {"": 2}
        assert found["magicfs.bytes"] == {"": 6}
        assert found["magicfs.rows"] == {"": 8}
        steps = ("set up", "commit point", "published")
        assert found["magicfs.jobs"] == {f"{step} {scene.url}": 1 for step in steps}
        assert found["magicfs.phase.duration"]["task commit"] == 2
        assert found["magicfs.requests"]["create_upload"] >= 2

    def test_requests_are_counted_as_the_tests_count_them(self, seen: Seen) -> None:
        """The numbers of which the request budget is made."""
        counts: Counter[str] = Counter()
        scene = JobScene()
        plain = scene.filesystem.store("bucket")
        for number in range(2500):
            scene.put(f"{number:05}")

        async def list_all(store: Any) -> int:
            await store.head("sales/00001")
            return len([one async for one in store.list("sales/")])

        counted = CountingStore(plain, counts)
        ours = resolve.AROUND[-1](plain)
        before = seen.metrics().get("magicfs.requests", {})
        loop = scene.filesystem.loop
        assert sync(loop, list_all, counted) == sync(loop, list_all, ours) == 2500
        after = seen.metrics()["magicfs.requests"]
        own = {name: number - before.get(name, 0) for name, number in after.items()}
        assert own == dict(counts)

    def test_a_task_in_another_process_belongs_to_the_trace_of_its_job(self, seen: Seen) -> None:
        scene = JobScene()
        job = scene.job()
        task = job.task(0)
        carried = pickle.loads(pickle.dumps(task._spec.carried))
        assert [*carried] == ["traceparent"]
        watch.stop()  # as another process, which has not seen the job begin
        other = Seen()
        watch.start(tracer_provider=other.tracers)
        with magicfs.Task(job.spec, task.id, is_elsewhere=True) as elsewhere:
            elsewhere.filesystem.pipe_file(f"{elsewhere.path}/a", b"1")
        assert other.tree() == ["task", "task/task commit"]
        span = other.named("task")
        assert span.parent is not None
        assert f"{span.context.trace_id:032x}-{span.parent.span_id:016x}" in carried["traceparent"]

    def test_a_job_is_a_child_of_the_span_of_its_program(self, seen: Seen) -> None:
        with seen.tracers.get_tracer("mine").start_as_current_span("nightly"):
            run(JobScene())
        assert {one.partition("/")[0] for one in seen.tree()} == {"nightly"}

    def test_a_job_that_fails_says_so_and_leaves_no_span_open(self, seen: Seen) -> None:
        scene = JobScene()
        with (
            pytest.raises(ZeroDivisionError),
            magicfs.Job(scene.url, mode="append", filesystem=scene.filesystem) as job,
        ):
            job.task(0).setup()
            1 / 0  # noqa: B018
        assert {"job", "job/task", "job/abort"} <= {*seen.tree()}
        assert "aborted" in [one.name for one in seen.named("abort").events]
        scene.put("x", b"1")
        with pytest.raises(magicfs.errors.OutputExists):
            magicfs.Job(scene.url, filesystem=scene.filesystem).setup()
        failed = [one for one in seen.spans.get_finished_spans() if one.name == "job"][-1]
        assert failed.status.status_code.name == "ERROR"
        [watcher] = watchers.WATCHERS
        assert vars(watcher)["_jobs"] == {}
        assert vars(watcher)["_tasks"] == {}

    def test_requests_that_are_made_again_are_events_and_a_metric(self, seen: Seen) -> None:
        scene = JobScene()
        failures = [Unavailable("head", "bucket/x", "down"), Unavailable("head", "bucket/x", "slow down")]
        failures[1].throttled = True

        class Failing(CountingStore):
            async def _around(self, operation: str, key: str, request: Any) -> Any:
                if operation == "head" and failures:
                    raise failures.pop(0)
                return await request()

        scene.put("x", b"1")
        store = RetryingStore(Failing(scene.plain, Counter()), share=lambda: 0.0)
        with watchers.work("recover", job="j"):
            sync(scene.filesystem.loop, store.head, "sales/x")
        assert [one.name for one in seen.named("recover").events] == ["retry", "throttled"]
        assert seen.metrics()["magicfs.retries"] == {"head False": 1, "head True": 1}

    def test_a_recovery_is_a_span_of_its_own(self, seen: Seen, bucket: Bucket) -> None:
        job = died_in(JobState.COMMITTING, bucket.url("sales"))
        seen.spans.clear()
        magicfs.Dataset(bucket.url("sales")).recover()
        span = seen.named("recover")
        assert (span.attributes or {})["magicfs.job.id"] == job.id
        assert "recover/publish" in seen.tree()
        assert seen.metrics()["magicfs.jobs"][f"recovered {bucket.url('sales')}"] == 1

    @pytest.mark.process
    def test_without_it_nothing_of_opentelemetry_is_imported(self) -> None:
        code = (
            "import sys, magicfs, magicfs.watch\n"
            "with magicfs.Job('memory://b/x', mode='append') as job, job.task(0) as task:\n"
            "    task.filesystem.pipe_file(task.path + '/a', b'1')\n"
            "print([one for one in sys.modules if one.startswith('opentelemetry')])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"

    def test_a_process_without_opentelemetry_is_told_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "opentelemetry", None)
        with pytest.raises(UsageError, match=r"pip install 'magicfs\[otel\]'"):
            watch.start()


class TestAgent:
    def test_only_what_may_be_the_id_of_a_job_is_sent(self) -> None:
        plain = watchers.agent()
        for job in ("a\r\nX-Evil: 1", "a b", "ü", "a" * 101, "", ".."):
            with watchers.acting(job):
                assert watchers.agent() == plain
        with watchers.acting("job-1"):
            assert watchers.agent() == f"{plain} job/job-1"
        assert watchers.agent() == plain


class TestLog:
    def test_each_step_is_one_line_with_its_facts(
        self, bucket: Bucket, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "magicfs")
        url = bucket.url("sales")
        job = written(url, run_id="a\nb")
        report = job.commit()
        facts = [vars(one)["magicfs"] for one in caplog.records if hasattr(one, "magicfs")]
        assert [one["event"] for one in facts] == ["set up", "commit point", "published"]
        assert {one["job"] for one in facts} == {job.id}
        assert {one["run"] for one in facts} == {"a\nb"}
        assert facts[-1] | {"files": 3, "bytes": 3, "mode": "append", "seconds": report.seconds} == facts[-1]
        assert not [one for one in caplog.messages if "\n" in one]
        caplog.clear()
        written(url).abort()
        assert caplog.messages[-1].startswith(f"{url}: job ")
        assert " is aborted: mode append, " in caplog.messages[-1]
        died_in(JobState.COMMITTING, url)
        magicfs.Dataset(url).recover()
        assert " is recovered: finished, mode append, 3 files, 3 bytes, in " in caplog.messages[-1]
        dead = written(url)
        caplog.clear()
        magicfs.Dataset(url).recover(job=dead.id, abort=True)
        assert [" is aborted: " in one for one in caplog.messages] == [True], "a job ends once"

    def test_the_command_line_logs_lines_of_json(
        self, bucket: Bucket, capsys: pytest.CaptureFixture[str]
    ) -> None:
        job = died_in(JobState.COMMITTING, bucket.url("sales"), run_id='q"\n')
        assert cli.main(["recover", bucket.url("sales"), "--log-json", "--json"]) == 0
        said = capsys.readouterr()
        lines = [json.loads(one) for one in said.err.splitlines()]
        step = next(one for one in lines if one.get("event") == "recovered")
        assert step | {"job": job.id, "run": 'q"\n', "level": "INFO", "action": "finished"} == step
        assert json.loads(said.out)["jobs"][0]["action"] == "finished"
        assert logging.getLogger("magicfs").propagate
        cli.main(["recover", bucket.url("sales")])
        assert capsys.readouterr().err == ""


class TestOperations:
    def test_a_decision_is_kept_with_who_when_and_why(
        self, bucket: Bucket, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LOGNAME", "ann")
        url = bucket.url("sales")
        written(url).commit()
        first = written(url)
        assert cli.main(["recover", url, "--job", first.id, "--abort", "--reason", "bad \x1b[2J input"]) == 0
        second = written(url)
        assert cli.main(["recover", url, "--job", second.id, "--commit"]) == 0
        capsys.readouterr()
        assert cli.main(["log", url, "--all", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert [(one["verb"], one["job_id"], one["action"]) for one in document["operations"]] == [
            ("commit", second.id, "published"),
            ("abort", first.id, "aborted"),
        ]
        assert {one["user"] for one in document["operations"]} == {"ann"}
        assert document["operations"][1]["reason"] == "bad \x1b[2J input"
        assert cli.main(["log", url, "--all"]) == 0
        shown = capsys.readouterr().out
        assert "abort" in shown
        assert "\x1b" not in shown
        assert cli.main(["log", url]) == 0
        assert "abort" not in capsys.readouterr().out

    def test_a_job_that_nobody_decides_about_leaves_none_and_neither_does_a_dry_run(
        self, bucket: Bucket
    ) -> None:
        url = bucket.url("sales")
        written(url).commit()
        written(url).abort()
        died_in(JobState.COMMITTING, url)
        sales = magicfs.Dataset(url)
        sales.recover()
        written(url)
        sales.recover(abort=True, dry_run=True, reason="x")
        sales.recover(abort=True)
        assert operations(url) == []
        assert not [one for one in bucket.objects() if ".operations" in one]

    def test_a_place_without_a_dataset_does_not_get_to_look_like_one(self, bucket: Bucket) -> None:
        written(bucket.url("sales"))
        magicfs.Dataset(bucket.url("sales")).recover(abort=True, reason="wrong place")
        assert bucket.objects() == {}

    def test_rollback_and_drop_are_kept(self, bucket: Bucket) -> None:
        url = bucket.url("sales")
        first = written(url)
        first.commit()
        written(url).commit()
        sales = magicfs.Dataset(url)
        sales.rollback(first.id, keep="7d")
        sales.drop(jobs=first.id, keep="7d")
        assert [one.verb for one in operations(url)] == ["drop", "rollback"]
        assert [one.verb for one in operations(url, limit=1)] == ["drop"]

    def test_the_name_of_a_coroutine_does_not_matter(
        self, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def another(*args: Any, **how: Any) -> Any:
            return await abort_job(*args, **how)

        url = bucket.url("sales")
        written(url).commit()
        monkeypatch.setattr(sys.modules["magicfs.datasets.abort"], "abort_job", another)
        datasets.abort(url, job=written(url).id, reason="no")
        assert [one.verb for one in operations(url)] == ["abort"]

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"format": "magicfs.operation/2"}, "format"),
            ({"jobId": "../../x"}, "jobId"),
            ({"when": -1}, "when"),
            ({"when": 5}, "when"),
            ({"verb": 7}, "verb"),
        ],
    )
    def test_a_record_that_cannot_be_is_refused(
        self, bucket: Bucket, change: dict[str, Any], match: str
    ) -> None:
        url = bucket.url("sales")
        written(url).commit()
        written(url)
        magicfs.Dataset(url).recover(abort=True, reason="")
        [key] = [one for one in bucket.objects() if ".operations" in one]
        bucket.put(key, json.dumps(json.loads(bucket.objects()[key]) | change).encode())
        with pytest.raises(FormatError, match=match):
            operations(url)

    def test_what_is_no_record_is_passed_over_and_unknown_fields_are_kept(self, bucket: Bucket) -> None:
        bucket.put("sales/_magicfs/.operations/notes.txt", b"mine")
        url = bucket.url("sales")
        assert operations(url) == []
        with pytest.raises(UsageError):
            operations(url, limit=0)
        one = Operation(verb="abort", job_id="j", action="aborted", when_ms=5, user="", host="h")
        raw = one.to_bytes().replace(b'"verb"', b'"later":[1],"verb"')
        assert json.loads(Operation.from_bytes("x", raw).to_bytes())["later"] == [1]


class TestErrors:
    @pytest.mark.parametrize(
        ("message", "command"),
        [
            ("stuck; run magicfs recover s3://b/x: down", "magicfs recover s3://b/x"),
            (
                "run magicfs recover s3://b/x --job a-1.b --abort discards it",
                "magicfs recover s3://b/x --job a-1.b --abort",
            ),
            ("magicfs does not take access rights; run magicfs maintain", "magicfs maintain"),
            (
                'lost: magicfs drop s3://b/x --where "file.key in (1)"',
                'magicfs drop s3://b/x --where "file.key in (1)"',
            ),
            ("nothing to run", None),
        ],
    )
    def test_an_error_names_the_next_command(self, message: str, command: str | None) -> None:
        document = error_document(CommitFailed(message))
        assert document == {"kind": "CommitFailed", "message": message, "next": command, "exit_status": 3}


OPERATIONS = Path(__file__).parents[2] / "examples" / "operations"


class TestFilesForOperators:
    """The board of Grafana and the rules of Prometheus name what there is."""

    def names(self) -> set[str]:
        """The metrics as exporters for Prometheus name them: by unit and kind."""
        made = set()
        for name, (unit, _) in METRICS.items():
            plain = name.replace(".", "_")
            ends = ["_seconds_bucket"] if unit == "s" else ["_total"]
            made |= {f"{plain}{end}" for end in ends}
        return made

    def test_the_names_are_those_that_the_exporter_for_prometheus_writes(self, seen: Seen) -> None:
        watch.stop()
        meters = MeterProvider([PrometheusMetricReader()])
        watch.start(tracer_provider=seen.tracers, meter_provider=meters)
        run(JobScene())
        watchers.happened("conflict")
        watchers.happened("retry", operation="put", throttled=True, error="x")
        text = prometheus_client.generate_latest().decode()
        written = {line.partition("{")[0].partition(" ")[0] for line in text.splitlines()}
        assert self.names() <= written

    def expressions(self) -> list[str]:
        rules = yaml.safe_load((OPERATIONS / "alerts.yml").read_text())
        assert {*rules} == {"groups"}
        [group] = rules["groups"]
        for rule in group["rules"]:
            assert (
                {"alert", "expr", "labels", "annotations"}
                <= {*rule}
                <= {
                    *("alert", "expr", "for", "labels", "annotations"),
                }
            )
            assert re.fullmatch(r"\d+[smhd]", rule.get("for", "1m"))
            assert {*rule["annotations"]} == {"summary", "description"}
        assert len({rule["alert"] for rule in group["rules"]}) == 3
        board = json.loads((OPERATIONS / "board.json").read_text())
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        shown = [one["expr"] for panel in board["panels"] for one in panel["targets"]]
        return [*(rule["expr"] for rule in group["rules"]), *shown]

    def test_they_name_metrics_labels_and_steps_that_exist(self) -> None:
        used = set()
        for expression in self.expressions():
            assert expression.count("(") == expression.count(")")
            found = re.findall(r"\bmagicfs_\w+", expression)
            assert found
            used |= {*found}
            for label, values in re.findall(r"(\w+)=~?\"([^\"]+)\"", expression):
                assert label in {"step", "throttled"}
                known = {*watchers.STEPS} if label == "step" else {"true", "false"}
                assert {*values.split("|")} <= known
        assert used == self.names()
