"""Where a side works: one bucket of one server."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from proofs.doubles.servers import Server

__all__ = ["CONCURRENCY", "PART_BYTES", "Keys", "Place"]

CONCURRENCY = 32
"""Most requests at once, on every side that can be told."""

PART_BYTES = 8 * 2**20
"""The size of a part, on every side that can be told."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Endpoint, credentials and bucket, in the words of each client."""

    endpoint: str
    key: str
    secret: str
    region: str
    bucket: str
    certificates: str = field(default="", kw_only=True)  # a file of whom to trust

    @property
    def environment(self) -> dict[str, str]:
        """What tells clients of Python, Rust and Go whom to trust."""
        trusted = self.certificates
        return {"SSL_CERT_FILE": trusted, "AWS_CA_BUNDLE": trusted} if trusted else {}

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

    @property
    def object_store(self) -> dict[str, str]:
        """Options of the clients in Rust: Polars, deltalake."""
        return {
            "aws_access_key_id": self.key,
            "aws_secret_access_key": self.secret,
            "aws_region": self.region,
            "aws_endpoint_url": self.endpoint,
            "aws_allow_http": "true",
            "aws_virtual_hosted_style_request": "false",
        }

    def arrow(self, **options: Any) -> Any:
        """The filesystem that pyarrow has itself."""
        from pyarrow.fs import S3FileSystem

        address = urlsplit(self.endpoint)
        return S3FileSystem(
            access_key=self.key,
            secret_key=self.secret,
            region=self.region,
            scheme=address.scheme,
            endpoint_override=address.netloc,
            tls_ca_file_path=self.certificates or None,
            **options,
        )


@dataclass(frozen=True, slots=True)
class Place(Keys):
    """A bucket for the sides of a benchmark."""

    server: int  # its process

    @classmethod
    def of(cls, server: Server, bucket: str) -> Self:
        """A bucket of a running server."""
        return cls(server.endpoint, server.access_key, server.secret_key, server.region, bucket, server.pid)

    @property
    def s3fs_options(self) -> dict[str, Any]:
        """The arguments of ``s3fs.S3FileSystem``, as many connections as requests at once."""
        # Of a class with slots, super() without arguments knows the one without.
        found = super(Place, self).s3fs_options
        return found | {"config_kwargs": {"max_pool_connections": CONCURRENCY}}
