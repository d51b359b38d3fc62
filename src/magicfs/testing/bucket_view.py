"""What an S3 server holds, seen by plain botocore: the witness of tests, independent of magicfs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["BucketView"]


class BucketView(ABC):
    """Clients of one S3 endpoint and the questions that tests ask about its buckets."""

    def __init__(self, *, access_key: str, secret_key: str, region: str) -> None:
        self.access_key = access_key
        self.secret_key = secret_key
        self.region = region
        self._clients: dict[tuple[str, str, int], Any] = {}

    @property
    @abstractmethod
    def endpoint(self) -> str:
        """The URL that S3 clients are given."""

    def storage_options(self) -> dict[str, Any]:
        """Return the arguments with which ``s3fs.S3FileSystem`` reaches this server."""
        return {
            "key": self.access_key,
            "secret": self.secret_key,
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": self.region},
        }

    def environment(self) -> dict[str, str]:
        """Return the environment in which a program without options reaches this server."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_DEFAULT_REGION": self.region,
            "FSSPEC_S3_ENDPOINT_URL": self.endpoint,
        }

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
        """Close every client that :meth:`s3_client` returned."""
        while self._clients:
            self._clients.popitem()[1].close()

    def create_bucket(self, name: str) -> str:
        """Create a bucket and return its name."""
        self.s3_client().create_bucket(Bucket=name)
        return name

    def all_keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return every key that begins with ``prefix``, sorted by code point."""
        pages = self.s3_client().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return sorted(entry["Key"] for page in pages for entry in page.get("Contents", ()))

    def visible_keys(self, bucket: str, prefix: str = "") -> list[str]:
        """Return the keys that engines take for data.

        These are the keys under ``prefix`` none of whose elements after the prefix begins with ``.``, or
        with ``_`` and holds no ``=``; sorted by code point.
        """
        return [
            key
            for key in self.all_keys(bucket, prefix)
            if not any(map(_is_hidden, key[len(prefix) :].split("/")))
        ]

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


def _is_hidden(element: str) -> bool:
    # Spark's rule, apart from the code under test.
    return element.startswith(".") or (element.startswith("_") and "=" not in element)
