"""A server of a store for tests, as a process: ports, data, beginning and end."""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import tempfile
import time
from abc import abstractmethod
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from proofs.doubles import environments, processes
from proofs.doubles.bucket_view import BucketView

__all__ = ["ServerFailed", "ServerProcess"]

_START_ATTEMPTS = 5
_POLL_SECONDS = 0.02
_PORT_RELEASE_SECONDS = 5.0
_LOG_TAIL_LINES = 40
# Everything else stays out: AWS_* would be taken for credentials or endpoints, WEED_*, MOTO_* and
# PYTHON* would change the server, proxies would catch its requests to itself.
_INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "TZ")


class ServerFailed(RuntimeError):
    """A server did not start, or died. The message ends with the last lines of its log."""


class _PortsTaken(ServerFailed):
    """Another program got one of the chosen ports first."""


class ServerProcess(BucketView):
    """One server process with its ports, its data and its credentials, as a context manager.

    Everything it writes is inside a private temporary directory. It is killed by the kernel when this
    process dies, however it dies. An instance is started once; after :meth:`stop` make another.

    Attributes:
        name: The key in :data:`~proofs.doubles.servers.SERVERS`.
        requirements: What is installed from PyPI to run it.
        checks_credentials: Whether it refuses a wrong key or secret.
        keeps_data: Whether objects and open uploads survive :meth:`kill` and :meth:`restart`.
    """

    name: ClassVar[str]
    distribution: ClassVar[str]
    requirements: ClassVar[tuple[str, ...]]
    checks_credentials: ClassVar[bool] = False
    keeps_data: ClassVar[bool] = False
    start_timeout: ClassVar[float] = 60.0
    stop_timeout: ClassVar[float] = 10.0
    _port_count: ClassVar[int] = 1
    _own_ports: ClassVar[int | None] = None  # on how many of them the process itself listens; None for all
    _ready_path: ClassVar[str]

    def __init__(self) -> None:
        self._environment_home: Path | None = None
        self._directory: Path | None = None
        self._ports: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        """The URL that clients are given."""
        return f"http://{processes.LOOPBACK}:{self._port()}"

    @property
    def pid(self) -> int:
        """The number of the running process."""
        return self._running().pid

    @property
    def directory(self) -> Path:
        """Where all state is, and ``server.log``. Gone after :meth:`stop`."""
        if self._directory is None:
            raise ServerFailed(f"{self.name} is not started; call start() or use it in a with statement.")
        return self._directory

    @property
    def version(self) -> str:
        """The version of the server's distribution, as installed."""
        packages = (self._home() / "lib").glob("python3*/site-packages")
        found = metadata.distributions(name=self.distribution, path=[str(path) for path in packages])
        return next(iter(found)).version

    def start(self) -> Self:
        """Install the server if need be, start it, and return when it answers.

        Raises:
            EnvironmentNotMade: It could not be installed.
            ServerFailed: It did not start; nothing is left behind.
        """
        if self._process is not None:
            raise ServerFailed(f"{self.name} is started already; make another instance for a second server.")
        self._home()
        for attempt in range(_START_ATTEMPTS):
            self._ports = processes.free_ports(self._port_count)
            self._directory = Path(tempfile.mkdtemp(prefix=f"magicfs-{self.name}-"))
            try:
                self._launch()
            except BaseException as error:
                self.stop()
                if isinstance(error, _PortsTaken) and attempt < _START_ATTEMPTS - 1:
                    continue
                raise
            break
        return self

    def stop(self) -> None:
        """End the process and all it started, and remove its directory. A second call does nothing."""
        self.close_clients()
        try:
            self._end(self.stop_timeout)
        finally:
            if self._directory is not None:
                shutil.rmtree(self._directory)
                self._directory = None

    def kill(self) -> None:
        """Kill the process as a crash would (SIGKILL). Data and ports are kept for :meth:`restart`."""
        self._running()
        self._end(0)

    def restart(self) -> None:
        """Start again on the same port and data, after :meth:`kill` or (asking it to stop) while it runs."""
        self._end(self.stop_timeout)
        deadline = time.monotonic() + _PORT_RELEASE_SECONDS
        while not all(map(processes.port_is_free, self._ports)) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        self._launch()

    def check_alive(self) -> None:
        """Return if the server runs.

        Raises:
            ServerFailed: It died or was killed, with the end of its log.
        """
        self._running()

    # What a subclass says about its server.

    @abstractmethod
    def _command(self, home: Path) -> list[str]:
        """The command line that starts it, given its environment."""

    def _environment(self) -> dict[str, str]:
        return {}

    def _remove_traces(self) -> None:
        """Remove what the server leaves outside of its directory."""

    # How it is carried out.

    def _home(self) -> Path:
        if self._environment_home is None:
            self._environment_home = environments.ensure(self.name, self.requirements)
        return self._environment_home

    def _port(self, index: int = 0) -> int:
        if not self._ports:
            raise ServerFailed(f"{self.name} is not started; call start() or use it in a with statement.")
        return self._ports[index]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerFailed(f"{self.name} is not running; call start(), or restart() after kill().")
        if processes.has_exited(self._process):
            raise ServerFailed(f"{self.name} died by itself; its log ends:\n{self._log_tail()}")
        return self._process

    def _launch(self) -> None:
        taken = [port for port in self._ports if not processes.port_is_free(port)]
        if taken:
            raise _PortsTaken(f"{self.name} needs the ports {taken}, where another program listens; end it.")
        inherited = {key: os.environ[key] for key in _INHERITED if key in os.environ}
        private = {"HOME": str(self.directory), "TMPDIR": str(self.directory)}
        self._process = processes.spawn(
            self._command(self._home()),
            directory=self.directory,
            environment={**inherited, **private, **self._environment()},
            log=self.directory / "server.log",
        )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self._end(0)
            raise

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self.start_timeout
        while time.monotonic() < deadline:
            if processes.has_exited(process):
                self._end(0)
                lost_race = not all(map(processes.port_is_free, self._ports))
                kind = _PortsTaken if lost_race else ServerFailed
                raise kind(f"{self.name} exited instead of starting; its log ends:\n{self._log_tail()}")
            if processes.listens_on(process.pid, self._ports[: self._own_ports]) and self._answers():
                return
            time.sleep(_POLL_SECONDS)
        raise ServerFailed(
            f"{self.name} did not answer on {self.endpoint}{self._ready_path} within "
            f"{self.start_timeout:g} s; its log ends:\n{self._log_tail()}"
        )

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(processes.LOOPBACK, self._port(), timeout=2)
        try:
            connection.request("GET", self._ready_path)
            return connection.getresponse().status == http.HTTPStatus.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _end(self, grace: float) -> None:
        if self._process is not None:
            processes.end(self._process, grace=grace)
            self._process = None
            self._remove_traces()

    def _log_tail(self) -> str:
        with suppress(OSError):
            log = (self.directory / "server.log").read_text(encoding="utf-8", errors="replace")
            return "\n".join(log.splitlines()[-_LOG_TAIL_LINES:])
        return "(no log)"
