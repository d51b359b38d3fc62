"""Hadoop's options of committers, as arguments of ``Job``."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from magicfs.errors import UsageError
from magicfs.hadoop.known import (
    FILE,
    FIXED,
    IGNORED,
    MANIFEST,
    MANIFEST_OPTIONS,
    OF_BUCKET,
    OF_FILESYSTEM,
    OF_OBJECTS,
    PREFIXES,
    S3A,
    S3AS,
    SCHEME_FACTORY,
    STAGED,
    STAGING,
    defaults_of,
    is_known,
)
from magicfs.hadoop.options import HadoopOptions, cluster_url, flag, integer, local_directory, size, text
from magicfs.hadoop.storage import storage_options
from magicfs.protocol.hadoop_release import HadoopRelease

PRESETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "s3committer": {
        "committer": "directory",
        "mode": "error",
        "concurrency": 8,
        "options": {"part_size": 10 * 2**20},
    }
}
"""Arguments under a name. ``s3committer``: the defaults of Netflix's committer, Hadoop's ancestor."""

_FACTORY: Final = "mapreduce.outputcommitter.factory.class"
_FAMILIES: Final = ("fs.s3a.", FILE, MANIFEST, "mapreduce.outputcommitter.")
_NAMES: Final = ("file", "directory", "partitioned", "magic")
_S3A_SCHEMES: Final = frozenset({"s3", "s3a", "s3n", "memory"})
_HADOOPS_SCHEME: Final = {"s3": "s3a", "s3n": "s3a", "gcs": "gs", "az": "abfs", "abfss": "abfs"}
_OF_STAGING: Final = frozenset({"fs.s3a.buffer.dir", "fs.s3a.multipart.size"})
_MODES: Final = {"fail": "error", "append": "append", "replace": "overwrite"}
_THREADS: Final = 32
_MEMORY: Final = f"{S3A}magic.track.commits.in.memory.enabled"
_NOT_OF_BUCKET: Final = (
    "Hadoop's committers read it from the job's configuration, where per-bucket options do not apply"
)
_LOGGER = logging.getLogger("magicfs")

_FACTORIES: Final[Mapping[str, str | None]] = {
    "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory": None,
    "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitterFactory": "file",
    "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory": "manifest",
    "org.apache.hadoop.fs.azurebfs.commit.AzureManifestCommitterFactory": "manifest",
}
"""Which committer a factory makes; None for the one that ``fs.s3a.committer.name`` says."""

_Reader = Callable[[str, str], object]


class HadoopArguments(dict[str, Any]):
    """Arguments of ``Job``.

    Attributes:
        ignored: Hadoop options without effect, by name, and why.
        storage_options: s3fs options for the same store, with credentials if the configuration has some, for
            ``Job(url, storage_options=…)``; empty if there are none, and for stores other than S3.
    """

    ignored: Mapping[str, str]
    storage_options: Mapping[str, Any]


def from_hadoop_conf(
    conf: Mapping[str, str], url: str | None = None, *, hadoop: str | None = None, preset: str | None = None
) -> HadoopArguments:
    """Convert Hadoop's options to arguments of ``Job``: ``Job(url, **from_hadoop_conf(conf, url))``.

    With ``hadoop``, options that the configuration does not set have the defaults of that release. Without
    it, they have ``Job``'s own defaults, with one exception: if
    ``fs.s3a.committer.staging.conflict-mode`` is not set, the mode is Hadoop's default, ``append``. Options
    can start with ``spark.hadoop.``; as in Spark, these override the same options without it.

    ``docs/hadoop.md`` lists which option becomes which argument. ``storage_options`` of the result has the
    options of the store and of new objects; pass it, too: ``Job(url, storage_options=found.storage_options,
    **found)``. ``ignored`` lists options without effect, and why: options of other committers and buckets;
    options that a job does not need, such as ``fs.s3a.committer.abort.pending.uploads`` (a job discards only
    its own uploads); and other options of the connection. If an option of new objects is ignored, there is
    also a warning.

    Args:
        conf: Options by name.
        url: The destination, whose scheme and bucket may have their own options.
        hadoop: Release whose defaults to use, such as ``"3.4"``. By default those of ``Job``.
        preset: Arguments to start with, which options of ``conf`` override: ``s3committer`` is
            ``directory`` with ``fail``, parts of 10 MiB and 8 requests at once.

    Raises:
        UsageError: A value is wrong, a committer option is unknown or not supported, a per-bucket option has
            no URL, a preset is unknown, or you gave both a preset and ``hadoop``. A second call with the same
            options returns the same.
    """
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"preset={preset!r} is unknown; choose one of {', '.join(PRESETS)}")
    if preset is not None and hadoop is not None:
        raise UsageError(
            f"preset={preset!r} and the defaults of hadoop={hadoop!r} contradict each other; leave one of "
            "them out"
        )
    scheme, _, rest = (url or "s3a://").partition("://")
    bucket = rest.partition("/")[0] if scheme in _S3A_SCHEMES else None
    defaults = {}
    if hadoop is not None:
        is_spark = any(name.startswith("spark.") for name in conf)
        defaults = dict(defaults_of(HadoopRelease.of(hadoop), is_spark=is_spark))
    options = HadoopOptions(conf, defaults, bucket)
    _check_names(options)
    arguments = HadoopArguments({"mode": "append", **(PRESETS[preset] if preset else {})})
    if (named := _committer(options, scheme)) is not None:
        arguments["committer"] = named
    committer = arguments.get("committer", "magic")
    _check_fixed(options, committer)
    _add(_Arguments(options, arguments), committer)
    if (job := _job_id(options)) is not None:
        arguments["job_id"] = job
    is_s3 = scheme in _S3A_SCHEMES
    arguments.storage_options = storage_options(options) if is_s3 else {}
    arguments.ignored = _ignored(options, committer)
    return arguments


def _add(found: _Arguments, committer: str) -> None:
    options, marker = found.options, f"{FILE}marksuccessfuljobs"
    if options.get(marker) and not options.is_true(marker):
        found.set_option("success_marker", False)
    if committer in S3AS:
        found.add("concurrency", f"{S3A}threads", _threads)
    if committer in STAGED:
        found.add_option("part_size", "fs.s3a.multipart.size", size)
        _add_staging(found, committer)
    if committer == "magic":
        found.add_option("part_size", options.name_in_filesystem("fs.s3a.multipart.size"), size)
        _add_tracking(found)
    if committer == "file":
        found.add_option("algorithm", f"{FILE}algorithm.version", integer)
    if committer == "manifest":
        _add_manifest(found)


def _add_tracking(found: _Arguments) -> None:
    options = found.options
    stream = options.name_in_filesystem(_MEMORY)
    if options.is_true(stream) != options.is_true(_MEMORY):
        raise UsageError(
            f"{stream} and {_MEMORY} differ: S3A's streams use the first and its committer uses the second, "
            "so a Hadoop job commit would lose every file; give both the same value"
        )
    if options.is_true(_MEMORY):
        found.set_option("tracking", "memory")


@dataclass
class _Arguments:
    """Arguments in the making."""

    options: HadoopOptions
    made: dict[str, Any]

    def add(self, argument: str, name: str, read: _Reader) -> None:
        """Make an argument of an option, if that is given."""
        if value := self.options.get(name):
            self.made[argument] = read(name, value)

    def add_option(self, option: str, name: str, read: _Reader) -> None:
        """Make a member of ``options`` of one of Hadoop's, if that is given."""
        if value := self.options.get(name):
            self.set_option(option, read(name, value))

    def set_option(self, option: str, value: object) -> None:
        """Make a member of ``options``."""
        self.made["options"] = {**self.made.get("options", {}), option: value}


