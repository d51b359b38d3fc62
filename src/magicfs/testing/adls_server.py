"""The double of Azure Data Lake Storage as a process, and what it holds, seen by the plain SDK."""

from __future__ import annotations

import base64
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from magicfs.testing import adls, processes
from magicfs.testing.azurite import AzureView
from magicfs.testing.server_process import ServerProcess

__all__ = ["AdlsDouble"]


class AdlsDouble(ServerProcess, AzureView):
    """The double: an account with a hierarchical namespace, in memory; takes any key of its own account."""

    name = "adls"
    distribution = "magicfs"
    requirements = ()
    checks_credentials = False
    _ready_path = "/__ready__"

    def __init__(self) -> None:
        ServerProcess.__init__(self)
        key = base64.b64encode(b"magicfs-test-key-of-64-bytes-which-opens-nothing-but-this-server")
        AzureView.__init__(self, account="magicfslake", key=key.decode())

    @property
    def version(self) -> str:
        return metadata.version(self.distribution)

    def all_keys(self, bucket: str, prefix: str = "") -> list[str]:
        listed = self._container(bucket).list_blobs(name_starts_with=prefix or None, include=["metadata"])
        return sorted(blob.name for blob in listed if "hdi_isfolder" not in (blob.metadata or {}))

    def folders(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the paths of all directories that begin with ``prefix``, sorted; each ends with a slash."""
        listed = self._container(bucket).list_blobs(name_starts_with=prefix or None, include=["metadata"])
        return sorted(f"{blob.name}/" for blob in listed if "hdi_isfolder" in (blob.metadata or {}))

    def uploads(self, bucket: str, prefix: str = "") -> set[tuple[str, str]]:
        folders = {name.removesuffix("/") for name in self.folders(bucket, prefix)}
        listed = self._container(bucket).list_blobs(
            name_starts_with=prefix or None, include=["uncommittedblobs"]
        )
        names = [blob.name for blob in listed if blob.name not in folders]
        return {(name, one) for name in names for one in self._uploads_of(bucket, name)}

    def lake(self) -> Any:
        """Return a client of the other API, which who asks closes."""
        from azure.storage.filedatalake import DataLakeServiceClient

        credential = {"account_name": self.account, "account_key": self.key}
        return DataLakeServiceClient(f"{self.endpoint}/{self.account}", credential=credential)

    def _home(self) -> Path:
        return Path(sys.prefix)

    def _command(self, home: Path) -> list[str]:  # noqa: ARG002 - of this very Python
        module = "magicfs.testing.adls"
        return [sys.executable, "-m", module, processes.LOOPBACK, str(self._port()), self.account]

    def _environment(self) -> dict[str, str]:
        assert adls.__file__ is not None
        return {"PYTHONPATH": str(Path(adls.__file__).parents[3])}
