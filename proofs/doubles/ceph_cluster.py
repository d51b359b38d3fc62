"""The smallest cluster of Ceph with its S3 gateway: one monitor, one object store in memory, no keys between.

``python -m proofs.doubles.ceph_cluster DIRECTORY FIRST_PORT`` makes it in an empty directory, gives one user
the keys of ``AWS_ACCESS_KEY_ID`` and ``AWS_SECRET_ACCESS_KEY``, and becomes the gateway. Ports: the
gateway's, two of the monitor, and ten for the object store.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["PORTS", "main"]

PORTS: Final = 13
_GATEWAY: Final = "client.rgw.test"
_PATIENCE_S: Final = 30.0
_LOG_TAIL_LINES: Final = 20
_LOOPBACK: Final = "127.0.0.1"
# Ceph's own defaults wait for several machines, and for quorums that one process never loses.
_EVERYWHERE: Final[Mapping[str, str]] = {
    "public network": "127.0.0.0/8",
    "public addr": _LOOPBACK,
    "auth cluster required": "none",
    "auth service required": "none",
    "auth client required": "none",
    # Without keys "secure", which the gateway would ask of the monitor, is refused for ever.
    "ms mon client mode": "crc secure",
    "osd pool default size": "1",
    "osd pool default min size": "1",
    "osd pool default pg num": "1",
    "osd pool default pgp num": "1",
    "osd pool default pg autoscale mode": "off",
    "osd crush chooseleaf type": "0",
    "mon allow pool size one": "true",
    "mon max pg per osd": "4000",
    # A percentage; at 0 a monitor still ends itself where less than 1 % of a disk is free.
    "mon data avail crit": "-1",
    "osd objectstore": "memstore",
    "memstore device bytes": str(4 * 2**30),
    "ms initial backoff": "0.02",
    "paxos propose interval": "0.05",
    "paxos min wait": "0.02",
    "mon election timeout": "2",
}
_OF_GATEWAY: Final[Mapping[str, str]] = {
    "rgw enable usage log": "false",
    "rgw run sync thread": "false",
    "rgw enable lc threads": "false",
    # Else what was deleted stays in memory.
    "rgw gc obj min wait": "5",
    "rgw gc processor period": "5",
    "rgw gc processor max time": "5",
}


def main(directory: str, first_port: str) -> None:
    """Make the cluster and become its gateway."""
    here, port = Path(directory), int(first_port)
    cluster = str(uuid.uuid4())
    monitor = f"[v2:{_LOOPBACK}:{port + 1},v1:{_LOOPBACK}:{port + 2}]"
    for name in ("run", "mon", "osd", "rgw"):
        (here / name).mkdir()
    (here / "keyring").touch()
    settings = here / "ceph.conf"
    settings.write_text(_settings(here, port, cluster, monitor), encoding="utf-8")
    chosen = ("-c", str(settings))
    _run("monmaptool", "--create", "--fsid", cluster, "--addv", "a", monitor, str(here / "monmap"))
    of_monitor = ("ceph-mon", *chosen, "-i", "a")
    _run(*of_monitor, "--mkfs", "--monmap", str(here / "monmap"), "--keyring", str(here / "keyring"))
    monitor_process = subprocess.Popen([*of_monitor, "-f"])  # noqa: S603 - it ends with the process group
    store = str(uuid.uuid4())
    _run_until_done(
        monitor_process, here / "mon.a.log", "ceph", *chosen, "--connect-timeout", "5", "osd", "new", store
    )
    _run("ceph-osd", *chosen, "-i", "0", "--mkfs", "--osd-uuid", store)
    subprocess.Popen(["ceph-osd", *chosen, "-i", "0", "-f"])  # noqa: S603, S607
    keys = (os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
    user = ("user", "create", "--uid", "test", "--display-name", "test", "--access-key", keys[0])
    _run("radosgw-admin", *chosen, *user, "--secret-key", keys[1], "--max-buckets", "0")
    os.execvp("radosgw", ["radosgw", *chosen, "-n", _GATEWAY, "-f"])  # noqa: S606, S607


def _settings(here: Path, port: int, cluster: str, monitor: str) -> str:
    everywhere = {
        **_EVERYWHERE,
        "fsid": cluster,
        "mon host": monitor,
        "ms bind port min": str(port + 3),
        "ms bind port max": str(port + PORTS - 1),
        "run dir": str(here / "run"),
        "log file": str(here / "$name.log"),
        "admin socket": str(here / "run" / "$name.asok"),
        "pid file": str(here / "run" / "$name.pid"),
        "mon data": str(here / "mon"),
        "osd data": str(here / "osd"),
        "rgw data": str(here / "rgw"),
        "keyring": str(here / "keyring"),
        "crash dir": str(here / "run"),
    }
    gateway = {**_OF_GATEWAY, "rgw frontends": f"beast endpoint={_LOOPBACK}:{port}"}
    sections = {"global": everywhere, _GATEWAY: gateway}
    return "\n".join(
        f"[{section}]\n" + "\n".join(f"{name} = {value}" for name, value in said.items()) + "\n"
        for section, said in sections.items()
    )


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)  # noqa: S603


def _run_until_done(monitor_process: subprocess.Popen[bytes], log: Path, *command: str) -> None:
    """Repeat a command until the monitor has come up."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return _run(*command)
        except subprocess.CalledProcessError:
            if monitor_process.poll() is not None:
                told = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
                raise SystemExit(
                    "\n".join(["the monitor ended by itself; its log ends:", *told[-_LOG_TAIL_LINES:]])
                ) from None
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
