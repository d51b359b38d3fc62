"""The manifest of one job, for what looks at more than its files."""

from __future__ import annotations

from typing import Any

from magicfs.datasets.connection import open_destination
from magicfs.datasets.read import read_manifest_of
from magicfs.formats.manifest import Manifest

__all__ = ["published_manifest"]


def published_manifest(url: str, job: str | None = None, **way: Any) -> Manifest:
    """What a job published, by default the last one."""
    return open_destination(url, for_reading=True, **way).run(read_manifest_of, job)
