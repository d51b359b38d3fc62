"""Hadoop's magic committer and ours, each driven directly, without an engine.

Tasks write small files through magic paths, in threads of one process; then their commits; then the job
commit. One JVM serves all rounds of a side, as one Python process does for ours: both are warm.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import magicfs
from benchmarks.hadoop_jars import Jars
from benchmarks.hadoop_turns import Seconds, Side, Turns, check_and_clear, processor_s, say
from examples.flights.java import require_java
from proofs.doubles.servers import Server
from proofs.scenes.arranged import arranged

__all__ = ["OURS", "Peer", "measure", "s3a_options"]

_THREADS: Final = 8
_BYTES: Final = 1000
_IN_MEMORY: Final = "fs.s3a.committer.magic.track.commits.in.memory.enabled"
_WRITING: Final = ("write", "task_commits", "job_commit")
OURS: Final[Mapping[str, Mapping[str, Any]]] = {
    "store": {"tracking": "store"},
    "memory": {"tracking": "memory"},
    "bundles": {"tracking": "memory", "small_files": 4096},
}
"""How tasks of ours remember files, by the names of sides; those of ``bundles`` are put at job commit."""


def s3a_options(server: Server, directory: Path) -> dict[str, str]:
    """What leads S3A to a server on this machine."""
    return {
        "fs.s3a.endpoint": server.endpoint,
        "fs.s3a.endpoint.region": server.region,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        "fs.s3a.access.key": server.access_key,
        "fs.s3a.secret.key": server.secret_key,
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "hadoop.tmp.dir": str(directory / "hadoop"),
    }


class Peer:
    """One JVM that runs jobs.

    Args:
        jars: Its class path.
        options: Of Hadoop.
        directory: For its log.
        java_options: Of the JVM.
    """

    def __init__(
        self, jars: Jars, options: Mapping[str, str], directory: Path, java_options: Sequence[str] = ()
    ) -> None:
        java = require_java().path
        logging = directory / "log4j2.properties"
        logging.write_text("rootLogger.level = error\n", encoding="utf-8")
        command = [
            *(str(java), "-Xmx1g", f"-Dlog4j2.configurationFile={logging}", *java_options),
            *("-cp", jars.peer_class_path, "HadoopPeer"),
            *(f"{name}={value}" for name, value in options.items()),
        ]
        self._log = (directory / "peer.log").open("a", encoding="utf-8")
        self._process = subprocess.Popen(  # noqa: S603 - the Java of this machine
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, encoding="utf-8"
        )

    def job(self, url: str, files: int, tasks: int) -> dict[str, Seconds]:
        """Run a job; returns what its phases took.

        Raises:
            RuntimeError: It failed, or the JVM has ended.
        """
        told = self.ask("bench", url, str(files), str(tasks), str(_THREADS), str(_BYTES))
        return {phase: Seconds(*seconds) for phase, seconds in told.items()}

    def ask(self, *words: str) -> Any:
        """Give a command, as ``HadoopPeer.java`` describes them; returns the answer.

        Raises:
            RuntimeError: It failed, or the JVM has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("\t".join(words) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # no answer comes
        line = self._process.stdout.readline()
        told = json.loads(line) if line else {"error": "the JVM has ended"}
        if isinstance(told, dict) and "error" in told:
            raise RuntimeError(f"Hadoop's side failed: {told['error']}; see {self._log.name}")
        return told

    def kill(self) -> None:
        """Kill the JVM, as the machine under it does; whoever waits for an answer hears of it."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the JVM."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def _ours(server: Server, url: str, files: int, *, tasks: int, told: Mapping[str, Any]) -> dict[str, Seconds]:
    """One job of ours; returns what its phases took."""
    laps: dict[str, Seconds] = {}

    @contextmanager
    def lap(phase: str) -> Iterator[None]:
        wall, used = time.perf_counter(), time.process_time()
        yield
        laps[phase] = Seconds(time.perf_counter() - wall, time.process_time() - used)

    body = b"x" * _BYTES
    options = server.storage_options()

    def write(number: int) -> magicfs.Task:
        task = job.task(number).setup()
        for file in range(number, files, tasks):
            with task.filesystem.open(f"{task.path}/part-{number:05}-{file:05}.bin", "wb") as stream:
                stream.write(body)
        return task

    with ThreadPoolExecutor(_THREADS) as threads:
        with lap("setup"):
            job = magicfs.Job(url, mode="append", storage_options=options, **arranged(**told)).setup()
        with lap("write"):
            written = list(threads.map(write, range(tasks)))
        with lap("task_commits"):
            commits = list(threads.map(lambda task: task.commit(), written))
        with lap("job_commit"):
            report = job.commit(commits)
    if report.files != files or report.warnings:
        raise RuntimeError(f"ours: {report}")
    return laps


def measure(
    server: Server,
    jars: Jars,
    directory: Path,
    *,
    sizes: Sequence[int] = (1000, 5000),
    tasks: int = 50,
    rounds: int = 5,
    warm_up: int = 2000,
    ours: Mapping[str, Mapping[str, Any]] = OURS,
) -> dict[int, Turns]:
    """Measure jobs of some numbers of files.

    Args:
        server: Where all write.
        jars: The class path of Hadoop.
        directory: For logs.
        sizes: How many files.
        tasks: That write them.
        rounds: How many count.
        warm_up: Files of the first job of every side.
        ours: The sides of ours.

    Returns:
        What was measured, by number of files.
    """
    bucket = server.create_bucket("directly")
    options = s3a_options(server, directory)
    found: dict[int, Turns] = {}
    with ExitStack() as stack:
        peers = {
            "hadoop-store": Peer(jars, options, directory),
            # The filesystem reads it when it is made, so it takes a JVM of its own.
            "hadoop-memory": Peer(jars, {**options, _IN_MEMORY: "true"}, directory),
        }
        for peer in peers.values():
            stack.callback(peer.close)

        def sides(files: int) -> dict[str, Side]:
            made: dict[str, Side] = {}
            for name, peer in peers.items():
                made[name] = partial(_turn, server, bucket, "s3a", files, partial(peer.job, tasks=tasks))
            for name, told in ours.items():
                job = partial(_ours, server, tasks=tasks, told=told)
                made[f"ours-{name}"] = partial(_turn, server, bucket, "s3", files, job)
            return made

        for name, once in sides(warm_up).items():
            say(f"warm-up of {name}, {warm_up} files: {once()['whole'].wall:.2f} s")
        for files in sizes:
            turns = Turns(sides(files), rounds)
            turns.run(f"{files} files")
            found[files] = turns
    return found


def _turn(
    server: Server, bucket: str, scheme: str, files: int, run: Callable[[str, int], dict[str, Seconds]]
) -> dict[str, Seconds]:
    """One job of a side, looked at afterwards; beside its phases what those that write took together."""
    where = f"job-{uuid4().hex[:8]}"
    used = processor_s(server.pid)
    laps = run(f"{scheme}://{bucket}/{where}", files)
    used = processor_s(server.pid) - used
    check_and_clear(server, bucket, where, ".bin", files)
    whole = [laps[phase] for phase in _WRITING]
    laps["whole"] = Seconds(sum(one.wall for one in whole), sum(one.client for one in whole), used)
    return laps
