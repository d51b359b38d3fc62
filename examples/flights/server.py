"""The store that the demo writes to, and the environment that leads every process to it."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import uuid4

from examples.flights.buckets import AzureBucket, Bucket, GcsBucket, LocalDirectory, S3Bucket
from magicfs.errors import UsageError
from proofs.doubles.azurite import Azurite
from proofs.doubles.bucket_view import S3View
from proofs.doubles.ceph_server import Ceph
from proofs.doubles.gcs_server import GcsDouble
from proofs.doubles.server_process import ServerProcess
from proofs.doubles.servers import SeaweedFS, Server

__all__ = ["GivenServer", "given_server", "own_server"]

_REGION = "us-east-1"
_DELETE_BATCH = 1000
_FOREIGN = ("AWS_", "AZURE_", "FSSPEC_", "GOOGLE_", "STORAGE_EMULATOR_HOST")


class GivenServer(S3View):
    """An S3 endpoint of somebody else. botocore finds the credentials where it always does."""

    def __init__(self, url: str) -> None:
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or _REGION
        super().__init__(access_key="", secret_key="", region=region)
        self._url = url.rstrip("/")
        self._client: Any = None

    @property
    def endpoint(self) -> str:
        """The URL that S3 clients are given."""
        return self._url

    def s3_client(self, **_: Any) -> Any:
        """A botocore client with the credentials of the environment; the same one each time."""
        import botocore.session

        if self._client is None:
            session = botocore.session.Session()
            self._client = session.create_client("s3", endpoint_url=self._url, region_name=self.region)
        return self._client

    def close_clients(self) -> None:
        """Close the client."""
        if self._client is not None:
            self._client.close()
            self._client = None


@contextmanager
def own_server(store: str = "s3") -> Iterator[Bucket]:
    """Start a server in a temporary directory, on free ports of the loopback interface; stop it at the end.

    Meanwhile its credentials, and no others, are in the environment of this process. ``store``: one of
    ``main.STORES``; SeaweedFS and Ceph speak S3, Azurite is an Azure, and for Google Cloud Storage there is
    a double of our own. Local files are a temporary directory.
    """
    with ExitStack() as stack:
        if store == "local":
            top = stack.enter_context(tempfile.TemporaryDirectory(prefix="magicfs-demo-store-"))
            kernel = f"{platform.system()} {platform.release()}"
            yield LocalDirectory(top, {"name": "local files", "version": kernel, "pid": None})
            return
        server = stack.enter_context(_SERVERS[store]())
        stack.enter_context(_environment(server))
        name = server.create_bucket(_bucket_name())
        told = {"name": server.name, "version": server.version, "pid": server.pid}
        yield _BUCKETS[store](name, server, told)


_SERVERS: Mapping[str, type[ServerProcess]] = {
    "s3": SeaweedFS,
    "ceph": Ceph,
    "gcs": GcsDouble,
    "azure": Azurite,
}
_BUCKETS: Mapping[str, Any] = {"s3": S3Bucket, "ceph": S3Bucket, "gcs": GcsBucket, "azure": AzureBucket}


@contextmanager
def given_server(url: str) -> Iterator[Bucket]:
    """Create a bucket on another S3 server, with the credentials of the environment; remove it at the end.

    Raises UsageError if there is no URL, or the server cannot be reached, or refuses.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--server {url!r} is not a URL; write it like http://localhost:9000")
    server = GivenServer(url)
    name = _bucket_name()
    try:
        try:
            told = _create_bucket(server, name)
        except (BotoCoreError, ClientError) as error:
            raise UsageError(
                f"no bucket could be created on {url}: {error}; check the URL, and set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY to credentials that may create buckets"
            ) from error
        try:
            yield S3Bucket(name, server, {"name": told, "version": None, "pid": None})
        finally:
            _remove_bucket(server, name)
    finally:
        server.close_clients()


def _bucket_name() -> str:
    return f"magicfs-demo-{uuid4().hex[:12]}"


def _create_bucket(server: GivenServer, name: str) -> str:
    """Create a bucket; returns what the server calls itself."""
    # us-east-1 is the one region that must not be named.
    place = (
        {}
        if server.region == _REGION
        else {"CreateBucketConfiguration": {"LocationConstraint": server.region}}
    )
    answer = server.s3_client().create_bucket(Bucket=name, **place)
    return str(answer["ResponseMetadata"]["HTTPHeaders"].get("server") or server.endpoint)


def _remove_bucket(server: GivenServer, name: str) -> None:
    client = server.s3_client()
    for upload in server.pending_uploads(name):
        client.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    keys = server.all_keys(name)
    for start in range(0, len(keys), _DELETE_BATCH):
        batch = [{"Key": key} for key in keys[start : start + _DELETE_BATCH]]
        client.delete_objects(Bucket=name, Delete={"Objects": batch, "Quiet": True})
    client.delete_bucket(Bucket=name)


@contextmanager
def _environment(server: ServerProcess) -> Iterator[None]:
    before = dict(os.environ)
    # Profiles, tokens and endpoints of the user's would lead elsewhere; proxies would catch the requests.
    foreign = [name for name in before if name.startswith(_FOREIGN) or name.lower().endswith("_proxy")]
    for name in foreign:
        del os.environ[name]
    os.environ |= server.credentials()
    if isinstance(server, Server):
        nowhere = str(server.directory / "none")
        os.environ |= {
            "AWS_DEFAULT_REGION": server.region,
            "AWS_CONFIG_FILE": nowhere,
            "AWS_SHARED_CREDENTIALS_FILE": nowhere,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
