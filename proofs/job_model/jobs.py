"""The jobs of the scenes, as their processes know them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, cast

from magicfs.committers.magic import MagicCommitter
from magicfs.committers.renaming.base import RenamingCommitter
from magicfs.committers.renaming.file import FileCommitter
from magicfs.committers.renaming.manifest import ManifestCommitter
from magicfs.engine import Engine
from magicfs.formats.job_options import JobOptions
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.modes import WriteMode
from magicfs.protocol.paths import Location
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.port import Body, ObjectInfo
from magicfs.transaction.context import JobContext
from proofs.crash.snapshots import BUCKET
from proofs.job_model import world as model

__all__ = ["DESTINATION", "AnyCommitter", "Listening", "Way", "committer_of", "context_of", "destination_of"]

DESTINATION: Final = "sales"
Way = Literal["completes", "manifest", "file", "copies"]
"""How files become visible: the last three are work files."""
AnyCommitter = MagicCommitter | RenamingCommitter


def destination_of(job: str) -> str:
    """Where a job publishes."""
    return f"{DESTINATION}/inner #1" if job == model.CHILD else DESTINATION


def context_of(destination: str, job: JobId, mode: str, attempt: int = 0) -> JobContext:
    """A job as its processes know it."""
    return JobContext(
        url=Location("memory", BUCKET, destination).url,
        layout=WorkLayout(destination, job, attempt, "__magic_job"),
        options=JobOptions(committer="magic", mode=cast("WriteMode", mode)),
    )


class Listening(DelegatingStore):
    """Keeps the first object that is written through it: ``first`` is its key, its body and its metadata."""

    first: tuple[str, Body, Mapping[str, str] | None] = ("", b"", None)

    async def put(
        self, key: str, body: Body, *, metadata: Mapping[str, str] | None = None, **condition: Any
    ) -> ObjectInfo:
        if not self.first[0]:
            self.first = (key, body, metadata)
        return await super().put(key, body, metadata=metadata, **condition)


def committer_of(context: JobContext, engine: Engine, way: Way) -> AnyCommitter:
    """The committer of a job, in one process."""
    match way:
        case "completes":
            return MagicCommitter(context, engine)
        case "manifest":
            return ManifestCommitter(context.asked(committer="manifest"), engine)
    return FileCommitter(context.asked(committer="file"), engine)
