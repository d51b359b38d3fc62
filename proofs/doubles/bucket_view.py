"""What a server holds, seen by plain clients: the witness of tests, independent of magicfs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

__all__ = ["BucketView", "S3View", "is_hidden"]

_DELETE_BATCH = 1000


class BucketView(ABC):
    """The questions that tests ask about the buckets of one endpoint, whatever kind of store it is.

    Attributes:
        scheme: Of the URLs of its buckets.
        uploads_apart: As in ``Capabilities`` of its store.
    """

    scheme: ClassVar[str]
    uploads_apart: ClassVar[bool] = True

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """The URL that clients are given."""

    @abstractmethod
    def storage_options(self) -> dict[str, Any]:
        """Return the arguments with which the fsspec filesystem of the scheme reaches this server."""

    @abstractmethod
    def plain_options(self, endpoint: str) -> dict[str, Any]:
        """Return such arguments for another way to the server, without secrets."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """Return the environment in which a program without options reaches this server."""

    @abstractmethod
    def credentials(self) -> dict[str, str]:
        """Return those of its variables that hold credentials: what ``plain_options`` leave out."""

    @abstractmethod
    def close_clients(self) -> None:
        """Close what was opened to look."""

    @abstractmethod
    def create_bucket(self, name: str, **resource: Any) -> str:
        """Create a bucket and return its name; ``resource`` is what else the service's API takes."""

    @abstractmethod
    def remove_bucket(self, name: str) -> None:
        """Delete a bucket with all that is in it, pending uploads included."""

    @abstractmethod
    def all_keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return every key that begins with ``prefix``, sorted by code point."""

    @abstractmethod
    def uploads(self, bucket: str, prefix: str = "") -> set[tuple[str, str]]:
        """Return key and id of every pending upload whose key begins with ``prefix``."""

    @abstractmethod
    def read(self, bucket: str, key: str) -> bytes | None:
        """Return the body of an object; None if there is none."""

    @abstractmethod
    def metadata(self, bucket: str, key: str) -> dict[str, str]:
        """Return the user metadata of an object, names in lower case."""

    @abstractmethod
    def write(self, bucket: str, key: str, body: bytes) -> None:
        """Write an object."""

    @abstractmethod
    def open_upload(self, bucket: str, key: str) -> str:
        """Open an upload and return its id."""

    @abstractmethod
    def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        """Abort an upload."""

    def visible_keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the keys that engines take for data.

        These are the keys under ``prefix`` none of whose elements after the prefix begins with ``.``, or
        with ``_`` and holds no ``=``; sorted by code point.
        """
        return [
            key
            for key in self.all_keys(bucket, prefix)
            if not any(map(is_hidden, key[len(prefix) :].split("/")))
        ]


