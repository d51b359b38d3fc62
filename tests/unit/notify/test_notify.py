"""Option ``after``: who hears of a publication, how often, and who catches up what a dead driver owed."""

from __future__ import annotations

import json
import pickle
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.catalogs import in_jobs as job_commit
from magicfs.cli.main import main
from magicfs.errors import StoreError, Unavailable, UsageError
from magicfs.formats.registration import Registration
from magicfs.notify import Function, OpenLineage, Published, Webhook, catch_up, configured, post
from magicfs.notify.events import lineage_event
from proofs.scenes.job_scene import JobScene
from proofs.scenes.receiver import Receiver

pytestmark = pytest.mark.process

DEST = "env=prod/día 50% + #1"
AFTER = "_magicfs/.catalogs"


class Died(BaseException):
    """A driver that is not there any more."""


@pytest.fixture
def scene() -> JobScene:
    return JobScene(DEST)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post, "PAUSE_S", 0.001)


def published(scene: JobScene, *after: Any, **how: Any) -> magicfs.report.JobReport:
    job = scene.job(after=list(after), **how)
    return job.commit(scene.wrote(job, {"p=1/f.jsonl": b'{"n":1}\n{"n":2}\n'}))


def died(scene: JobScene, *after: Any, **how: Any) -> magicfs.Job:
    """A job whose driver died after the commit, before it notified anybody."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_commit, "shown_by", lambda *_: (_ for _ in ()).throw(Died))
        job = scene.job(after=list(after), **how)
        commits = scene.wrote(job, {"p=1/f.jsonl": b'{"n":1}\n{"n":2}\n'})
        with pytest.raises(Died):
            job.commit(commits)
    return job


def again(scene: JobScene, *after: Any, **how: Any) -> list[tuple[str, str]]:
    return [(one.name, one.done) for one in catch_up(scene.url, after, filesystem=scene.filesystem, **how)]


def test_a_function_hears_of_a_publication_once_and_nothing_is_left(scene: JobScene) -> None:
    heard: list[Published] = []
    report = published(scene, heard.append, mode="overwrite", run_id="2026-11-28", footers=True)
    (one,) = heard
    assert (one.job_id, one.url, one.mode, one.run_id) == (
        report.job_id,
        scene.url,
        "overwrite",
        "2026-11-28",
    )
    assert (one.files, one.bytes, one.rows, one.first) == (1, 16, 2, True)
    assert scene.below(AFTER) == []
    assert not report.warnings


def test_a_webhook_gets_a_cloud_event(scene: JobScene, receiver: Receiver) -> None:
    report = published(scene, Webhook(receiver.url, headers={"Authorization": "Bearer s3cr3t"}))
    (heard,) = receiver.heard
    assert heard.headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    assert heard.headers["Authorization"] == "Bearer s3cr3t"
    event = heard.body
    assert (event["specversion"], event["type"], event["id"]) == ("1.0", "magicfs.published", report.job_id)
    assert event["source"] == "memory://bucket/env%3Dprod/d%C3%ADa%2050%25%20%2B%20%231"
    assert event["time"].endswith("+00:00")
    assert event["data"]["url"] == scene.url
    assert event["data"]["files"] == 1


def test_an_openlineage_event_has_dataset_schema_and_statistics(scene: JobScene, receiver: Receiver) -> None:
    job = scene.job(mode="overwrite", after=[OpenLineage(receiver.url, job="sales.publish")], footers=True)
    with job.task(0) as task:
        table = pa.table({"n": [1, 2, 3], "naïve": ["a", "b", None]})
        pq.write_table(table, f"{task.path}/x.parquet", filesystem=task.filesystem)
    job.commit()
    (event,) = receiver.events
    assert (event["eventType"], event["job"]) == (
        "COMPLETE",
        {"namespace": "magicfs", "name": "sales.publish"},
    )
    assert event["run"]["runId"] == job.id == str(UUID(job.id))
    (output,) = event["outputs"]
    assert (output["namespace"], output["name"]) == ("memory://bucket", DEST)
    facets = output["facets"]
    assert facets["schema"]["fields"] == [{"name": "n", "type": "int64"}, {"name": "naïve", "type": "string"}]
    assert facets["lifecycleStateChange"]["lifecycleStateChange"] == "OVERWRITE"
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert output["outputFacets"]["outputStatistics"]["fileCount"] == 1


@pytest.mark.parametrize(
    ("mode", "first", "change"),
    [
        ("overwrite", False, "OVERWRITE"),
        ("overwrite_partitions", True, "OVERWRITE"),
        ("append", True, "CREATE"),
        ("append", False, None),
    ],
)
def test_the_mode_says_what_became_of_the_dataset(mode: str, first: bool, change: str | None) -> None:
    from datetime import UTC, datetime

    one = Published(
        "s3a://b/k", "b", "k", "job_202611280000_0001", None, mode, datetime.now(UTC), 1, 2, first=first
    )
    event = json.loads(json.dumps(lineage_event(one, "n", "j")))
    (output,) = event["outputs"]
    assert (output["namespace"], output["name"]) == ("s3://b", "k")
    assert output["facets"].get("lifecycleStateChange", {}).get("lifecycleStateChange") == change
    assert event["run"]["facets"]["magicfs"]["mode"] == mode
    assert UUID(event["run"]["runId"]).version == 5
    assert event == json.loads(json.dumps(lineage_event(one, "n", "j")))
    assert "rowCount" not in output["outputFacets"]["outputStatistics"]


def test_passing_refusals_are_retried_and_lasting_ones_are_a_warning(scene: JobScene) -> None:
    with Receiver(503, 429) as receiver:
        assert not published(scene, Webhook(receiver.url)).warnings
        assert len(receiver.heard) == 3
        assert len({event["id"] for event in receiver.events}) == 1
    with Receiver(400) as receiver:
        (warning,) = published(scene, Webhook(receiver.url, name="sales")).warnings
        assert "webhook sales was not notified of job" in warning
        assert "the answer was 400" in warning
        assert f"run magicfs recover {scene.url}" in warning
        assert "/hook" not in warning
        assert len(receiver.heard) == 1
        assert again(scene, Webhook(receiver.url, name="sales")) == [("sales", "sent")]
        assert scene.below(AFTER) == []


def test_a_server_that_never_answers_has_a_deadline(scene: JobScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post, "TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        (warning,) = published(scene, Webhook(url)).warnings
    assert "no answer" in warning


def test_a_server_that_answers_forever_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(post, "TIMEOUT_S", 0.1)
    monkeypatch.setattr(post, "ATTEMPTS", 1)

    def trickle() -> None:
        connection, _ = drip.accept()
        with connection, suppress(OSError):
            for _ in range(100):
                connection.sendall(b"H")
                time.sleep(0.02)

    with socket.create_server(("127.0.0.1", 0)) as drip:
        threading.Thread(target=trickle, daemon=True).start()
        began = time.monotonic()
        with pytest.raises(Unavailable):
            post.post(f"http://127.0.0.1:{drip.getsockname()[1]}/", {}, "application/json", {})
        assert time.monotonic() - began < 1.5


def test_two_recoveries_at_once_send_the_same_and_leave_nothing(scene: JobScene) -> None:
    with Receiver() as receiver:
        hook = Webhook(receiver.url)
        job = died(scene, hook)
        with ThreadPoolExecutor(4) as pool:
            done = [one for found in pool.map(lambda _: again(scene, hook), range(4)) for one in found]
        assert set(done) == {("webhook", "sent")}
        assert {event["id"] for event in receiver.events} == {job.id}
        assert len({json.dumps(event) for event in receiver.events}) == 1
    assert scene.below(AFTER) == []


def test_nobody_follows_a_redirect(scene: JobScene, receiver: Receiver) -> None:
    with Receiver(receiver.url) as redirecting:
        (warning,) = published(scene, Webhook(redirecting.url, headers={"X-Key": "s3cr3t"})).warnings
    assert "307" in warning
    assert receiver.heard == []


def test_a_server_that_is_not_there_keeps_no_job_from_being_published(scene: JobScene) -> None:
    with Receiver() as gone:
        url = gone.url
    (warning,) = published(scene, Webhook(url)).warnings
    assert "no answer" in warning
    assert len(scene.data()) == 1
    assert again(scene, Webhook(url), dry_run=True) == [("webhook", "would send")]


def test_what_a_dead_driver_owed_is_sent_once_by_recover(scene: JobScene, receiver: Receiver) -> None:
    heard: list[Published] = []
    after = (Function(heard.append, "heard"), Webhook(receiver.url))
    job = died(scene, *after)
    assert len(scene.below(AFTER)) == 2
    before = scene.everything()
    assert sorted(again(scene, *after, dry_run=True)) == [("heard", "would send"), ("webhook", "would send")]
    assert scene.everything() == before
    assert sorted(again(scene, *after)) == [("heard", "sent"), ("webhook", "sent")]
    assert [one.job_id for one in heard] == [event["id"] for event in receiver.events] == [job.id]
    assert again(scene, *after) == []
    assert scene.below(AFTER) == []


def test_a_rerun_notifies_of_the_run_only_if_nobody_has(scene: JobScene) -> None:
    heard: list[Published] = []
    job = died(scene, Function(heard.append, "heard"), run_id="monday")
    for _ in range(2):
        report = published(scene, Function(heard.append, "heard"), run_id="monday")
        assert report.published_before
        assert [one.job_id for one in heard] == [job.id]
        assert scene.below(AFTER) == []


def test_a_job_that_is_aborted_or_fails_notifies_nobody(scene: JobScene) -> None:
    heard: list[Published] = []
    job = scene.job(after=[heard.append])
    scene.wrote(job, {"f.csv": b"1"})
    job.abort()
    other = scene.job(after=[heard.append])
    job_commit.note(other.spec, other._catalogs)
    scene.recover(abort=True)
    assert len(scene.below(AFTER)) == 1
    (_, done), *rest = again(scene)
    assert (done, rest) == ("forgotten", [])
    assert scene.below(AFTER) == []
    assert heard == []


def test_catalogs_and_notifications_leave_each_others_records_alone(scene: JobScene) -> None:
    from magicfs.catalogs import SymlinkManifest
    from magicfs.catalogs import catch_up as catch_up_catalogs

    died(scene, Function(print, "p"), catalogs=[SymlinkManifest()])
    assert [one.catalog for one in catch_up_catalogs(scene.url, filesystem=scene.filesystem)] == ["symlink"]
    assert again(scene) == [("p", "not sent")]
    assert again(scene, Function(lambda one: one["x"], "p")) == [("p", "not sent")]  # type: ignore[index]
    assert again(scene, Function(str, "p")) == [("p", "sent")]


def test_an_error_of_one_keeps_no_other_from_hearing(scene: JobScene) -> None:
    heard: list[Published] = []

    def fails(_: Published) -> None:
        raise ZeroDivisionError("https://user:pass@host/ failed")

    report = published(scene, fails, Function(heard.append, "heard"))
    (warning,) = report.warnings
    assert "fails was not notified" in warning
    assert "pass" not in warning
    assert len(heard) == 1
    assert len(scene.below(AFTER)) == 1


def test_a_forged_record_reaches_nobody(scene: JobScene, receiver: Receiver) -> None:
    job = scene.job()
    job.commit(scene.wrote(job, {"f.csv": b"1"}))
    forged = {"format": "magicfs.registration/1", "jobId": job.id, "catalog": "webhook", "line": receiver.url}
    others: tuple[dict[str, object], ...] = (
        {"table": receiver.url},
        {"table": "webhook", "options": {"url": receiver.url}},
        {"table": "webhook", "options": {"headers": "Authorization"}},
        {"table": "os:system", "catalog": "function"},
        {"table": "../../x", "options": None},
        {"table": "x", "url": receiver.url, "options": None},
    )
    for number, other in enumerate(others):
        record: dict[str, object] = {**forged, **other}
        one = Registration(job_id=job.id, catalog=str(record["catalog"]), table=str(record["table"]))
        name = one.name if not record.get("options") else f"{job.id}-{number:016x}.json"
        scene.put(f"{AFTER}/{name}", json.dumps(record).encode())
    found = catch_up(scene.url, [Webhook(receiver.url, name="mine")], filesystem=scene.filesystem)
    assert {one.done for one in found} == {"not sent"}
    assert len(found) == 6
    assert receiver.heard == []
    assert len(scene.below(AFTER)) == 6


def test_a_forged_record_of_a_job_that_published_nothing_is_forgotten(
    scene: JobScene, receiver: Receiver
) -> None:
    published(scene)
    hook = Webhook(receiver.url)
    one = hook.registration(scene.url, "11111111-2222-4333-8444-555555555555")
    scene.put(f"{AFTER}/{one.name}", one.to_bytes())
    assert again(scene, hook) == [("webhook", "forgotten")]
    assert receiver.heard == []


def test_records_hold_no_address_and_no_header(scene: JobScene) -> None:
    with Receiver(400) as receiver:
        published(scene, Webhook(receiver.url, headers={"Authorization": "s3cr3t"}))
        everything = b"".join(body for body, *_ in scene.objects().values())
        assert b"s3cr3t" not in everything
        assert b"127.0.0.1" not in everything
        hook = Webhook(receiver.url, headers={"Authorization": "s3cr3t"})
        assert "s3cr3t" not in f"{hook!r} {hook}"
        assert "/hook" not in repr(hook)


def test_notifications_stay_in_the_driver(scene: JobScene, tmp_path: Path) -> None:
    job = magicfs.Job(f"{tmp_path}/sales", options={"after": [lambda one: None]}).setup()
    assert pickle.loads(pickle.dumps(job))._catalogs == ()
    job.abort()


@pytest.mark.parametrize(
    ("after", "match"),
    [
        ("https://x", "after is 'https://x'; write a list"),
        ({"a": 1}, "write a list"),
        ([3], "3 is not a function"),
        ([print, print], "two of function builtins:print"),
        ([Webhook("https://a/"), Webhook("https://b/")], "two of webhook webhook; give each its own name"),
    ],
)
def test_what_after_cannot_hold(tmp_path: Path, after: Any, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        magicfs.Job(f"{tmp_path}/sales", options={"after": after})
    assert not (tmp_path / "sales").exists()


def test_a_committer_without_manifests_refuses_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="after need manifests"):
        magicfs.Job(f"{tmp_path}/sales", committer="direct", options={"after": [print]})


@pytest.mark.parametrize(
    "make",
    [
        lambda: Webhook("ftp://host/x"),
        lambda: Webhook("file:///etc/passwd"),
        lambda: Webhook("https://"),
        lambda: Webhook("https://host/a b"),
        lambda: Webhook("https://host/\n"),
        lambda: Webhook("https://[::1"),
        lambda: Webhook("https://host:port/"),
        lambda: Webhook("https://user:pass@host/"),
        lambda: Webhook("http://elsewhere.example/", headers={"Authorization": "x"}),
        lambda: Webhook("https://host/", headers={"A": "x\r\nB: y"}),
        lambda: Webhook("https://host/", name="a/b"),
        lambda: Webhook("https://host/", name=""),
        lambda: Function(print, "ü"),
        lambda: OpenLineage("https://host/", job=""),
    ],
)
def test_bad_notifications_are_refused_when_they_are_made(make: Any) -> None:
    with pytest.raises(UsageError):
        make()


def test_recover_sends_by_the_file_of_the_operator(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file://{tmp_path}/sales"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job_commit, "shown_by", lambda *_: (_ for _ in ()).throw(Died))
        job = magicfs.Job(
            url, options={"after": [Webhook(receiver.url, name="sales"), Function(print, "hooks:heard")]}
        )
        with pytest.raises(Died), job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/x.csv", b"n\n1\n")
    hooks = ModuleType("hooks")
    heard: list[Published] = []
    hooks.heard = heard.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hooks", hooks)
    monkeypatch.setenv("SALES_TOKEN", "Bearer s3cr3t")
    assert main(["recover", url]) == 1
    assert "this process has no webhook named sales" in capsys.readouterr().out
    file = tmp_path / "notify.toml"
    file.write_text(
        f'[sales]\nkind = "webhook"\nurl = "{receiver.url}"\n'
        'secret_headers = { Authorization = "SALES_TOKEN" }\n["hooks:heard"]\nkind = "function"\n'
    )
    assert main(["recover", url, "--notify", str(file), "--dry-run"]) == 1
    assert receiver.heard == []
    capsys.readouterr()
    assert main(["recover", url, "--notify", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["notify"]
    assert sorted((one["kind"], one["name"], one["done"]) for one in found) == [
        ("function", "hooks:heard", "sent"),
        ("webhook", "sales", "sent"),
    ]
    assert receiver.heard[0].headers["Authorization"] == "Bearer s3cr3t"
    assert [one.job_id for one in heard] == [job.id]
    assert main(["maintain", url, "--only", "notify", "--notify", str(file)]) == 0
    assert "no notification is owed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[x", "cannot be read"),
        ("x = 1", "write a table"),
        ("[x]", "kind is webhook"),
        ('[x]\nkind = "webhook"', "url"),
        ('[x]\nkind = "webhook"\nurl = 3', "address|url|3"),
        ('[x]\nkind = "webhook"\nurl = "https://h/"\nname = "y"', "unknown setting 'name'"),
        ('[x]\nkind = "webhook"\nurl = "https://h/"\ncolour = "y"', "unknown setting 'colour'"),
        (
            '[x]\nkind = "webhook"\nurl = "https://h/"\nsecret_headers = {A = "NOT_SET_1"}',
            "NOT_SET_1 is not set",
        ),
        ('[x]\nkind = "webhook"\nurl = "https://h/"\nsecret_headers = {A = 1}', "secret_headers maps"),
        ('[x]\nkind = "webhook"\nurl = "https://h/"\nheaders = 1', "x"),
        ('["no.such.module:f"]\nkind = "function"', "cannot be imported"),
        ('["os:"]\nkind = "function"', "cannot be imported"),
        ('["a b"]\nkind = "webhook"\nurl = "https://h/"', "is not a name"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, text: str, match: str) -> None:
    file = tmp_path / "notify.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=match):
        configured(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        configured(tmp_path / "none.toml")


@pytest.mark.parametrize(("status", "error"), [(500, Unavailable), (404, StoreError), (302, StoreError)])
def test_refusals_have_kinds(status: int, error: type[Exception]) -> None:
    with Receiver(*[status] * 4) as receiver, pytest.raises(error, match=f"the answer was {status}"):
        post.post(receiver.url, {}, "application/json", {})
