"""Jobs that ask for a seal are driven, and brought to an end, by processes that have the key."""

from __future__ import annotations

from typing import Final

from magicfs.errors import UsageError
from magicfs.formats.job_object import JobObject
from magicfs.seal.store import SealedStore, has_keys, ring_of
from magicfs.transaction.context import JobContext
from magicfs.transaction.extension import Extension, Prepared

_GIVE: Final = (
    "call magicfs.seal.use with the URL and the key before the job is made; a command takes them from "
    "MAGICFS_CONNECT_SEAL"
)


class Sealed(Extension):
    """Refuses a job of a dataset whose key this process does not have."""

    def __init__(self) -> None:
        # Also where the files of a job past its commit point would become visible.
        if not has_keys():
            raise UsageError(
                f"this job must be sealed, and this process has no key; nothing was changed; {_GIVE}"
            )

    def at_setup(self, context: JobContext, job: JobObject) -> None:
        _refuse(context, job.bucket)

    def at_commit(self, context: JobContext, job: JobObject, driver: str | None) -> None:  # noqa: ARG002
        _refuse(context, job.bucket)

    async def on_output(self, job: Prepared) -> None:
        store: object = job.engine.store
        while store is not None and not isinstance(store, SealedStore):
            store = getattr(store, "inner", None)
        if store is None:
            raise UsageError(f"job {job.context.job} was made before the key was given; {_GIVE}")


def _refuse(context: JobContext, bucket: str) -> None:
    if ring_of(bucket, context.layout.destination) is None:
        raise UsageError(
            f"job {context.job} must be sealed, and this process has no key of {context.url}; nothing was "
            f"changed; {_GIVE}"
        )
