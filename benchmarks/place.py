"""Where a side works: one bucket of one server."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from magicfs.testing.servers import Server

__all__ = ["CONCURRENCY", "PART_BYTES", "Place"]

CONCURRENCY = 32
"""Most requests at once, on every side that can be told."""

PART_BYTES = 8 * 2**20
"""The size of a part, on every side that can be told."""


@dataclass(frozen=True, slots=True)
class Place:
    """Endpoint, credentials and bucket."""

    endpoint: str
    key: str
    secret: str
    region: str
    bucket: str
    server: int  # its process

    @classmethod
    def of(cls, server: Server, bucket: str) -> Self:
        """A bucket of a running server."""
        return cls(server.endpoint, server.access_key, server.secret_key, server.region, bucket, server.pid)

    def to_dict(self) -> dict[str, Any]:
        """As it travels to another process."""
        return asdict(self)

    @property
    def s3fs_options(self) -> dict[str, Any]:
        """The arguments of ``s3fs.S3FileSystem``."""
        return {
            "key": self.key,
            "secret": self.secret,
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": self.region},
            "config_kwargs": {"max_pool_connections": CONCURRENCY},
        }

    @property
    def client_options(self) -> dict[str, Any]:
        """The arguments of a client of boto3 or aiobotocore, but its configuration."""
        return {
            "endpoint_url": self.endpoint,
            "aws_access_key_id": self.key,
            "aws_secret_access_key": self.secret,
            "region_name": self.region,
        }