class S3View(BucketView):
    """An S3 endpoint, seen by plain botocore."""

    scheme = "s3"

    def __init__(self, *, access_key: str, secret_key: str, region: str) -> None:
        self.access_key = access_key
        self.secret_key = secret_key
        self.region = region
        self._clients: dict[tuple[str, str, int], Any] = {}

    def storage_options(self) -> dict[str, Any]:
        """Return the arguments with which ``s3fs.S3FileSystem`` reaches this server."""
        return {
            "key": self.access_key,
            "secret": self.secret_key,
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": self.region},
        }

    def plain_options(self, endpoint: str) -> dict[str, Any]:
        # s3fs keeps an instance for the same options, with the credentials it once found for them.
        own = {"user_agent_extra": "magicfs-tests"}
        return {"endpoint_url": endpoint, "client_kwargs": {"region_name": self.region}, "config_kwargs": own}

    def environment(self) -> dict[str, str]:
        reach = {"AWS_DEFAULT_REGION": self.region, "FSSPEC_S3_ENDPOINT_URL": self.endpoint}
        return self.credentials() | reach

    def credentials(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def s3_client(
        self, *, endpoint: str | None = None, secret_key: str | None = None, attempts: int = 3
    ) -> Any:
        """Return a botocore S3 client, path-style, that ignores proxies of the environment.

        Args:
            endpoint: Another way to this server, such as a fault proxy.
            secret_key: Another secret, to see it refused.
            attempts: How often a request is sent at most; 1 means that nothing is repeated.

        Returns:
            The same client for the same arguments. It may be used by several threads, and is closed
            with the server.
        """
        key = (endpoint or self.endpoint, secret_key or self.secret_key, attempts)
        if key not in self._clients:
            self._clients[key] = self._new_client(*key)
        return self._clients[key]

    def close_clients(self) -> None:
        while self._clients:
            self._clients.popitem()[1].close()

    def create_bucket(self, name: str, **resource: Any) -> str:
        self.s3_client().create_bucket(Bucket=name, **resource)
        return name

    def remove_bucket(self, name: str) -> None:
        client = self.s3_client()
        for key, upload_id in self.uploads(name):
            self.abort_upload(name, key, upload_id)
        keys = self.all_keys(name)
        for start in range(0, len(keys), _DELETE_BATCH):
            batch = [{"Key": key} for key in keys[start : start + _DELETE_BATCH]]
            client.delete_objects(Bucket=name, Delete={"Objects": batch, "Quiet": True})
        self.forget_versions(name)
        client.delete_bucket(Bucket=name)

    def keep_versions(self, bucket: str, status: str = "Enabled") -> None:
        """Let a bucket keep versions; with ``Suspended`` no further ones."""
        self.s3_client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})

    def versions(self, bucket: str, prefix: str = "") -> list[tuple[str, str, bool]]:
        """Return key, id, and whether it is a marker, of all versions of a bucket that keeps some, sorted."""
        pages = self.s3_client().get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=prefix)
        return sorted(
            (one["Key"], one["VersionId"], kind == "DeleteMarkers")
            for page in pages
            for kind in ("Versions", "DeleteMarkers")
            for one in page.get(kind, ())
        )

    def read_version(self, bucket: str, key: str, version: str) -> bytes:
        """The body of a version that is there."""
        body: bytes = self.s3_client().get_object(Bucket=bucket, Key=key, VersionId=version)["Body"].read()
        return body

    def forget_versions(self, bucket: str) -> None:
        """Delete everything in a bucket that keeps versions, for good; of others nothing."""
        client = self.s3_client()
        if not client.get_bucket_versioning(Bucket=bucket).get("Status"):
            return
        for key, version, _ in self.versions(bucket):
            client.delete_object(Bucket=bucket, Key=key, VersionId=version)

    def uploads(self, bucket: str, prefix: str = "") -> set[tuple[str, str]]:
        return {(one["Key"], one["UploadId"]) for one in self.pending_uploads(bucket, prefix)}

    def read(self, bucket: str, key: str) -> bytes | None:
        from botocore.exceptions import ClientError

        try:
            body: bytes = self.s3_client().get_object(Bucket=bucket, Key=key)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise
            return None
        return body

    def metadata(self, bucket: str, key: str) -> dict[str, str]:
        found = self.s3_client().head_object(Bucket=bucket, Key=key)["Metadata"]
        return {name.lower(): value for name, value in found.items()}

    def write(self, bucket: str, key: str, body: bytes) -> None:
        self.s3_client().put_object(Bucket=bucket, Key=key, Body=body)

    def open_upload(self, bucket: str, key: str) -> str:
        return str(self.s3_client().create_multipart_upload(Bucket=bucket, Key=key)["UploadId"])

    def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        self.s3_client().abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)

    def all_keys(self, bucket: str, prefix: str = "") -> list[str]:
        pages = self.s3_client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return sorted(entry["Key"] for page in pages for entry in page.get("Contents", ()))

    def pending_uploads(self, bucket: str, prefix: str = "") -> list[dict[str, Any]]:
        """Return the open multipart uploads whose key begins with ``prefix``, sorted by key and upload id.

        Each is what ``ListMultipartUploads`` says of it: ``Key``, ``UploadId``, ``Initiated`` and more.
        """
        client = self.s3_client()
        found: dict[tuple[str, str], dict[str, Any]] = {}
        markers: dict[str, str] = {}
        while True:
            page = client.list_multipart_uploads(Bucket=bucket, Prefix=prefix, **markers)
            uploads = page.get("Uploads", [])
            known = len(found)
            found.update({(upload["Key"], upload["UploadId"]): upload for upload in uploads})
            # Some servers say "truncated" and give no marker, or ignore it and give the same page again.
            if not page.get("IsTruncated") or len(found) == known:
                break
            markers = {
                "KeyMarker": page.get("NextKeyMarker") or uploads[-1]["Key"],
                "UploadIdMarker": page.get("NextUploadIdMarker") or uploads[-1]["UploadId"],
            }
        return [found[identity] for identity in sorted(found) if identity[0].startswith(prefix)]

    def _new_client(self, endpoint: str, secret_key: str, attempts: int) -> Any:
        import botocore.session
        from botocore.config import Config

        config = Config(
            signature_version="s3v4",
            s3={"addressing_style": "path"},
            proxies={},
            connect_timeout=5,
            read_timeout=60,
            max_pool_connections=32,
            retries={"mode": "standard", "total_max_attempts": attempts},
        )
        return botocore.session.Session().create_client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=secret_key,
            region_name=self.region,
            config=config,
        )


def is_hidden(element: str) -> bool:
    """Whether readers skip what has such an element in its path."""
    # Spark's rule, apart from the code under test.
    return element.startswith(".") or (element.startswith("_") and "=" not in element)
