"""A metastore of Hive with a database of Derby, from the jars that PySpark brings."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyspark

from proofs.doubles import processes

__all__ = ["HiveMetastore"]

_SECONDS: Final = 120.0
_OPENED: Final = ("java.net", "java.lang", "java.util")
_SITE: Final = """<configuration>
<property><name>javax.jdo.option.ConnectionURL</name>
<value>jdbc:derby:;databaseName={directory}/db;create=true</value></property>
<property><name>javax.jdo.option.ConnectionDriverName</name>
<value>org.apache.derby.jdbc.EmbeddedDriver</value></property>
<property><name>datanucleus.schema.autoCreateAll</name><value>true</value></property>
<property><name>hive.metastore.schema.verification</name><value>false</value></property>
<property><name>hive.metastore.warehouse.dir</name><value>{directory}/warehouse</value></property>
<property><name>hive.async.log.enabled</name><value>false</value></property>
</configuration>
"""


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else str(shutil.which("java"))


class HiveMetastore:
    """A metastore on a free port of this machine, as a process of its own.

    Args:
        directory: An empty one, for its database and its log.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        [self.port] = processes.free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """Its address."""
        return f"thrift://{processes.LOOPBACK}:{self.port}"

    def __enter__(self) -> Self:
        (self.directory / "hive-site.xml").write_text(_SITE.format(directory=self.directory))
        jars = Path(pyspark.__file__).parent / "jars"
        command = [
            *(_java(), "-Xmx400m", f"-Dderby.system.home={self.directory}"),
            *(f"--add-opens=java.base/{one}=ALL-UNNAMED" for one in _OPENED),
            *("-cp", f"{self.directory}:{jars}/*"),
            *("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self.port)),
        ]
        environment = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
        self._process = processes.spawn(
            command, directory=self.directory, environment=environment, log=self.directory / "log.txt"
        )
        try:
            self._wait()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _wait(self) -> None:
        assert self._process is not None
        until = time.monotonic() + _SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            with suppress(OSError), socket.create_connection((processes.LOOPBACK, self.port), 1.0):
                return
            time.sleep(0.2)
        log = (self.directory / "log.txt").read_text(errors="replace")
        raise RuntimeError(f"the metastore did not start: {log[-2000:]}")

    def _stop(self) -> None:
        assert self._process is not None
        processes.end(self._process, grace=0)
