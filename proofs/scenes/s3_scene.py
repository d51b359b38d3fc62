"""A bucket on a test server with ``MagicFileSystem`` around s3fs: for tests of writers.

The bucket is seen through plain botocore, so nothing of magicfs vouches for itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, TypeVar

from fsspec.asyn import sync
from s3fs import S3FileSystem

from magicfs.filesystem import MagicFileSystem
from magicfs.protocol.magic import PENDING
from proofs.doubles.servers import Server

__all__ = ["S3Scene"]

_T = TypeVar("_T")


class S3Scene:
    """One bucket, the filesystem that a test writes through, and what lies in the bucket.

    Args:
        server: A running server.
        bucket: An existing bucket, empty when the test begins.
        endpoint: Another way to the server, such as a fault proxy.
        **options: Of ``MagicFileSystem``.
    """

    def __init__(self, server: Server, bucket: str, endpoint: str | None = None, **options: Any) -> None:
        self.server = server
        self.bucket = bucket
        self.storage_options = server.storage_options() | {"endpoint_url": endpoint or server.endpoint}
        self.wrapped = S3FileSystem(**self.storage_options, skip_instance_cache=True)
        self.filesystem = MagicFileSystem(self.wrapped, **options)
        self.client = server.s3_client()

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the filesystem's loop."""
        result: _T = sync(self.filesystem.loop, lambda: coroutine)
        return result

    def settle(self) -> None:
        """Wait for everything that runs on the loop, such as the abort of a file that was collected."""
        self.run(_others())

    def put(self, key: str, body: bytes = b"", **metadata: str) -> None:
        """Write an object past every filesystem."""
        self.client.put_object(Bucket=self.bucket, Key=key, Body=body, Metadata=metadata)

    def get(self, key: str) -> bytes:
        """Read an object past every filesystem."""
        body: bytes = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        return body

    def objects(self) -> dict[str, bytes]:
        """Every object of the bucket, work objects included, by key."""
        return {key: self.get(key) for key in self.server.all_keys(self.bucket)}

    def uploads(self) -> list[str]:
        """The final keys of all pending uploads, sorted."""
        return [upload["Key"] for upload in self.server.pending_uploads(self.bucket)]

    def publish(self) -> dict[str, bytes]:
        """Complete what the ``.pending`` files describe, as a job commit would; what became visible."""
        published = {}
        for key, body in self.objects().items():
            if not key.endswith(PENDING):
                continue
            pending = json.loads(body)
            parts = [
                {"PartNumber": number, "ETag": etag} for number, etag in enumerate(pending["etags"], start=1)
            ]
            final = pending["destinationKey"]
            self.client.complete_multipart_upload(
                Bucket=pending["bucket"],
                Key=final,
                UploadId=pending["uploadId"],
                MultipartUpload={"Parts": parts},
            )
            published[final] = self.get(final)
        return published


async def _others() -> None:
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)
