"""Where a run writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from benchmarks.place import Keys

__all__ = ["Place"]


@dataclass(frozen=True)
class Place(Keys):
    """A prefix of a bucket on an S3 server, and the keys to it."""

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
        return self.s3fs_options

    def dump(self) -> str:
        """As text, for ``load`` in another process."""
        return json.dumps(self.to_dict())

    @classmethod
    def load(cls, text: str) -> Place:
        return cls(**json.loads(text))