def _add_staging(found: _Arguments, committer: str) -> None:
    found.add("mode", f"{STAGING}conflict-mode", _mode)
    if committer == "partitioned" and found.made["mode"] == "overwrite":
        found.made["mode"] = "overwrite_partitions"
    found.add_option("unique_names", f"{STAGING}unique-filenames", flag)
    found.add_option("work_directory", "fs.s3a.buffer.dir", local_directory)
    found.add_option(
        "cluster_directory", f"{STAGING}tmp.path", lambda _, value: cluster_url(found.options, value)
    )


_READERS: Final[Mapping[str, _Reader]] = {
    "summary.report.directory": text,
    "diagnostics.manifest.directory": text,
    "writer.queue.capacity": integer,
}
"""Of options of the manifest committer that are no flags."""


def _add_manifest(found: _Arguments) -> None:
    found.add("concurrency", f"{MANIFEST}io.threads", _manifest_threads)
    for name in MANIFEST_OPTIONS:
        found.add_option(name.replace(".", "_"), f"{MANIFEST}{name}", _READERS.get(name, flag))
    found.add_option("save_attempts", f"{MANIFEST}manifest.save.attempts", _attempts)
    found.add_option("cleanup_skipped", f"{FILE}cleanup.skipped", flag)
    found.add_option("cleanup_failures_ignored", f"{FILE}cleanup-failures.ignored", flag)
    found.add_option("renames_per_second", "fs.azure.io.rate.limit", integer)


