"""What all cases stand on: a server, a JVM with Hadoop's committers, destinations, and what lies there."""

from __future__ import annotations

import io
import itertools
import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from uuid import uuid4

import magicfs
from benchmarks.hadoop_directly import Peer, s3a_options
from benchmarks.hadoop_jars import Jars
from magicfs.cli.main import main as command
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.testing.fault_proxy import FaultProxy
from proofs.doubles.bucket_view import is_hidden
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged

__all__ = [
    "BUCKET",
    "FILES",
    "QUICK_JVM",
    "ROWS",
    "Ground",
    "Place",
    "Wrong",
    "check",
    "rows_of",
    "task_name",
]

BUCKET: Final = "crossings"
FILES: Final = 2
ROWS: Final = 3
_HOSTILE: Final = "días 50% + 1"
QUICK_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
"""Options of a JVM that lives for seconds."""

_numbers = itertools.count()


class Wrong(AssertionError):
    """Something is not as it must be."""


def check(found: object, wanted: object, what: str) -> None:
    """Raise Wrong if two values differ."""
    if found != wanted:
        raise Wrong(f"{what}: found {_short(found)}, wanted {_short(wanted)}")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 1500 else f"{text[:1500]}…"


def task_name(number: int) -> str:
    """A task of ours under the id that the JVM gives it."""
    return f"task_202601010000_0001_m_{number:06d}"


def rows_of(side: str, tasks: Iterable[int], files: int = FILES, rows: int = ROWS) -> list[str]:
    """The rows that a side's tasks write."""
    return sorted(
        f"{side},{task},{file},{row}" for task in tasks for file in range(files) for row in range(rows)
    )


@dataclass(frozen=True)
class Place:
    """One destination, and the job that writes to it."""

    server: Server
    key: str
    bucket: str = BUCKET
    job: str = field(default_factory=lambda: str(uuid4()))

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def s3a(self) -> str:
        return f"s3a://{self.bucket}/{self.key}"

    def below(self) -> list[str]:
        """Everything that lies there, by names below the destination."""
        prefix = f"{self.key}/"
        return [key.removeprefix(prefix) for key in self.server.all_keys(self.bucket, prefix)]

    def files(self) -> list[str]:
        """What a reader of listings sees."""
        found = (name for name in self.below() if name and not name.endswith("/"))
        return sorted(name for name in found if not any(map(is_hidden, name.split("/"))))

    def read(self, name: str) -> bytes:
        body = self.server.read(self.bucket, f"{self.key}/{name}")
        assert body is not None, name
        return body

    def rows(self) -> list[str]:
        return sorted(row for name in self.files() for row in self.read(name).decode().splitlines())

    def put(self, name: str, text: str) -> None:
        self.server.write(self.bucket, f"{self.key}/{name}", text.encode())

    def uploads(self) -> set[tuple[str, str]]:
        return self.server.uploads(self.bucket, f"{self.key}/")

    def work(self) -> list[str]:
        """Work objects of jobs."""
        return [name for name in self.below() if name.startswith(("__magic", "_temporary"))]

    def sets(self) -> list[PendingSet]:
        """Pending sets where Hadoop's job commit looks for them."""
        names = (name for name in self.work() if name.endswith(".pendingset"))
        return [PendingSet.from_bytes(name, self.read(name)) for name in names if "/sets/" not in name]

    def recorded(self) -> set[str]:
        """Ids of the uploads that a document names."""
        pending = [name for name in self.work() if name.endswith(".pending")]
        found = {Pending.from_bytes(name, self.read(name)).upload_id for name in pending}
        return found | {one.upload_id for each in self.sets() for one in each.commits}

    def success(self) -> dict[str, Any] | None:
        """What ``_SUCCESS`` says; None if it is not there."""
        body = self.server.read(self.bucket, f"{self.key}/_SUCCESS")
        return None if body is None else json.loads(body or b"{}")

    def is_clean(self, what: str, stray: Collection[tuple[str, str]] = ()) -> None:
        """Raise Wrong if work is left, or uploads are open; ``stray`` ones may be, as nothing tells whose."""
        check(sorted(self.uploads().difference(stray)), [], f"{what}: uploads open")
        check(self.work(), [], f"{what}: work objects left")

    def holds(self, rows: Sequence[str], what: str) -> None:
        """Raise Wrong unless the rows are exactly these, and nothing is left of any job."""
        check(self.rows(), sorted(rows), f"{what}: rows")
        self.is_clean(what)


