"""Spark's own servers on loopback addresses: a standalone cluster of two hosts, and a Connect server.

Speculation and the loss of an executor cannot be had in ``local`` mode: all executors of ``local`` and
``local-cluster`` share one host name, and die together.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from proofs.doubles import processes
from proofs.spark_proof.marked import children

__all__ = ["Cluster", "ConnectServer", "NotStarted"]

_HOST = "127.0.0.1"
_WORKERS = ("127.0.0.2", "127.0.0.3")
_START_SECONDS = 60.0
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.05
# Workers import the proofs, which are not installed.
_INHERITED = ("PATH", "PYTHONPATH", "JAVA_HOME", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_EXECUTOR = "CoarseGrainedExecutorBackend"
_LOG_TAIL_LINES = 30


class NotStarted(RuntimeError):
    """A server of Spark's did not start. The message ends with the last lines of its log."""


class _Servers:
    """Processes of Spark's, each started and ended by its number; a context manager.

    Args:
        directory: For logs, work and scratch files.
    """

    _MEMORY = "256m"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running = ExitStack()

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self._running.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def _start(self) -> None:
        """Start what the server consists of."""

    def _spawn(self, name: str, address: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a class of Spark's; its processes die with this one."""
        import pyspark

        home = Path(pyspark.__file__).parent
        shell = shutil.which("bash")
        if shell is None:
            raise NotStarted("there is no bash, which Spark's own scripts need; install it")
        conf = self._directory / "conf"
        conf.mkdir(exist_ok=True)
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        private = {
            "HOME": str(self._directory),
            "SPARK_HOME": str(home),
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_DIRS": str(self._directory / "scratch"),
            # Web interfaces, too, listen there and nowhere else.
            "SPARK_LOCAL_IP": address,
            "SPARK_DAEMON_MEMORY": self._MEMORY,
            "SPARK_DAEMON_JAVA_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
            "PYSPARK_PYTHON": sys.executable,
        }
        process = processes.spawn(
            [shell, str(home / "bin" / "spark-class"), *arguments],
            directory=self._directory,
            environment={**inherited, **private},
            log=self._log(name),
        )
        self._running.callback(processes.end, process, grace=_STOP_SECONDS)
        return process

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _not_started(self, name: str) -> NotStarted:
        lines = self._log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return NotStarted(f"{name} did not start; its log ends:\n" + "\n".join(lines[-_LOG_TAIL_LINES:]))


class Cluster(_Servers):
    """A standalone cluster: a master, and two workers whose hosts have addresses of their own.

    Args:
        directory: For logs, work and scratch files.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._port, self._web = processes.free_ports(2)
        self._workers: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """What ``spark.master`` is set to."""
        return f"spark://{_HOST}:{self._port}"

    @property
    def config(self) -> Mapping[str, str]:
        """Configuration for a session on it: an executor of one core on each host."""
        return {
            "spark.master": self.url,
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.cores.max": str(len(_WORKERS)),
        }

    def executors(self) -> list[int]:
        """The numbers of the executors' processes."""
        return [pid for worker in self._workers for pid in children(worker.pid, _EXECUTOR)]

    def _start(self) -> None:
        where = ("--host", _HOST, "--port", str(self._port), "--webui-port", str(self._web))
        master = self._spawn("master", _HOST, "org.apache.spark.deploy.master.Master", *where)
        self._wait_for_workers(master, 0)
        for host in _WORKERS:
            arguments = ("--host", host, "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1g")
            work = ("--work-dir", str(self._directory / "work"))
            name = "org.apache.spark.deploy.worker.Worker"
            self._workers.append(self._spawn(f"worker-{host}", host, name, *arguments, *work, self.url))
        self._wait_for_workers(master, len(_WORKERS))

    def _wait_for_workers(self, master: subprocess.Popen[bytes], count: int) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not (processes.listens_on(master.pid, [self._port, self._web]) and self._alive() >= count):
            if processes.has_exited(master) or time.monotonic() > deadline:
                raise self._not_started("master")
            time.sleep(_POLL_SECONDS)

    def _alive(self) -> int:
        connection = http.client.HTTPConnection(_HOST, self._web, timeout=5)
        try:
            connection.request("GET", "/json/")
            return int(json.loads(connection.getresponse().read())["aliveworkers"])
        except (OSError, http.client.HTTPException, ValueError):
            return -1
        finally:
            connection.close()


class ConnectServer(_Servers):
    """A Spark Connect server in a process of its own.

    Args:
        directory: For logs and scratch files.
    """

    _MEMORY = "1g"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        [self._port] = processes.free_ports(1)

    @property
    def url(self) -> str:
        """What ``SparkSession.builder.remote`` is given."""
        return f"sc://{_HOST}:{self._port}"

    def _start(self) -> None:
        settings = {
            "spark.connect.grpc.binding.address": _HOST,
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.host": _HOST,
            "spark.driver.bindAddress": _HOST,
            "spark.ui.enabled": "false",
            "spark.python.unix.domain.socket.enabled": "true",
        }
        given = [one for name, value in settings.items() for one in ("--conf", f"{name}={value}")]
        process = self._spawn(
            "connect",
            _HOST,
            "org.apache.spark.deploy.SparkSubmit",
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *("--master", "local[2,4]", *given, "spark-internal"),
        )
        deadline = time.monotonic() + _START_SECONDS
        while not processes.listens_on(process.pid, [self._port]):
            if processes.has_exited(process) or time.monotonic() > deadline:
                raise self._not_started("connect")
            time.sleep(_POLL_SECONDS)