def _check_names(options: HadoopOptions) -> None:
    for name in options.names:
        if options.of_bucket is None and (match := OF_BUCKET.fullmatch(name)) is not None:
            raise UsageError(
                f"{name} is for one bucket; also give the destination's URL, as in from_hadoop_conf(conf, "
                f"url), or fs.s3a.{match[2]}"
            )
        if not is_known(name):
            raise UsageError(f"{name} is not a known option of Hadoop's committers; check the spelling")


def _check_fixed(options: HadoopOptions, committer: str) -> None:
    for general, (value, committers, why) in FIXED.items():
        if committer not in committers:
            continue
        name = options.name_in_filesystem(general) if general in OF_FILESYSTEM else general
        found = options.get(name)
        if found and found.lower() != value:
            raise UsageError(
                f"{name}={found} is not supported by committer={committer!r}: {why}; leave the option out"
            )


def _committer(options: HadoopOptions, scheme: str) -> str | None:
    """The committer that is named; None if none is."""
    factory = _FACTORY
    if not options.get(factory):
        factory = f"{SCHEME_FACTORY}{_HADOOPS_SCHEME.get(scheme, scheme)}"
    if found := options.get(factory):
        if found not in _FACTORIES:
            raise UsageError(f"{factory}={found} is unknown; choose one of {', '.join(_FACTORIES)}")
        if (made := _FACTORIES[found]) is not None:
            return made
    key = f"{S3A}name"
    if scheme not in _S3A_SCHEMES:
        return "file" if options.is_given(key) else None  # as Hadoop does where no factory is named
    if not options.is_given(key):
        return None
    name = options.get(key) or "file"
    if name not in _NAMES:
        raise UsageError(f'Unknown committer: "{name}" in {key}; choose one of {", ".join(_NAMES)}')
    return name


def _ignored(options: HadoopOptions, committer: str) -> dict[str, str]:
    """Options of the families that changed nothing, and why. Those that matter to objects are logged."""
    left = [name for name in options.unread if name.startswith(_FAMILIES)]
    found = {name: _why(options, name, committer) for name in left}
    warned = [
        name
        for name, why in found.items()
        if why == _NOT_OF_BUCKET or OF_OBJECTS.fullmatch(_plain(options, name))
    ]
    for name in warned:
        _LOGGER.warning("%s is ignored: %s", name, found[name])
    return found


def _plain(options: HadoopOptions, name: str) -> str:
    """The name for all buckets of an option of this one."""
    prefix = options.of_bucket
    return f"fs.s3a.{name.removeprefix(prefix)}" if prefix and name.startswith(prefix) else name


def _why(options: HadoopOptions, name: str, committer: str) -> str:
    plain = _plain(options, name)
    if plain.startswith("fs.s3a.bucket."):
        return "it is for another bucket"
    if (counts := options.name_in_filesystem(name)) in options.read:
        return f"{counts} comes before it"
    if plain in IGNORED:
        return IGNORED[plain]
    if plain.startswith(SCHEME_FACTORY):
        return "it is for URLs of another scheme"
    if plain != name and (plain.startswith(S3A) or plain in _OF_STAGING):
        return _NOT_OF_BUCKET
    if plain.startswith(PREFIXES) or plain in {*OF_FILESYSTEM, *_OF_STAGING, _FACTORY}:
        return f"it is not an option of committer={committer!r}"
    if OF_OBJECTS.fullmatch(plain):
        return "set it in storage_options, {'s3_additional_kwargs': {…}}"
    return "configure the connection with s3fs's own settings, in storage_options"


def _job_id(options: HadoopOptions) -> str | None:
    found = options.get(f"{S3A}uuid") or options.get("spark.sql.sources.writeJobUUID")
    if not found and options.is_true(f"{S3A}require.uuid"):
        raise UsageError(
            "the configuration does not contain a unique ID in spark.sql.sources.writeJobUUID, which "
            f"{S3A}require.uuid requires; set it, or leave that option out"
        )
    return found or None


def _mode(name: str, value: str) -> str:
    if value.lower() not in _MODES:
        raise UsageError(f"{name}={value.upper()} is unknown; choose one of {', '.join(_MODES)}")
    return _MODES[value.lower()]


def _threads(name: str, value: str) -> int:
    number = integer(name, value)
    return max(1, -number * (os.cpu_count() or 1) if number < 0 else number)


def _manifest_threads(name: str, value: str) -> int:
    number = integer(name, value)
    return number if number > 0 else _THREADS


def _attempts(name: str, value: str) -> int:
    return max(1, integer(name, value))
