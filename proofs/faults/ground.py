"""The bucket of a run, and what lies in it afterwards, seen past every writer: by plain boto3 and pyarrow."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from proofs.doubles.servers import Server
from proofs.faults.rows import NEW_IDS

__all__ = ["Found", "objects", "readable_ids", "seen"]


@dataclass(frozen=True)
class Found:
    """What a reader of the prefix finds, who skips names that begin with ``_`` or a dot."""

    old_files: int  # data files as they were before
    new_files: int  # other data files
    old_rows: int
    new_rows: int
    unreadable: int  # data files that are no Parquet
    uploads: int  # open multipart uploads below the prefix

    def figures(self) -> dict[str, int]:
        """Plain values, ready for JSON."""
        return {
            "old_files_left": self.old_files,
            "new_files_shown": self.new_files,
            "old_rows_readable": self.old_rows,
            "new_rows_shown": self.new_rows,
            "unreadable_files": self.unreadable,
            "uploads_left": self.uploads,
        }


def objects(server: Server, bucket: str, prefix: str) -> dict[str, str]:
    """The data files below a prefix, with their ETags; a directory's own marker is none."""
    client = server.s3_client()
    found: dict[str, str] = {}
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{prefix}/"):
        for one in page.get("Contents", []):
            elements = one["Key"].removeprefix(f"{prefix}/").split("/")
            if elements[-1] and not any(element.startswith(("_", ".")) for element in elements):
                found[one["Key"]] = one["ETag"]
    return found


def seen(server: Server, bucket: str, prefix: str, before: dict[str, str]) -> Found:
    """What is there now. ``before``: what ``objects`` said before the run."""
    now = objects(server, bucket, prefix)
    ids: list[int] = []
    unreadable = 0
    for key in now:
        try:
            ids += readable_ids(server.read(bucket, key) or b"")
        except Exception:  # noqa: BLE001 - whatever is wrong with it, a reader cannot read it
            unreadable += 1
    old = {key for key, etag in now.items() if before.get(key) == etag}
    return Found(
        old_files=len(old),
        new_files=len(now) - len(old),
        old_rows=len({one for one in ids if one < NEW_IDS}),
        new_rows=len({one for one in ids if one >= NEW_IDS}),
        unreadable=unreadable,
        uploads=len(server.pending_uploads(bucket, f"{prefix}/")),
    )


def readable_ids(body: bytes) -> list[int]:
    """The ids in a file of Parquet."""
    ids: list[Any] = pq.read_table(io.BytesIO(body), columns=["id"])["id"].to_pylist()
    return ids
