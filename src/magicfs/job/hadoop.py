"""A job that a JVM of Hadoop could commit: what follows from its release, and what it could not carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from magicfs.committers.options import StagingOptions
from magicfs.errors import UsageError
from magicfs.formats.job_options import Hadoop
from magicfs.protocol.hadoop_release import HadoopRelease

if TYPE_CHECKING:
    from magicfs.job.spec import JobSpec
    from magicfs.stores.port import Store

__all__ = ["check_hadoop", "check_hadoops_store", "settled"]

_STAGED: Final = frozenset({"directory", "partitioned"})
_RENAMED: Final = frozenset({"manifest", "file"})
_S3AS: Final = frozenset({"s3", "memory"})


def settled(hadoop: str | None, committer: str) -> Hadoop:
    """In which form a job leaves its files.

    Raises UsageError for what is no release, or a committer that Hadoop does not have.
    """
    if hadoop is None:
        return Hadoop()
    release = HadoopRelease.of(hadoop)
    known = {"magic", *_STAGED, *_RENAMED}
    if committer not in known:
        raise UsageError(
            f"Hadoop has no committer={committer!r} that could end the job; use one of "
            f"{', '.join(sorted(known))}, or leave hadoop out"
        )
    if committer in _RENAMED:
        return Hadoop()
    # The sets of a staging committer are in the cluster directory.
    return Hadoop(layout=release.layout, etag_format=release.etag_format, sets=committer == "magic")


def check_hadoop(spec: JobSpec) -> None:
    """Raise UsageError for what a job commit by the Hadoop that the job names would lose."""
    if spec.hadoop is None:
        return
    for name, why in _reasons(spec).items():
        if why:
            instead = "use tracking='store', or leave hadoop out" if name == "tracking" else ""
            raise UsageError(f"{_begin(spec)}{why}; {instead or f'leave {name} or hadoop out'}")


def check_hadoops_store(spec: JobSpec, store: Store) -> None:
    """Raise UsageError for a store, or a way to it, on which that Hadoop could not end the job."""
    if spec.hadoop is None or spec.options.committer in _RENAMED:
        return
    begin = _begin(spec)
    if store.name not in _S3AS:
        raise UsageError(
            f"{begin}committer={spec.options.committer!r} of Hadoop is S3A's and knows S3 alone, not the "
            f"store {store.name!r}; leave hadoop out"
        )
    options = spec.committer_options
    if isinstance(options, StagingOptions) and options.cluster_directory is None:
        raise UsageError(
            f"{begin}committer={spec.options.committer!r} of Hadoop looks for pending sets in the cluster's "
            "filesystem; give committer_options={'cluster_directory': …}, its "
            "fs.s3a.committer.staging.tmp.path"
        )
    HadoopRelease.of(spec.hadoop).check_checksum(store.capabilities.checksums.of_parts)


def _begin(spec: JobSpec) -> str:
    return f"hadoop={spec.hadoop!r} lets a JVM of Hadoop commit the job, and "


def _reasons(spec: JobSpec) -> dict[str, str]:
    """By argument what a JVM's job commit would not do; empty where the job does not ask for it."""
    return {
        "tracking": "it knows nothing of uploads that are in the memory of a task (tracking='memory')"
        if spec.options.tracking == "memory"
        else "",
        "small_files": "it knows only uploads, not bodies of small files" if spec.options.small_files else "",
        "conflict": f"it replaces nothing, so that conflict={spec.options.conflict!r} would leave the old "
        "files"
        if spec.options.conflict.startswith("replace")
        else "",
        "run_id": "it writes down no run_id, so that the same run would be published again"
        if spec.options.run_id is not None
        else "",
        "extra_destinations": "its job abort discards uploads below the destination alone"
        if spec.options.places.extra
        else "",
    }
