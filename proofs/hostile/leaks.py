"""The attacks with canaries: all that magicfs shows, logs, pickles and writes, when it works and fails."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from tempfile import TemporaryDirectory
from typing import Any, Final

import fsspec.config

import magicfs
from magicfs.catalogs import Delta, Hive, Iceberg, catch_up
from magicfs.cli.main import main
from magicfs.cli.storage import parse_storage_options
from magicfs.committers.registry import StagingOptions
from magicfs.errors import UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.hadoop.conf import from_hadoop_conf
from magicfs.job.task import Task
from magicfs.protocol.ids import task_id
from magicfs.runtime.interrupt import run_on
from magicfs.spark.options import mapping_of
from magicfs.stores import resolve
from magicfs.stores.s3 import client as s3_client
from proofs.hostile.odd_places import PLACES, Place, everywhere
from proofs.hostile.part import Found
from proofs.hostile.searching import Outputs, canary, heard, in_url
from proofs.scenes.arranged import arranged

__all__ = [
    "by_position",
    "catalogs",
    "command_line",
    "failures",
    "logs_of_botocore",
    "messages",
    "objects_of_python",
    "of_outputs",
    "published",
    "refuse_on_command_line",
]

_URL: Final = "bucket/día 1/sales"
_DATA: Final = b"n\n1\n"
_OF_HADOOP: Final = (
    "fs.s3a.access.key",
    "fs.s3a.secret.key",
    "fs.s3a.session.token",
    "fs.s3a.encryption.key",
    "fs.s3a.proxy.password",
)


def objects_of_python() -> Found:
    """Filesystems, jobs and tasks of each kind of options: what is shown and pickled of them."""
    found = Found()
    for name in PLACES:
        place = everywhere(name)
        outputs = Outputs(f"objects, {name}", place.secrets)
        with heard(outputs, "magicfs"), outputs.errors("making objects"):
            ours = MagicFileSystem(target_protocol=place.scheme, target_options=place.options)
            outputs.show("a filesystem", ours, MagicFileSystem(ours.fs))
            made = resolve.filesystem(place.scheme, place.options)
            hows: list[dict[str, Any]] = [{"storage_options": place.options}, {"filesystem": made}]
            for how in hows:
                job = magicfs.Job(f"{place.scheme}://{_URL}", progress=None, **arranged(**how))
                outputs.show("a job", job, job.spec, Task(job.spec, task_id(0)))
            outputs.show_only("a store", resolve.open_store(made, "bucket"))
            outputs.show("staging options", StagingOptions(cluster_storage_options=place.options))
        found.add(of_outputs(outputs))
    return found


def by_position() -> Found:
    """A user's own filesystem, whose secrets were given without names."""
    from s3fs import S3FileSystem

    secrets = {"key": canary(1), "secret": canary(2), "userinfo of the endpoint": canary(3)}
    outputs = Outputs("a user's own filesystem", secrets)
    endpoint = f"http://user:{in_url(canary(3))}@127.0.0.1:1"
    own = S3FileSystem(False, endpoint, canary(1), canary(2), skip_instance_cache=True)
    job = magicfs.Job(f"s3://{_URL}", filesystem=own, progress=None)
    outputs.show("a job", job, job.spec, Task(job.spec, task_id(0)), MagicFileSystem(own))
    outputs.look("the identity of a store", repr(resolve.open_store(own, "bucket").identity))
    return of_outputs(outputs)


def command_line() -> Found:
    """Options on a command line are refused; from the configuration they are used, and never shown."""
    found = Found()
    for name in PLACES:
        place = everywhere(name)
        outputs = Outputs(f"command line, {name}", place.secrets)
        if place.on_command_line:
            refuse_on_command_line(outputs, place.options)
        if place.scheme == "s3":  # which tries once; the others wait for a store that does not answer
            with configured(place):
                _run(outputs, "verify", f"s3://{_URL}")
                _run(outputs, "recover", f"s3://{_URL}", "--json")
        found.add(of_outputs(outputs))
    return found


def refuse_on_command_line(outputs: Outputs, options: dict[str, Any]) -> None:
    """See that a command refuses options, and search what it says of them."""
    text = json.dumps(options)
    try:
        parse_storage_options(text)
    except UsageError:
        _run(outputs, "uploads", f"s3://{_URL}", "--storage-options", text)
    else:
        outputs.violations.append(f"{outputs.where}: a command takes {sorted(options)} with their secrets")


