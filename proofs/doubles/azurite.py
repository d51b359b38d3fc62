"""Azurite, Microsoft's emulator of Azure's Blob service, and what it holds, seen by the plain SDK.

::

    with Azurite() as server:
        server.create_bucket("container")
        fs = adlfs.AzureBlobFileSystem(**server.storage_options())

It is in memory, and takes its own key alone.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from magicfs.stores.azure import blocks as azure_blocks
from magicfs.stores.azure import metadata as azure_metadata
from proofs.doubles import environments, processes
from proofs.doubles.bucket_view import BucketView
from proofs.doubles.server_process import ServerProcess

__all__ = ["AzureView", "Azurite"]


class AzureView(BucketView):
    """An endpoint of the Blob service. A bucket is a container."""

    scheme = "abfs"
    uploads_apart = False
    account: str
    key: str
    """The account's key, base64."""

    def __init__(self, *, account: str, key: str) -> None:
        self.account = account
        self.key = key
        self._client: Any = None

    def connection_string(self, endpoint: str | None = None) -> str:
        """Return what reaches the account, by another way if one is given, such as a fault proxy."""
        return (
            f"DefaultEndpointsProtocol=http;AccountName={self.account};AccountKey={self.key};"
            f"BlobEndpoint={endpoint or self.endpoint}/{self.account};"
        )

    def storage_options(self) -> dict[str, Any]:
        return {"connection_string": self.connection_string()}

    def plain_options(self, endpoint: str) -> dict[str, Any]:
        """Return nothing: the connection string, from the environment, has the endpoint with the key."""
        assert endpoint == self.endpoint, "give another endpoint by connection_string()"
        return {}

    def environment(self) -> dict[str, str]:
        return self.credentials()

    def credentials(self) -> dict[str, str]:
        return {"AZURE_STORAGE_CONNECTION_STRING": self.connection_string()}

    def client(self) -> Any:
        """Return the SDK's client of the account, which is closed with the server."""
        if self._client is None:
            from azure.storage.blob import BlobServiceClient

            self._client = BlobServiceClient.from_connection_string(self.connection_string())
        return self._client

    def close_clients(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def create_bucket(self, name: str, **resource: Any) -> str:
        self.client().create_container(name, **resource)
        return name

    def remove_bucket(self, name: str) -> None:
        self.client().delete_container(name)

    def all_keys(self, bucket: str, prefix: str = "") -> list[str]:
        return sorted(self._container(bucket).list_blob_names(name_starts_with=prefix or None))

    def uploads(self, bucket: str, prefix: str = "") -> set[tuple[str, str]]:
        """Return key and id of every upload of ours, also where an object is."""
        listed = self._container(bucket).list_blobs(
            name_starts_with=prefix or None, include=["uncommittedblobs"]
        )
        return {(blob.name, one) for blob in listed for one in self._uploads_of(bucket, blob.name)}

    def read(self, bucket: str, key: str) -> bytes | None:
        from azure.core.exceptions import ResourceNotFoundError

        with suppress(ResourceNotFoundError):
            body: bytes = self._blob(bucket, key).download_blob(decompress=False).readall()
            return body
        return None

    def metadata(self, bucket: str, key: str) -> dict[str, str]:
        return azure_metadata.decoded(self._blob(bucket, key).get_blob_properties().metadata)

    def write(self, bucket: str, key: str, body: bytes) -> None:
        self._blob(bucket, key).upload_blob(body, overwrite=True)

    def open_upload(self, bucket: str, key: str) -> str:
        upload_id = azure_blocks.new_upload_id(time.time())
        _, opening = azure_blocks.opening(upload_id, {}, {})
        self._blob(bucket, key).stage_block(opening, b".")
        return upload_id

    def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        self._blob(bucket, key).stage_block(azure_blocks.end(upload_id), b".")

    def _uploads_of(self, bucket: str, key: str) -> Iterator[str]:
        from azure.core.exceptions import ResourceNotFoundError

        try:
            _, blocks = self._blob(bucket, key).get_block_list("uncommitted")
        except ResourceNotFoundError:  # gone since it was listed
            return
        yield from azure_blocks.uploads_of(block.id for block in blocks)

    def _container(self, bucket: str) -> Any:
        return self.client().get_container_client(bucket)

    def _blob(self, bucket: str, key: str) -> Any:
        return self.client().get_blob_client(bucket, key)


# Its garbage collection, every ten minutes and without an option, lets some request wait for ever.
_WITHOUT_COLLECTION = """
const [main, collector] = process.argv.splice(1, 2);
require(collector).default.prototype.markSweep = async () => {};
process.argv.splice(1, 0, main);
require(main);
"""


class Azurite(ServerProcess, AzureView):
    """Azurite's Blob service: in memory; takes its own key alone."""

    name = "azurite"
    distribution = "azurite"
    requirements = ()
    node_packages = ("azurite@^3.35.0",)
    checks_credentials = True
    _ready_path = "/"

    def __init__(self) -> None:
        ServerProcess.__init__(self)
        key = base64.b64encode(b"magicfs-test-key-of-64-bytes-which-opens-nothing-but-this-server")
        AzureView.__init__(self, account="magicfstest", key=key.decode())

    @property
    def version(self) -> str:
        found = json.loads((self._package(self._home()) / "package.json").read_text(encoding="utf-8"))
        return str(found["version"])

    def _home(self) -> Path:
        if self._environment_home is None:
            self._environment_home = environments.ensure(self.name, self.requirements, self.node_packages)
        return self._environment_home

    def _package(self, home: Path) -> Path:
        return home / "node_modules" / "azurite"

    def _command(self, home: Path) -> list[str]:
        blob = self._package(home) / "dist" / "src" / "blob"
        return [
            *(str(environments.node(home)), "--eval", _WITHOUT_COLLECTION, "--"),
            *(str(blob / "main.js"), str(blob / "gc" / "BlobGCManager.js")),
            *("--blobHost", processes.LOOPBACK, "--blobPort", str(self._port())),
            *("--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"),
        ]

    def _environment(self) -> dict[str, str]:
        return {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"}

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection(processes.LOOPBACK, self._port(), timeout=2)
        try:
            connection.request("GET", self._ready_path)
            # Whom it does not know it refuses.
            return connection.getresponse().status < http.HTTPStatus.INTERNAL_SERVER_ERROR
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
