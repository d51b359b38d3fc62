"""Hadoop's options of committers, as arguments of ``Job``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from magicfs.errors import UsageError
from magicfs.hadoop.options import HadoopOptions, cluster_url, flag, integer, local_directory, size, text

__all__ = ["PRESETS", "from_hadoop_conf"]

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "s3committer": {
        "committer": "directory",
        "conflict": "fail",
        "part_size": 10 * 2**20,
        "concurrency": 8,
    },
}
"""Arguments under a name. ``s3committer``: the defaults of Netflix's committer, Hadoop's ancestor."""

_S3A: Final = "fs.s3a.committer."
_STAGING: Final = f"{_S3A}staging."
_FILE: Final = "mapreduce.fileoutputcommitter."
_MANIFEST: Final = "mapreduce.manifest.committer."
_FACTORY: Final = "mapreduce.outputcommitter.factory.class"
_PREFIXES: Final = (_S3A, _FILE, _MANIFEST)
_PER_BUCKET: Final = re.compile(r"fs\.s3a\.bucket\.[^.]+\.(committer\..*|multipart\.size|buffer\.dir)")

_NAMES: Final = ("file", "directory", "partitioned", "magic")
_CONFLICTS: Final = ("fail", "append", "replace")
_STAGED: Final = frozenset({"directory", "partitioned"})
_MAGIC: Final = frozenset({"magic"})
_S3AS: Final = _STAGED | _MAGIC
_ALL: Final = _S3AS | {"file", "manifest"}
_THREADS: Final = 32

_FACTORIES: Final[Mapping[str, str | None]] = {
    "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory": None,
    "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitterFactory": "file",
    "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory": "manifest",
    "org.apache.hadoop.fs.azurebfs.commit.AzureManifestCommitterFactory": "manifest",
}
"""Which committer a factory makes; None for the one that ``fs.s3a.committer.name`` says."""

_IGNORED: Final = frozenset(
    {
        f"{_S3A}abort.pending.uploads",
        f"{_STAGING}abort.pending.uploads",
        f"{_S3A}uuid.source",
        f"{_S3A}experimental.collect.iostatistics",
        f"{_S3A}generate.uuid",
        f"{_MANIFEST}store.operations.classname",
    }
)
_FIXED: Final[Mapping[str, tuple[str, frozenset[str], str]]] = {
    f"{_FILE}marksuccessfuljobs": ("true", _ALL, "_SUCCESS is always written"),
    f"{_FILE}failures.attempts": ("1", _ALL, "a job commit may be called again"),
    f"{_FILE}task.cleanup.enabled": ("false", _ALL, "the work of tasks is removed at the end of the job"),
    f"{_FILE}cleanup.skipped": ("false", _ALL - {"manifest"}, "a job removes its work at its end"),
    f"{_FILE}cleanup-failures.ignored": (
        "false",
        frozenset({"file"}),
        "only the manifest committer has it; those with a job object need it not",
    ),
    f"{_S3A}magic.enabled": ("true", _MAGIC, "a magic committer needs a filesystem that delays writes"),
    f"{_S3A}magic.cleanup.enabled": ("true", _MAGIC, "a job removes its work at its end"),
    f"{_S3A}summary.report.directory": ("", _S3AS, "job.report is the report; keep it where you like"),
    "fs.s3a.multipart.uploads.enabled": ("true", _S3AS, "its files are multipart uploads"),
}
"""Options with one possible value for some committers, and why."""

_Reader = Callable[[str, str], object]


def from_hadoop_conf(conf: Mapping[str, str], *, preset: str | None = None) -> dict[str, Any]:
    """Arguments of ``Job`` from Hadoop's options: ``Job(url, **from_hadoop_conf(conf))``.

    What the configuration does not name is left to ``Job``'s own defaults, with one exception: without
    ``fs.s3a.committer.staging.conflict-mode`` the conflict mode is Hadoop's default, ``append``. Options may
    begin with ``spark.hadoop.``, as in the configuration of Spark.

    * ``fs.s3a.committer.name`` - ``file``, ``directory``, ``partitioned`` or ``magic``; empty is ``file``.
      ``mapreduce.outputcommitter.factory.class`` comes before it, if it names the factory of the manifest
      committer or of the file committer.
    * ``fs.s3a.committer.threads`` - ``concurrency`` of these committers of S3A; a negative number counts the
      cores, 0 is 1. Of the manifest committer ``mapreduce.manifest.committer.io.threads``; 0 and less are 32.
    * ``fs.s3a.committer.staging.conflict-mode`` - ``fail``, ``append`` or ``replace``, in any case; for
      ``partitioned`` the last is ``replace_partitions``. The others have no such option, and append.
    * ``fs.s3a.committer.staging.unique-filenames`` - ``unique_names`` of the staging committers.
    * ``fs.s3a.committer.staging.tmp.path`` - ``cluster_directory``; a path without a scheme is one of
      ``fs.defaultFS``, a relative one below the user's home there. Without the option pending sets go to
      the destination's store.
    * ``fs.s3a.buffer.dir`` - ``work_directory`` of the staging committers: the first of the list.
    * ``fs.s3a.multipart.size`` - ``part_size``, with the units K, M, G, T, P, E of 1024.
    * ``fs.s3a.committer.magic.track.commits.in.memory.enabled`` - ``tracking`` of the magic committer.
    * ``fs.s3a.committer.uuid``, then ``spark.sql.sources.writeJobUUID`` - ``job_id``. With
      ``fs.s3a.committer.require.uuid`` one of them must be there.
    * ``mapreduce.fileoutputcommitter.algorithm.version`` - ``algorithm`` of the file committer;
      ``…cleanup.skipped`` and ``…cleanup-failures.ignored`` - of the manifest committer.
    * ``mapreduce.manifest.committer.*`` - the options of the manifest committer of the same names;
      ``fs.azure.io.rate.limit`` is its ``renames_per_second``.

    Ignored, because a job does better or has no choice: ``fs.s3a.committer.abort.pending.uploads`` and
    ``fs.s3a.committer.staging.abort.pending.uploads`` (a job aborts its own uploads, and nobody else's),
    ``fs.s3a.committer.generate.uuid`` (every job has an id), ``fs.s3a.committer.uuid.source``,
    ``fs.s3a.committer.experimental.collect.iostatistics`` (statistics are always collected),
    ``mapreduce.manifest.committer.store.operations.classname`` and the factories of single schemes,
    ``mapreduce.outputcommitter.factory.scheme.*``. Options of one committer are not looked at for the
    others. Everything that is no option of committers is ignored: endpoints and credentials are
    ``storage_options`` of the job.

    Args:
        conf: Option by name.
        preset: Arguments to begin with, of which options of ``conf`` replace some: ``s3committer`` is
            ``directory`` with ``fail``, parts of 10 MiB and 8 requests at once.

    Raises:
        UsageError: A value that cannot be right, an unknown option of committers, a known one that is not
            supported, or an unknown preset. A second call with the same options returns the same.
    """
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"preset={preset!r} is unknown; choose one of {', '.join(PRESETS)}")
    options = HadoopOptions(conf)
    _check_names(options)
    arguments = {"conflict": "append", **(PRESETS[preset] if preset else {})}
    if (named := _committer(options)) is not None:
        arguments["committer"] = named
    committer = arguments.get("committer", "magic")
    _check_fixed(options, committer)
    found = _Arguments(options, arguments)
    if committer in _S3AS:
        found.add("part_size", "fs.s3a.multipart.size", size)
        found.add("concurrency", f"{_S3A}threads", _threads)
    if committer in _STAGED:
        _add_staging(found, committer)
    if committer == "magic" and options.is_true(f"{_S3A}magic.track.commits.in.memory.enabled"):
        arguments["tracking"] = "memory"
    if committer == "file":
        found.add_option("algorithm", f"{_FILE}algorithm.version", integer)
    if committer == "manifest":
        _add_manifest(found)
    if (job := _job_id(options)) is not None:
        arguments["job_id"] = job
    return arguments


@dataclass
class _Arguments:
    """Arguments in the making."""

    options: HadoopOptions
    made: dict[str, Any]

    def add(self, argument: str, name: str, read: _Reader) -> None:
        """Make an argument of an option, if that is given."""
        if value := self.options.get(name):
            self.made[argument] = read(name, value)

    def add_option(self, argument: str, name: str, read: _Reader) -> None:
        """Make an option of the committer of one of Hadoop's, if that is given."""
        if value := self.options.get(name):
            self.made.setdefault("committer_options", {})[argument] = read(name, value)


def _add_staging(found: _Arguments, committer: str) -> None:
    found.add("conflict", f"{_STAGING}conflict-mode", _conflict)
    if committer == "partitioned" and found.made["conflict"] == "replace":
        found.made["conflict"] = "replace_partitions"
    found.add("unique_names", f"{_STAGING}unique-filenames", flag)
    found.add_option("work_directory", "fs.s3a.buffer.dir", local_directory)
    found.add_option(
        "cluster_directory", f"{_STAGING}tmp.path", lambda _, value: cluster_url(found.options, value)
    )


_MANIFEST_OPTIONS: Final[Mapping[str, _Reader]] = {
    "validate.output": flag,
    "delete.target.files": flag,
    "cleanup.parallel.delete": flag,
    "cleanup.parallel.delete.base.first": flag,
    "summary.report.directory": text,
    "diagnostics.manifest.directory": text,
    "writer.queue.capacity": integer,
}


def _add_manifest(found: _Arguments) -> None:
    found.add("concurrency", f"{_MANIFEST}io.threads", _manifest_threads)
    for name, read in _MANIFEST_OPTIONS.items():
        found.add_option(name.replace(".", "_"), f"{_MANIFEST}{name}", read)
    found.add_option("save_attempts", f"{_MANIFEST}manifest.save.attempts", _attempts)
    found.add_option("cleanup_skipped", f"{_FILE}cleanup.skipped", flag)
    found.add_option("cleanup_failures_ignored", f"{_FILE}cleanup-failures.ignored", flag)
    found.add_option("renames_per_second", "fs.azure.io.rate.limit", integer)


_KNOWN: Final = (
    _IGNORED
    | _FIXED.keys()
    | {f"{_S3A}{name}" for name in ("name", "threads", "uuid", "require.uuid")}
    | {f"{_S3A}magic.track.commits.in.memory.enabled", f"{_FILE}algorithm.version"}
    | {f"{_STAGING}{name}" for name in ("conflict-mode", "unique-filenames", "tmp.path")}
    | {f"{_MANIFEST}{name}" for name in ("io.threads", "manifest.save.attempts", *_MANIFEST_OPTIONS)}
)


def _check_names(options: HadoopOptions) -> None:
    for name in options.names:
        if (match := _PER_BUCKET.fullmatch(name)) is not None:
            raise UsageError(f"{name} is for one bucket; give it as fs.s3a.{match[1]} to that bucket's jobs")
        if name.startswith(_PREFIXES) and name not in _KNOWN:
            raise UsageError(f"{name} is not a known option of Hadoop's committers; check its name")


def _check_fixed(options: HadoopOptions, committer: str) -> None:
    for name, (value, committers, why) in _FIXED.items():
        found = options.get(name)
        if committer in committers and found and found.lower() != value:
            raise UsageError(
                f"{name}={found} is not supported by committer={committer!r}: {why}; leave the option out"
            )


def _committer(options: HadoopOptions) -> str | None:
    """The committer that is named; None if none is."""
    factory, key = options.get(_FACTORY), f"{_S3A}name"
    if factory and factory not in _FACTORIES:
        raise UsageError(f"{_FACTORY}={factory} is unknown; choose one of {', '.join(_FACTORIES)}")
    if factory and (made := _FACTORIES[factory]) is not None:
        return made
    if not options.is_given(key):
        return None
    name = options.get(key) or "file"
    if name not in _NAMES:
        raise UsageError(f'Unknown committer: "{name}" in {key}; choose one of {", ".join(_NAMES)}')
    return name


def _job_id(options: HadoopOptions) -> str | None:
    found = options.get(f"{_S3A}uuid") or options.get("spark.sql.sources.writeJobUUID")
    if not found and options.is_true(f"{_S3A}require.uuid"):
        raise UsageError(
            "the configuration does not contain a unique ID in spark.sql.sources.writeJobUUID, as "
            f"{_S3A}require.uuid asks; set it, or leave that out"
        )
    return found or None


def _conflict(name: str, value: str) -> str:
    if value.lower() not in _CONFLICTS:
        raise UsageError(f"{name}={value.upper()} is unknown; choose one of {', '.join(_CONFLICTS)}")
    return value.lower()


def _threads(name: str, value: str) -> int:
    number = integer(name, value)
    return max(1, -number * (os.cpu_count() or 1) if number < 0 else number)


def _manifest_threads(name: str, value: str) -> int:
    number = integer(name, value)
    return number if number > 0 else _THREADS


def _attempts(name: str, value: str) -> int:
    return max(1, integer(name, value))