def _run(outputs: Outputs, *arguments: str) -> int:
    """A command in this process: what it prints is searched."""
    printed, complained = io.StringIO(), io.StringIO()
    with redirect_stdout(printed), redirect_stderr(complained), heard(outputs, "magicfs"):
        code = main(arguments)
    outputs.look(f"stdout of {arguments[0]}", printed.getvalue())
    outputs.look(f"stderr of {arguments[0]}", complained.getvalue())
    return code


@contextmanager
def configured(place: Place) -> Iterator[None]:
    """The options as fsspec's configuration of this process has them."""
    names = {"s3": ("s3", "s3a"), "gs": ("gs", "gcs"), "abfs": ("abfs", "az")}[place.scheme]
    before = {name: fsspec.config.conf.get(name) for name in names}
    fsspec.config.conf.update(dict.fromkeys(names, place.options))
    try:
        yield
    finally:
        for name, value in before.items():
            fsspec.config.conf.pop(name, None)
            if value is not None:
                fsspec.config.conf[name] = value


def messages() -> Found:
    """Calls that are wrong in a way that tempts a message to quote the secret."""
    secret = canary(1)
    coded = in_url(secret)
    outputs = Outputs("messages", {"password": secret})
    wrong: dict[str, Any] = {
        "options as text": {"client_kwargs": f"aws_secret_access_key={secret}"},
        "options as a list": {"config_kwargs": ["secret", secret]},
        "an endpoint without a scheme": {"endpoint_url": f"user:{coded}@host:9000"},
        "a nested one": {"client_kwargs": {"endpoint_url": f"user:{coded}@host:9000"}},
    }
    for what, options in wrong.items():
        with outputs.errors(what):
            s3_client.check(options)
    for url in (
        f"s3://k:{coded}@b/x",
        f"https://u:{coded}@h/b/x",
        f"https://{coded}@h/b",
        f"hdfs://u:{coded}@h/x",
    ):
        with outputs.errors("a destination"):
            resolve.location_of(url)
        _run(outputs, "verify", url)
    calls: Sequence[Callable[[], object]] = (
        lambda: magicfs.Job(f"s3://{_URL}", storage_options=f"secret={secret}"),  # type: ignore[arg-type]
        lambda: MagicFileSystem(fs={"secret": secret}),
        lambda: MagicFileSystem(target_protocol="s3", target_options={"secrets": secret}),
        lambda: mapping_of("storageOptions", f'{{"secret": "{secret}"'),
        lambda: from_hadoop_conf({"fs.s3a.secret.key": secret}, f"s3a://{_URL}"),
        lambda: catch_up(f"memory://{_URL}", metastores=[f"thrift://user:{coded}@host"]),
        lambda: Hive(f"thrift://user:{coded}@host:9083", "db", "sales"),
    )
    conf = dict.fromkeys(_OF_HADOOP, secret) | {"fs.s3a.encryption.algorithm": "SSE-C"}
    outputs.show_only("options of Hadoop", from_hadoop_conf(conf, f"s3a://{_URL}"))
    for call in calls:
        with outputs.errors("a wrong call"):
            outputs.show("a call that should have failed", call())
    _run(outputs, "recover", f"memory://{_URL}", "--metastore", f"thrift://user:{coded}@host")
    return of_outputs(outputs)


class _Failing:
    """A catalog whose library repeats its address."""

    def __init__(self, text: str) -> None:
        self.name = "default"
        self.properties = {"uri": text}

    def load_table(self, _: str) -> None:
        raise OSError(f"no answer from {self.properties['uri']}")


