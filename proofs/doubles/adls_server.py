"""The double of Azure Data Lake Storage as a process, and what it holds, seen by the plain SDK."""

from __future__ import annotations

import base64
import http.client
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

from proofs.doubles import adls, processes
from proofs.doubles.azurite import AzureView
from proofs.doubles.server_process import ServerProcess

__all__ = ["AdlsDouble"]

_TIMEOUT_S = 60


class AdlsDouble(ServerProcess, AzureView):
    """The double: an account with a hierarchical namespace, in memory; takes any key and any SAS token of its
    own account, and one bearer token.
    """

    name = "adls"
    distribution = "magicfs"
    requirements = ()
    checks_credentials = False
    token: ClassVar[str] = "magicfs-test-token"  # noqa: S105 - opens nothing but a test server on loopback
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

    def keep(self, bucket: str, *, retention_s: int = 0, legal_hold: bool = False) -> None:
        """Put a container under a time-based retention policy, a legal hold, or neither."""
        self._tell(bucket, retention=str(retention_s), legalhold=str(legal_hold).lower())

    def drop_blocks(self, bucket: str, key: str) -> None:
        """Let a week pass for the blocks of a name that nobody has committed."""
        self._tell(bucket, drop=key)

    def keep_deleted(self, days: int) -> None:
        """Set the account's soft delete; 0 switches it off."""
        from azure.storage.blob import RetentionPolicy

        policy = RetentionPolicy(enabled=days > 0, days=days or None)
        self.client().set_service_properties(delete_retention_policy=policy)

    def deleted_keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the key of every file that was deleted or written over and is kept, sorted."""
        listed = self._container(bucket).list_blobs(name_starts_with=prefix or None, include=["deleted"])
        return sorted(blob.name for blob in listed if blob.deleted)

    def _tell(self, bucket: str, **what: str) -> None:
        """Have the double do what the SDK has no request for."""
        query = urlencode({"restype": "container", "comp": "double", **what})
        connection = http.client.HTTPConnection(self.endpoint.removeprefix("http://"), timeout=_TIMEOUT_S)
        try:
            headers = {"Authorization": f"SharedKey {self.account}:"}
            connection.request("PUT", f"/{self.account}/{quote(bucket)}?{query}", headers=headers)
            answer = connection.getresponse()
            assert answer.status == http.HTTPStatus.OK, answer.read()
        finally:
            connection.close()

    def lake(self) -> Any:
        """Return a client of the other API, which who asks closes."""
        from azure.storage.filedatalake import DataLakeServiceClient

        credential = {"account_name": self.account, "account_key": self.key}
        return DataLakeServiceClient(f"{self.endpoint}/{self.account}", credential=credential)

    def _home(self) -> Path:
        return Path(sys.prefix)

    def _command(self, home: Path) -> list[str]:  # noqa: ARG002 - of this very Python
        module = "proofs.doubles.adls"
        told = (processes.LOOPBACK, str(self._port()), self.account, self.token)
        return [sys.executable, "-m", module, *told]

    def _environment(self) -> dict[str, str]:
        assert adls.__file__ is not None
        return {"PYTHONPATH": str(Path(adls.__file__).parents[3])}
