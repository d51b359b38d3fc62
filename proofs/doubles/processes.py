"""Processes and ports of test servers: who may use a port, who listens there, who dies with whom."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

from proofs.doubles import die_with_parent

__all__ = ["end", "free_ports", "has_exited", "listens_on", "port_is_free", "spawn"]

LOOPBACK = "127.0.0.1"
_LOWEST_PORT = 15_000
_PORT_ATTEMPTS = 200
_POLL_SECONDS = 0.02
_LISTEN = "0A"  # TCP_LISTEN in the tables of /proc/net


def free_ports(count: int) -> list[int]:
    """Return ``count`` consecutive TCP ports of the loopback interface that nobody listens on now.

    They lie below the ports which the kernel gives to outgoing connections. A port from that range
    (what binding to port 0 returns) can be taken by any client while its server is restarted, even
    by the client that is polling it: a loopback connection may connect to itself.
    """
    randomness = random.SystemRandom()
    for _ in range(_PORT_ATTEMPTS):
        first = randomness.randrange(_LOWEST_PORT, _first_outgoing_port() - count)
        ports = list(range(first, first + count))
        with ExitStack() as bound:
            if all(_bind(port, bound) for port in ports):
                return ports
    raise RuntimeError(
        f"Found no {count} consecutive free ports on {LOOPBACK} in {_PORT_ATTEMPTS} attempts; "
        "look for servers left over from earlier runs (ss -ltnp) and end them."
    )


def port_is_free(port: int) -> bool:
    """Return whether a server could listen on ``port`` of the loopback interface now."""
    with ExitStack() as bound:
        return _bind(port, bound)


def _bind(port: int, bound: ExitStack) -> bool:
    candidate = bound.enter_context(socket.socket())
    # As servers do: connections of a server that is gone may linger, a listening socket may not.
    candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        candidate.bind((LOOPBACK, port))
    except OSError:
        return False
    return True


@cache
def _first_outgoing_port() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    except OSError:
        return 32_768
    return first if first > _LOWEST_PORT + 1000 else 65_536


def listens_on(pid: int, ports: Collection[int]) -> bool:
    """Return whether the process ``pid`` itself listens on every one of the TCP ``ports``.

    An answer on a port is not enough: it may come from a server of somebody else that was quicker.
    Where there is no ``/proc`` nobody can tell, and the answer is always True.
    """
    listening = _listening_sockets(ports)
    if listening is None:
        return True
    own = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                own.add(str(descriptor.readlink()))
    return {listening[socket_name] for socket_name in listening.keys() & own} == set(ports)


def _listening_sockets(ports: Collection[int]) -> dict[str, int] | None:
    """Return the port of each listening socket, by the name that /proc/PID/fd gives to the socket."""
    found = {}
    tables = [table for table in map(Path, ("/proc/net/tcp", "/proc/net/tcp6")) if table.exists()]
    for table in tables:
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            port, state, inode = int(fields[1].rpartition(":")[2], 16), fields[3], fields[9]
            if state == _LISTEN and port in ports:
                found[f"socket:[{inode}]"] = port
    return found if tables else None


def spawn(
    command: Sequence[str], *, directory: Path, environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """Start ``command`` in a process group of its own; it is killed when this process dies.

    The environment is all that it gets: nothing is inherited. Both outputs are appended to the log.
    """
    if threading.current_thread() is threading.main_thread():
        return _spawn(command, directory, environment, log)
    # To the kernel "parent" is the thread that forked: a server started by a worker thread would be
    # killed when that thread ends. This one lasts as long as the process.
    return _launcher(os.getpid()).submit(_spawn, command, directory, environment, log).result()


@cache
def _launcher(_pid: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="magicfs-launcher")


def _spawn(
    command: Sequence[str], directory: Path, environment: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    launcher = (sys.executable, "-I", "-S", die_with_parent.__file__, str(os.getpid()))
    with log.open("ab") as output:
        return subprocess.Popen(  # noqa: S603  the commands are our own
            [*launcher, *command],
            cwd=directory,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def end(process: subprocess.Popen[bytes], *, grace: float) -> None:
    """End a process from :func:`spawn` and all of its group; on return none of them runs.

    ``grace`` is the time in seconds between asking (SIGTERM) and killing (SIGKILL); 0 kills at once.
    """
    if process.returncode is not None:
        return
    if grace > 0:
        _signal_group(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while not has_exited(process) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    # The leader, dead or alive, is still unreaped here: its number cannot belong to another group.
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def has_exited(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the process is dead, and leave it to :func:`end` to reap it and kill its group."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, number)
