"""A reader of the log of publications that knows nothing of magicfs: it tells of all that was published."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from proofs.crash.history import document_of, newest

__all__ = ["log_problem"]


def log_problem(objects: Mapping[str, Any], destination: str, jobs: list[str]) -> str:
    """What is wrong with the log that the pointer names; empty if nothing is, or it names none.

    ``jobs``: those of the chain, sums among them, the newest first.
    """
    pointer = newest(objects, f"{destination}/_magicfs/current")
    if pointer is None or "log" not in document_of(pointer.body):
        return ""
    named = document_of(pointer.body)
    try:
        log = _read(objects, destination, named["log"])
        logged = _jobs(objects, destination, log)
        if log["newest"] not in jobs:
            return f"the log goes up to {log['newest']}, which is not in the chain"
        below = jobs[jobs.index(log["newest"]) :]
        expected = [_manifest(objects, destination, one) for one in below]
        expected = [one for one in expected if one["mode"] != "compact"]
        if [one["jobId"] for one in expected] != [one["jobId"] for one in reversed(logged)]:
            return f"the log tells of {len(logged)} jobs, and the chain has {len(expected)}, or others"
        for one in [*expected, *(_manifest(objects, destination, job) for job in jobs)]:
            if one["runId"] is not None and not _knows(objects, destination, named, log, one["runId"]):
                return f"run {one['runId']} of job {one['jobId']} is forgotten"
    except LookupError as error:
        return f"the log misses {error}"
    return ""


def _read(objects: Mapping[str, Any], destination: str, named: Mapping[str, Any]) -> Any:
    body = objects[f"{destination}/_magicfs/{named['jobId']}/{named['name']}"].body
    if hashlib.sha256(body).hexdigest() != named["sha256"]:
        raise LookupError(f"{named['name']}, which is another one")
    return document_of(body)


def _jobs(objects: Mapping[str, Any], destination: str, part: Any) -> list[Any]:
    """The oldest first."""
    below = [_jobs(objects, destination, _read(objects, destination, one)) for one in part["parts"]]
    return [*(job for jobs in below for job in jobs), *part["publications"]]


def _manifest(objects: Mapping[str, Any], destination: str, job: str) -> Any:
    found = newest(objects, f"{destination}/_magicfs/{job}")
    if found is None:
        raise LookupError(f"the manifest of {job}")
    return document_of(found.body)


def _knows(objects: Mapping[str, Any], destination: str, pointer: Any, log: Any, run: str) -> bool:
    named = [name for name, _ in pointer["runs"]] + [one.get("runId") for one in log["publications"]]
    if run in named or pointer.get("forgottenRuns"):
        return True
    for names in log["names"]:
        count = len(names["sha256"])
        number = int.from_bytes(hashlib.sha256(run.encode()).digest()[:8]) * count >> 64
        sha256 = names["sha256"][number]
        file = {"jobId": names["jobId"], "name": f"names-{number:05d}-{sha256[:16]}.json", "sha256": sha256}
        if run in [name for name, _ in _read(objects, destination, file)["runs"]]:
            return True
    return False
