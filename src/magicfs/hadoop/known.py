"""Hadoop's options of committers: which there are, which have one value here, and which are ignored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from magicfs.protocol.hadoop_release import HadoopRelease

S3A: Final = "fs.s3a.committer."
STAGING: Final = f"{S3A}staging."
FILE: Final = "mapreduce.fileoutputcommitter."
MANIFEST: Final = "mapreduce.manifest.committer."
SCHEME_FACTORY: Final = "mapreduce.outputcommitter.factory.scheme."
PREFIXES: Final = (S3A, FILE, MANIFEST)
OF_BUCKET: Final = re.compile(r"fs\.s3a\.bucket\.(.+?)\.(committer\..*|multipart\..*|buffer\.dir)")
"""Options of committers for one bucket, if that is not known otherwise."""

STAGED: Final = frozenset({"directory", "partitioned"})
_MAGIC: Final = frozenset({"magic"})
S3AS: Final = STAGED | _MAGIC
_ALL: Final = S3AS | {"file", "manifest"}

MANIFEST_OPTIONS: Final = (
    *("validate.output", "delete.target.files", "cleanup.parallel.delete"),
    *("cleanup.parallel.delete.base.first", "summary.report.directory", "diagnostics.manifest.directory"),
    "writer.queue.capacity",
)

OF_FILESYSTEM: Final = frozenset(
    {
        "fs.s3a.multipart.size",
        "fs.s3a.multipart.uploads.enabled",
        f"{S3A}magic.enabled",
        f"{S3A}magic.track.commits.in.memory.enabled",
    }
)
"""What S3A's filesystem reads, to which options of its bucket count. Its committers read all else from the
job's configuration, to which they do not."""

OF_OBJECTS: Final = re.compile(
    r"fs\.s3a\.(encryption\..*|server-side-encryption.*|acl\.default|create\.storage\.class|create\.header\..*"
    r"|create\.checksum\.algorithm|object\.content\.encoding)"
)
"""What S3A's objects bear."""

IGNORED: Final[Mapping[str, str]] = {
    f"{S3A}abort.pending.uploads": "a job discards only its own uploads",
    f"{STAGING}abort.pending.uploads": "a job discards only its own uploads",
    f"{S3A}uuid.source": "the origin of a job's id is not recorded",
    f"{S3A}experimental.collect.iostatistics": "statistics are always collected",
    f"{S3A}generate.uuid": "every job has an id",
    f"{S3A}magic.cleanup.enabled": "a job removes its work at its end",
    "fs.s3a.multipart.purge": "a job discards only its own uploads; magicfs uploads finds others",
    "fs.s3a.multipart.purge.age": "a job discards only its own uploads; magicfs uploads finds others",
    f"{MANIFEST}store.operations.classname": "the store says how it renames",
}

FIXED: Final[Mapping[str, tuple[str, frozenset[str], str]]] = {
    f"{FILE}failures.attempts": ("1", _ALL, "a job commit may be called again"),
    f"{FILE}task.cleanup.enabled": ("false", _ALL, "the work of tasks is removed at the end of the job"),
    f"{FILE}cleanup.skipped": ("false", _ALL - {"manifest"}, "a job removes its work at its end"),
    f"{FILE}cleanup-failures.ignored": (
        "false",
        frozenset({"file"}),
        "only the manifest committer has it; those with a job object need it not",
    ),
    f"{S3A}magic.enabled": ("true", _MAGIC, "a magic committer needs a filesystem that delays writes"),
    f"{S3A}summary.report.directory": ("", S3AS, "job.report is the report; keep it where you like"),
    "fs.s3a.multipart.uploads.enabled": ("true", S3AS, "its files are multipart uploads"),
}
"""Options with one possible value for some committers, and why."""

_KNOWN: Final = (
    IGNORED.keys()
    | FIXED.keys()
    | {f"{S3A}{name}" for name in ("name", "threads", "uuid", "require.uuid")}
    | {f"{S3A}magic.track.commits.in.memory.enabled", f"{FILE}algorithm.version"}
    | {f"{FILE}marksuccessfuljobs"}
    | {f"{STAGING}{name}" for name in ("conflict-mode", "unique-filenames", "tmp.path")}
    | {f"{MANIFEST}{name}" for name in ("io.threads", "manifest.save.attempts", *MANIFEST_OPTIONS)}
)


def is_known(name: str) -> bool:
    """Whether Hadoop has an option of this name, if it is one of committers by its beginning."""
    return name in _KNOWN or not name.startswith(PREFIXES)


_DEFAULTS: Final[Mapping[str, str]] = {
    f"{S3A}name": "file",
    f"{S3A}threads": "8",
    f"{STAGING}conflict-mode": "append",
    f"{STAGING}unique-filenames": "true",
    f"{STAGING}tmp.path": "tmp/staging",
    "fs.s3a.multipart.size": "64M",
    "fs.s3a.buffer.dir": "${env.LOCAL_DIRS:-${hadoop.tmp.dir}}/s3a",
    "hadoop.tmp.dir": "/tmp/hadoop-${user.name}",  # noqa: S108 - Hadoop's own
}
_BUFFER_BEFORE_3_3_5: Final = "${hadoop.tmp.dir}/s3a"
_MANIFEST_BY_SCHEME: Final[Mapping[str, str]] = {
    f"{SCHEME_FACTORY}abfs": "org.apache.hadoop.fs.azurebfs.commit.AzureManifestCommitterFactory",
    f"{SCHEME_FACTORY}gs": (
        "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory"
    ),
}


def defaults_of(release: HadoopRelease, *, is_spark: bool) -> Mapping[str, str]:
    """What holds in a release where nothing was set: ``core-default.xml`` and ``mapred-default.xml``.

    These come before the constants in Hadoop's code. Spark sets the algorithm of the file committer itself.
    """
    found = {**_DEFAULTS, f"{FILE}algorithm.version": "1" if is_spark else "2"}
    if release.number < (3, 3, 5):
        found["fs.s3a.buffer.dir"] = _BUFFER_BEFORE_3_3_5
    return {**found, **(_MANIFEST_BY_SCHEME if release.number >= (3, 4, 0) else {})}
