"""Where a run writes, in the words of each client."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Place"]


@dataclass(frozen=True)
class Place:
    """A prefix of a bucket on an S3 server, and the keys to it."""

    endpoint: str
    key: str
    secret: str
    region: str
    bucket: str
    prefix: str

    @property
    def path(self) -> str:
        """The destination without a scheme."""
        return f"{self.bucket}/{self.prefix}"

    @property
    def url(self) -> str:
        """The destination."""
        return f"s3://{self.path}"

    @property
    def storage_options(self) -> dict[str, Any]:
        """Options of s3fs."""
        return {
            "key": self.key,
            "secret": self.secret,
            "endpoint_url": self.endpoint,
            "client_kwargs": {"region_name": self.region},
        }

    @property
    def object_store(self) -> dict[str, str]:
        """Options of the clients in Rust."""
        return {
            "aws_access_key_id": self.key,
            "aws_secret_access_key": self.secret,
            "aws_region": self.region,
            "aws_endpoint_url": self.endpoint,
            "aws_allow_http": "true",
            "aws_virtual_hosted_style_request": "false",
        }

    def dump(self) -> str:
        """As text, for ``load`` in another process."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> Place:
        return cls(**json.loads(text))
