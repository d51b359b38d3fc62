"""The double of Google Cloud Storage as a server for tests, and what it holds, seen by plain HTTP.

::

    with GcsDouble() as server:
        server.create_bucket("bucket")
        fs = gcsfs.core.GCSFileSystem(**server.storage_options())
"""

from __future__ import annotations

import http.client
import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, urlencode
from xml.etree import ElementTree as ET

from proofs.doubles import gcs, processes
from proofs.doubles.bucket_view import BucketView
from proofs.doubles.gcs.wire import Refusal
from proofs.doubles.server_process import ServerProcess

__all__ = ["GcsDouble", "GcsView"]

_TIMEOUT_S = 60


class GcsView(BucketView):
    """An endpoint that speaks Google's APIs. Its buckets are open to everybody."""

    scheme = "gs"

    def storage_options(self) -> dict[str, Any]:
        return self.plain_options(self.endpoint)

    def plain_options(self, endpoint: str) -> dict[str, Any]:
        return {"endpoint_url": endpoint, "token": "anon"}

    def environment(self) -> dict[str, str]:
        return {"STORAGE_EMULATOR_HOST": self.endpoint, "FSSPEC_GS_TOKEN": "anon"}

    def credentials(self) -> dict[str, str]:
        return {}

    def close_clients(self) -> None:
        """Nothing stays open between two questions."""

    def create_bucket(self, name: str, **resource: Any) -> str:
        self._json("POST", "/storage/v1/b?project=test", {"name": name, **resource})
        return name

    def change_bucket(self, name: str, **resource: Any) -> None:
        """Change what is said of a bucket, such as its retention policy."""
        self._json("PATCH", f"/storage/v1/b/{name}", resource)

    def change_object(self, bucket: str, key: str, **resource: Any) -> None:
        """Change what is said of an object, such as a hold."""
        self._json("PATCH", _object(bucket, key), resource)

    def remove_bucket(self, name: str) -> None:
        self.change_bucket(name, retentionPolicy={}, defaultEventBasedHold=False)
        for key, upload_id in self.uploads(name):
            self.abort_upload(name, key, upload_id)
        for key in self.all_keys(name):
            self.change_object(name, key, temporaryHold=None, eventBasedHold=None)
            self.ask("DELETE", _object(name, key))
        self.ask("DELETE", f"/storage/v1/b/{name}")

    def all_keys(self, bucket: str, prefix: str = "") -> list[str]:
        keys: list[str] = []
        token: dict[str, str] = {}
        while True:
            query = urlencode({"prefix": prefix, **token})
            page = self._json("GET", f"/storage/v1/b/{bucket}/o?{query}")
            keys.extend(item["name"] for item in page.get("items", ()))
            if "nextPageToken" not in page:
                return sorted(keys)
            token = {"pageToken": page["nextPageToken"]}

    def deleted_keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the key of every object that was deleted or written over and is kept, sorted."""
        query = {"prefix": prefix, "softDeleted": "true"}
        found: list[str] = []
        while True:
            page = self._json("GET", f"/storage/v1/b/{bucket}/o?{urlencode(query)}")
            found += [item["name"] for item in page.get("items", ())]
            if "nextPageToken" not in page:
                return found
            query["pageToken"] = page["nextPageToken"]

    def uploads(self, bucket: str, prefix: str = "") -> set[tuple[str, str]]:
        found: set[tuple[str, str]] = set()
        markers: dict[str, str] = {}
        while True:
            query = urlencode({"uploads": "", "prefix": prefix, **markers})
            page = ET.fromstring(self.ask("GET", f"/{bucket}?{query}"))  # noqa: S314 - our own server
            for entry in page.iterfind("{*}Upload"):
                found.add((entry.findtext("{*}Key", ""), entry.findtext("{*}UploadId", "")))
            if page.findtext("{*}IsTruncated") != "true":
                return found
            markers = {
                "key-marker": page.findtext("{*}NextKeyMarker", ""),
                "upload-id-marker": page.findtext("{*}NextUploadIdMarker", ""),
            }

    def read(self, bucket: str, key: str) -> bytes | None:
        try:
            return self.ask("GET", f"{_object(bucket, key)}?alt=media")
        except Refusal as refusal:
            if refusal.status != http.HTTPStatus.NOT_FOUND:
                raise
            return None

    def metadata(self, bucket: str, key: str) -> dict[str, str]:
        return {
            name.lower(): value for name, value in self.described(bucket, key).get("metadata", {}).items()
        }

    def folders(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the names of all folders that begin with ``prefix``, sorted; each ends with a slash."""
        found: list[str] = []
        query = {"prefix": prefix}
        while True:
            page = self._json("GET", f"/storage/v1/b/{bucket}/folders?{urlencode(query)}")
            found += [item["name"] for item in page.get("items", ())]
            if "nextPageToken" not in page:
                return sorted(found)
            query["pageToken"] = page["nextPageToken"]

    def described(self, bucket: str, key: str) -> dict[str, Any]:
        """Return the resource of an object."""
        return self._json("GET", _object(bucket, key))

    def write(self, bucket: str, key: str, body: bytes) -> None:
        query = urlencode({"uploadType": "media", "name": key})
        self.ask("POST", f"/upload/storage/v1/b/{bucket}/o?{query}", body)

    def open_upload(self, bucket: str, key: str) -> str:
        answer = self.ask("POST", f"/{bucket}/{quote(key)}?uploads")
        return ET.fromstring(answer).findtext("{*}UploadId", "")  # noqa: S314 - our own server

    def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        self.ask("DELETE", f"/{bucket}/{quote(key)}?{urlencode({'uploadId': upload_id})}")

    def ask(self, method: str, target: str, body: bytes = b"", **headers: str) -> bytes:
        """Return what a request is answered.

        Raises:
            Refusal: With an error; its message is the answer.
        """
        address = self.endpoint.removeprefix("http://")
        connection = http.client.HTTPConnection(address, timeout=_TIMEOUT_S)
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise Refusal(answer.status, answer.reason, content.decode(errors="replace"))
        return content

    def _json(self, method: str, target: str, document: dict[str, Any] | None = None) -> dict[str, Any]:
        body = b"" if document is None else json.dumps(document).encode()
        found: dict[str, Any] = json.loads(self.ask(method, target, body))
        return found


class GcsDouble(ServerProcess, GcsView):
    """The double: in memory; takes no credentials, or one token; refuses every other."""

    name = "gcs"
    distribution = "magicfs"
    requirements = ()
    checks_credentials = True
    token: ClassVar[str] = "magicfs-test-token"  # noqa: S105 - opens nothing but a test server on loopback
    _ready_path = "/__ready__"

    @property
    def version(self) -> str:
        return metadata.version(self.distribution)

    def _home(self) -> Path:
        return Path(sys.prefix)

    def _command(self, home: Path) -> list[str]:  # noqa: ARG002 - of this very Python
        module = "proofs.doubles.gcs"
        return [sys.executable, "-m", module, processes.LOOPBACK, str(self._port()), self.token]

    def _environment(self) -> dict[str, str]:
        assert gcs.__file__ is not None
        return {"PYTHONPATH": str(Path(gcs.__file__).parents[3])}


def _object(bucket: str, key: str) -> str:
    return f"/storage/v1/b/{bucket}/o/{quote(key, safe='')}"
