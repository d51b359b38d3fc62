from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from magicfs.formats.job_object import (
    Chunk,
    JobObject,
    SeenPointer,
)
from magicfs.formats.job_options import JobOptions
from magicfs.protocol.ids import JobId
from magicfs.protocol.job_state import JobState

PATH = "b/d/__magic_job-j/job-j/job.json"
DOCUMENT = Path(__file__).parents[3] / "docs" / "job-object.md"
SHA = "0123456789abcdef" * 4
LEAST: dict[str, Any] = {
    "format": JobObject.FORMAT,
    "jobId": "j",
    "bucket": "b",
    "state": "open",
    "nonce": "n",
    "driver": "x",
    "options": {"committer": "magic", "mode": "append"},
    "chunks": [],
    "deletions": [],
}


def read(**changes: Any) -> JobObject:
    document = {name: value for name, value in (LEAST | changes).items() if value is not ...}
    return JobObject.from_bytes(PATH, json.dumps(document).encode())


def least() -> JobObject:
    return JobObject(
        job_id=JobId("j"),
        bucket="b",
        destination="",
        state=JobState.OPEN,
        nonce="n",
        driver="x",
        options=JobOptions(committer="magic", mode="append"),
    )


def test_the_least_that_is_needed() -> None:
    assert read() == least()


def test_document_describes_every_field() -> None:
    described = set(re.findall(r"^\| `(\w+)` \|", DOCUMENT.read_text(), re.MULTILINE))
    written = json.loads(
        replace(least(), pointer=SeenPointer("i", "e"), chunks=(Chunk("k", SHA, 1, 1),)).to_bytes()
    )
    assert set(written) <= described
    assert set(written["chunks"][0]) <= described
