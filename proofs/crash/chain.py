"""A reader of manifests that knows nothing of magicfs: what the pointer and the chain behind it promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from proofs.crash.history import document_of, newest
from proofs.crash.log import log_problem

__all__ = ["View", "read_chain"]


@dataclass(slots=True)
class View:
    """What a reader of the chain sees.

    Attributes:
        head: The job that the pointer names; None without a pointer.
        files: ETags by keys.
        newest: Of the head's own manifest the same.
        jobs: The jobs that are linked, the newest first; those that a sum stands for behind it.
        problem: Why it cannot be read; empty if it can.
    """

    head: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    newest: dict[str, str] = field(default_factory=dict)
    jobs: list[str] = field(default_factory=list)
    problem: str = ""


def read_chain(objects: Mapping[str, Any], destination: str) -> View:
    """Follow the pointer: every manifest adds its files, and hides what it says of the older ones."""
    pointer = newest(objects, f"{destination}/_magicfs/current")
    if pointer is None:
        return View()
    view = View(head=document_of(pointer.body)["jobId"])
    job, stops, hidden = view.head, set[str](), set[str]()
    while job is not None and job not in stops:
        if job in view.jobs:
            view.problem = f"the chain leads back to {job}"
            return view
        view.jobs.append(job)
        found = newest(objects, f"{destination}/_magicfs/{job}")
        if found is None:
            view.problem = f"the manifest of {job} is missing"
            return view
        manifest = document_of(found.body)
        if manifest["mode"] == "compact" and stops:
            # A newer job hides some of what is summed up, and joined the chain above the sum.
            job = manifest["previous"]
            continue
        files = {f"{destination}/{one['key']}": one["etag"] for one in manifest["files"]}
        if job == view.head:
            view.newest = files
        for key, etag in files.items():
            if key not in hidden:
                view.files.setdefault(key, etag)
        if manifest["hides"] == "all" and manifest.get("replaced"):
            stops.add(manifest["replaced"])
        if manifest["mode"] == "compact":
            view.jobs += _summed(objects, destination, manifest)
        if manifest["hides"] == "keys":
            hidden |= {f"{destination}/{key}" for key in manifest["deleted"]}
        job = manifest.get("previous")
    view.problem = _problem_of_log(objects, destination, view.jobs[0])
    return view


def _problem_of_log(objects: Mapping[str, Any], destination: str, head: str) -> str:
    manifest = newest(objects, f"{destination}/_magicfs/{head}")
    assert manifest is not None
    jobs = [head, *_summed(objects, destination, document_of(manifest.body))]
    return log_problem(objects, destination, jobs)


def _summed(objects: Mapping[str, Any], destination: str, manifest: Any) -> list[str]:
    """The jobs below a sum, as far as their manifests are there."""
    jobs: list[str] = []
    job = manifest.get("previous")
    while job is not None and (found := newest(objects, f"{destination}/_magicfs/{job}")) is not None:
        jobs.append(job)
        job = document_of(found.body).get("previous")
    return jobs
