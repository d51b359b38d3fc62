"""Ceph's S3 gateway as a server for tests, where a machine has it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from proofs.doubles import ceph_cluster
from proofs.doubles.environments import EnvironmentNotMade
from proofs.doubles.servers import Server

__all__ = ["Ceph"]


class Ceph(Server):
    """Ceph's S3 gateway over the smallest cluster: a store of the field, in memory, that checks signatures.

    It is not on PyPI: a machine has it from its own packages.
    """

    name = "ceph"
    distribution = "ceph"
    requirements = ()
    checks_credentials = True
    start_timeout = 120.0
    _port_count = ceph_cluster.PORTS
    _own_ports = 1
    _ready_path = "/"
    _programs = ("radosgw", "ceph-mon", "ceph-osd", "ceph", "radosgw-admin")

    @property
    def version(self) -> str:
        told = subprocess.run(["radosgw", "--version"], capture_output=True, text=True, check=True)  # noqa: S607
        return told.stdout.split()[2]

    def _home(self) -> Path:
        missing = [program for program in self._programs if shutil.which(program) is None]
        if missing:
            raise EnvironmentNotMade(
                f"this machine has no {', '.join(missing)}; on Debian and Ubuntu: apt-get install -y "
                "--no-install-recommends radosgw ceph-mon ceph-osd"
            )
        return Path(sys.prefix)

    def _command(self, home: Path) -> list[str]:  # noqa: ARG002 - of the machine
        (self.directory / "ceph").mkdir()
        program = [sys.executable, "-I", ceph_cluster.__file__]
        return [*program, str(self.directory / "ceph"), str(self._port())]

    def _environment(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}