def catalogs() -> Found:
    """What a job notes of catalogs, and what it says of those that fail."""
    secrets = {"password of the catalog": canary(1), "option of Delta": canary(2), "key of Delta": canary(3)}
    outputs = Outputs("catalogs", secrets)
    uri = f"postgresql://user:{in_url(canary(1))}@host/db"
    delta = {
        "AWS_SECRET_ACCESS_KEY": canary(3),
        "AWS_ENDPOINT_URL": f"http://u:{in_url(canary(2))}@127.0.0.1:1",
    }
    failing: Any = Iceberg(_Failing(uri), "db.sales")
    with TemporaryDirectory() as directory, heard(outputs, "magicfs"):
        found = [failing, Delta(storage_options=delta)]
        outputs.show("a catalog", Delta(storage_options=delta))
        for one in found:
            outputs.show_only("a catalog", one)  # pyiceberg's own pickle has what its user gave it
            outputs.look("a registration", one.registration("s3://b/d", "job-1").to_bytes())
        with magicfs.Job(f"file://{directory}/sales", catalogs=[failing], progress=None) as job:
            with job.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/x.csv", _DATA)
            note = next(iter(_notes(directory)), b"")
        outputs.show("a report", job, job.report)
        outputs.look("a note", note)
        with _found_by_name(failing):
            outputs.show("catching up", *catch_up(f"file://{directory}/sales"))
            _run(outputs, "recover", f"file://{directory}/sales")
            _run(outputs, "recover", f"file://{directory}/sales", "--json")
        for path in _files(directory):
            outputs.look("a file of the destination", path)
    return of_outputs(outputs)


@contextmanager
def _found_by_name(catalog: Any) -> Iterator[None]:
    """This catalog is the one in the configuration."""
    from magicfs.catalogs import described

    usual = described.iceberg_named
    described.iceberg_named = lambda *_: catalog
    try:
        yield
    finally:
        described.iceberg_named = usual


def _notes(directory: str) -> list[bytes]:
    return [raw for raw in _files(directory) if b"magicfs.registration" in raw]


def _files(directory: str) -> list[bytes]:
    filesystem = fsspec.filesystem("file")
    return [filesystem.cat_file(path) for path in filesystem.find(directory, withdirs=False)]


def failures() -> Found:
    """Requests that nobody answers."""
    found = Found()
    for name in PLACES:
        place = everywhere(name)
        outputs = Outputs(f"failures, {name}", place.secrets)
        with heard(outputs, "magicfs"), outputs.errors("no answer"):
            filesystem = resolve.filesystem(place.scheme, place.options)
            store: Any = resolve.open_store(filesystem, "bucket")
            run_on(resolve.loop_of(filesystem), getattr(store, "inner", store).head, "día 1/x")
        found.add(of_outputs(outputs))
    return found


def logs_of_botocore() -> Found:
    """What botocore logs at DEBUG of the endpoint, by whose password nobody is let in."""
    place = everywhere("S3")
    shown = ("userinfo of the endpoint", "proxy's password")
    outputs = Outputs("botocore's log", {name: place.secrets[name] for name in shown})
    with heard(outputs, "botocore", "aiobotocore", "s3fs"), suppress(magicfs.errors.MagicError):
        magicfs.Dataset(f"s3://{_URL}", storage_options=place.options).verify()
    return of_outputs(outputs)


def published(server: Any, name: str) -> Found:
    """Two jobs through a server, one of them aborted; all that they show, log and write."""
    place = everywhere(name, server.endpoint)
    del place.options["skip_instance_cache"]
    url = f"{place.scheme}://{_URL} {name}"
    outputs = Outputs(f"published, {name}", place.secrets)
    with heard(outputs, "magicfs"):
        job = magicfs.Job(url, mode="append", storage_options=place.options, progress=None).setup()
        with job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/x.csv", _DATA)
            outputs.show("a task", task, task.filesystem)
        outputs.show("an open job", job, job.spec, *job.commits)
        _look_at_objects(outputs, server)
        outputs.show("a report", job.commit(job.commits), job)
        other = magicfs.Job(url, mode="error", storage_options=place.options, progress=None)
        with outputs.errors("a mode"), other, other.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/y.csv", _DATA)
        outputs.show("a dataset", magicfs.Dataset(url, storage_options=place.options).verify())
        with configured(place):
            for command in ("verify", "recover", "doctor", "log", "uploads"):
                codes = {_run(outputs, command, url), _run(outputs, command, url, "--json")}
                if not codes <= {0, 1}:
                    outputs.violations.append(f"{outputs.where}: {command} ends with {codes}")
    _look_at_objects(outputs, server)
    return of_outputs(outputs)


def _look_at_objects(outputs: Outputs, server: Any) -> None:
    for key in server.all_keys("bucket"):
        outputs.look(f"the name {key}", key)
        outputs.look(f"the object {key}", server.read("bucket", key) or b"")


def of_outputs(outputs: Outputs) -> Found:
    """What a search came to."""
    return Found(outputs.counts, sorted(set(outputs.violations)))