@dataclass
class Ground:
    """What a case may use.

    Attributes:
        server: The store.
        jars: One generation of Hadoop.
        directory: For logs, scratch files and cluster directories.
        peer: A JVM that runs jobs, and is not killed.
        counts: Cases that were played, by crossing, and kills.
    """

    server: Server
    jars: Jars
    directory: Path
    peer: Peer
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def is_newest(self) -> bool:
        """Whether part ETags are objects."""
        return not self.jars.hadoop.startswith(("3.3.", "3.4.0", "3.4.1"))

    @property
    def layout(self) -> Literal["__magic", "__magic_job"]:
        return "__magic" if self.jars.hadoop.startswith("3.3.") else "__magic_job"

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of a job that a JVM of this generation can commit."""
        return {"hadoop": self.jars.hadoop}

    @property
    def each_settings(self) -> list[dict[str, Any]]:
        """Arguments of jobs that tasks of this generation can join, if we commit."""
        return [self.settings] if self.layout == "__magic" else [{}, self.settings]

    @property
    def cluster(self) -> str:
        """URL of the directory that stands for the cluster's filesystem."""
        return (self.directory / "cluster").as_uri()

    def place(self, name: str) -> Place:
        return Place(self.server, f"{name} {next(_numbers)}/{_HOSTILE}")

    def options(self) -> dict[str, str]:
        """What leads S3A to the server."""
        return s3a_options(self.server, self.directory) | {
            "fs.s3a.committer.staging.tmp.path": self.cluster,
            "fs.s3a.committer.threads": "4",
        }

    def run(self, kind: str, place: Place, peer: Peer | None = None, /, **told: object) -> dict[str, Any]:
        """Let the JVM run a job, or a part of one; names of Hadoop's options are written with ``__``."""
        words = [f"{name.replace('__', '.')}={_word(value)}" for name, value in told.items()]
        found: dict[str, Any] = (peer or self.peer).ask("run", kind, place.s3a, place.job, *words)
        return found

    def runs(self, kind: str, place: Place, /, **told: object) -> None:
        """The same, which must not fail."""
        found = self.run(kind, place, **told)
        if "failed" in found:
            raise Wrong(f"the JVM failed in its {found['stage']}: {found['failed']}")

    def job(self, place: Place, **how: Any) -> magicfs.Job:
        """A job of ours under the JVM's id, set up."""
        how = {"mode": "append", "job_id": place.job} | how
        return magicfs.Job(place.url, **arranged(**how)).setup()

    @contextmanager
    def killable(self, **options: str) -> Iterator[tuple[Peer, FaultProxy]]:
        """A JVM of its own behind a proxy, which has met the bucket already."""
        with FaultProxy(self.server.endpoint) as proxy:
            led = self.options() | {"fs.s3a.endpoint": proxy.endpoint, "fs.s3a.committer.threads": "1"}
            peer = Peer(self.jars, led | options, self.directory, QUICK_JVM)
            try:
                peer.ask("put", f"s3a://{BUCKET}/warm/{uuid4()}", "warm")
                proxy.clear()
                yield peer, proxy
            finally:
                peer.kill()


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def write(
    job: magicfs.Job,
    tasks: Iterable[int | str],
    *,
    side: str = "ours",
    commit: bool = True,
    parts: Sequence[str] = (),
    stem: str = "part",
    files: int = FILES,
    body: Callable[[str], bytes] = lambda text: text.encode(),
) -> list[magicfs.TaskCommit]:
    """Tasks of ours write what the JVM's would; returns their commits."""
    commits = []
    for name in tasks:
        number = int(str(name).rpartition("_")[2])
        task = job.task(name).setup()
        for file in range(files):
            text = "".join(f"{side},{number},{file},{row}\n" for row in range(ROWS))
            part = f"{parts[file % len(parts)]}/" if parts and parts[file % len(parts)] != "root" else ""
            with task.filesystem.open(f"{task.path}/{part}{stem}-{number}-{file}.csv", "wb") as stream:
                stream.write(body(text))
        task.filesystem.find(task.path)  # waits for the records of what was closed
        if commit:
            commits.append(task.commit())
    return commits


def said(*words: str) -> tuple[int, str]:
    """Run a command of ours; its exit status and all that it said."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            status = command(list(words))
        except SystemExit as left:
            status = int(left.code or 0)
    return int(status or 0), out.getvalue()


def does(*words: str) -> str:
    """The same, which must exit with 0."""
    status, text = said(*words)
    if status:
        raise Wrong(f"magicfs {' '.join(words)}: status {status}: {text[:1500]}")
    return text


def is_told(text: str, place: Place, *told: str) -> None:
    """Raise Wrong unless a text names the place's job and has all of this."""
    for one in (place.job, *told):
        if one not in text:
            raise Wrong(f"{one!r} is not told: {text[:1500]}")


def in_background(work: Callable[[], Mapping[str, Any]]) -> Any:
    """Start something that may never answer; returns its future."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work)
    finally:
        pool.shutdown(wait=False)
