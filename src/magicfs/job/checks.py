"""What a job may not be asked for together, said before anything is changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

from magicfs.committers.registry import CommitterOptions, StagingOptions, committer_info, committers
from magicfs.errors import FormatError, UsageError
from magicfs.formats.audit import OnFailure
from magicfs.formats.fields import Fields
from magicfs.formats.job_options import GIVEN, Hadoop, JobOptions, Keep, Rerun
from magicfs.formats.limits import BUNDLE_SIZE_LIMIT
from magicfs.protocol.hadoop_release import HadoopRelease
from magicfs.protocol.ids import JobId
from magicfs.protocol.modes import WRITE_MODES, is_reserved
from magicfs.protocol.paths import Location
from magicfs.protocol.period import Period, kept_for
from magicfs.protocol.temporary import RENAMING
from magicfs.stores import object_settings
from magicfs.stores.object_settings import ObjectSettings
from magicfs.transaction.context import ContentCheck

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

    from magicfs.job.spec import JobSpec
    from magicfs.stores.port import Store

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
            f"Hadoop has no committer={committer!r} that could finish the job; use one of "
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
    for name, is_asked, why in _reasons(spec.options):
        if is_asked:
            instead = "use tracking='store', or leave hadoop out" if name == "tracking" else ""
            raise UsageError(f"{_begin(spec)}{why}; {instead or f'leave {name} or hadoop out'}")


def check_hadoops_store(spec: JobSpec, store: Store) -> None:
    """Raise UsageError for a store, or a way to it, on which that Hadoop could not end the job."""
    if spec.hadoop is None or spec.options.committer in _RENAMED:
        return
    begin = _begin(spec)
    if store.name not in _S3AS:
        raise UsageError(
            f"{begin}committer={spec.options.committer!r} of Hadoop is part of S3A and supports only S3, "
            f"not the store {store.name!r}; leave hadoop out"
        )
    options = spec.committer_options
    if isinstance(options, StagingOptions) and options.cluster_directory is None:
        raise UsageError(
            f"{begin}committer={spec.options.committer!r} of Hadoop looks for pending sets in the cluster's "
            "filesystem; give options={'cluster_directory': …}, its "
            "fs.s3a.committer.staging.tmp.path"
        )
    HadoopRelease.of(spec.hadoop).check_checksum(store.capabilities.checksums.of_parts)


def _begin(spec: JobSpec) -> str:
    return f"hadoop={spec.hadoop!r} lets a JVM of Hadoop commit the job, and "


def _reasons(asked: JobOptions) -> Iterator[tuple[str, bool, str]]:
    """Arguments, whether the job asks for them, and what a JVM's job commit would not do."""
    in_memory = "it cannot see uploads that are recorded only in a task's memory (tracking='memory')"
    yield "tracking", asked.tracking == "memory", in_memory
    yield "small_files", bool(asked.small_files), "it supports only uploads, not bodies of small files"
    replaces = f"it replaces nothing, so mode={asked.mode!r} would leave the old files"
    yield "mode", asked.mode.startswith("overwrite"), replaces
    twice = "it does not record run_id, so the same run would be published twice"
    yield "run_id", asked.run_id is not None, twice
    elsewhere = "its job abort discards only uploads below the destination"
    yield "extra_destinations", bool(asked.places.extra), elsewhere


RUN_ID_MAX: Final = 1024
"""Characters of the longest name of a run."""

SMALL_FILES_MAX: Final = BUNDLE_SIZE_LIMIT // 2
"""Bytes of the largest file that may ride in a bundle."""


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise UsageError for an argument that is none of the choices."""
    if value not in choices:
        raise UsageError(f"{name}={value!r} is unknown; choose one of {', '.join(choices)}")


def check_filesystem(storage_options: Mapping[str, Any], filesystem: AbstractFileSystem | None) -> None:
    """Raise UsageError for two ways to the store, or a filesystem that delays uploads already."""
    if filesystem is None:
        return
    if storage_options:
        raise UsageError("give either filesystem or storage_options, not both")
    from magicfs.filesystem import MagicFileSystem

    if isinstance(filesystem, MagicFileSystem):
        raise UsageError("filesystem is already a MagicFileSystem; give the one that it wraps (its .fs)")


def check_manifest(destination: str, job: JobId) -> None:
    """Raise UsageError for a job whose manifest could have no name of its own."""
    from magicfs.manifests.chain import manifest_key

    manifest_key(destination, job)


def check_options(asked: JobOptions, committer_options: CommitterOptions) -> None:
    """Raise UsageError for what a job may not be asked for, alone or together."""
    _check_committer(asked, committer_options)
    _check_small_files(asked)
    _check_success_marker(asked)
    check_footers(asked.collect.footers, asked.committer)
    if asked.collect.checksums:
        _check_kept("checksums", "checksums", asked.committer)
    _check_rerun(asked)
    _check_keep(asked)


def _check_committer(asked: JobOptions, options: CommitterOptions) -> None:
    """Raise UsageError for what a committer does not have, naming those that have it."""
    committer, mode = asked.committer, asked.mode
    traits = committer_info(committer, options)
    check_choice("mode", mode, WRITE_MODES)
    if mode not in traits.modes:
        able = [name for name, other in committers().items() if mode in other.modes]
        raise UsageError(
            traits.refusal.format(mode=mode)
            or f"committer={committer!r} has no mode={mode!r}, only "
            f"{', '.join(traits.modes)}; committers that have it: {', '.join(able)}"
        )
    if asked.run_id is not None and not traits.driven:
        raise UsageError(
            f"run_id needs a job object to find an earlier job, and committer={committer!r} writes none; "
            f"leave it out, or use one of {', '.join(_driven())}"
        )
    if asked.tracking == "memory" and traits.writes != "delayed uploads":
        raise UsageError(
            f"tracking='memory' is for delayed uploads, but committer={committer!r} has {traits.writes}; "
            "leave it out"
        )


def _check_small_files(asked: JobOptions) -> None:
    """Raise UsageError for a limit of small files that a job cannot have."""
    limit, committer, tracking = asked.small_files, asked.committer, asked.tracking
    if limit is None:
        return
    if committer != "magic":
        raise UsageError(
            f"small_files needs a job commit that uploads small files, which committer={committer!r} does "
            "not have; use committer='magic', or leave small_files out"
        )
    if not 1 <= limit <= SMALL_FILES_MAX:
        raise UsageError(
            f"small_files={limit} is out of range; choose 1 to {SMALL_FILES_MAX} bytes, or leave it out"
        )
    if tracking != "memory":
        raise UsageError(
            f"small_files keeps files in the memory of their task, but tracking={tracking!r} records every "
            "file in the store when it is closed; use tracking='memory', or leave small_files out"
        )


def _check_success_marker(asked: JobOptions) -> None:
    """Raise UsageError for a job that cannot be without ``_SUCCESS``."""
    if not asked.success_marker and not committer_info(asked.committer).driven:
        raise UsageError(
            f"success_marker=False leaves out _SUCCESS, which committer={asked.committer!r} needs to know "
            f"whether a job is published; leave success_marker out, or use one of {', '.join(_driven())}"
        )


def check_destination(location: Location) -> None:
    """Raise UsageError for a place among the work of jobs."""
    if is_reserved(location.key):
        raise UsageError(
            f"{location.url} is where jobs keep their work or manifests, and may be removed with them; "
            "nothing was changed; choose a path in which no name begins with __magic, _magicfs or "
            "_temporary"
        )


def _check_rerun(asked: JobOptions) -> None:
    """Raise UsageError for a name that no run can have, a rerun of no run, or one that would leave the
    earlier run's files.
    """
    rerun, mode = asked.rerun, asked.mode
    run_id: object = asked.run_id
    if run_id is not None and not (isinstance(run_id, str) and 0 < len(run_id) <= RUN_ID_MAX):
        named = f"a name of 1 to {RUN_ID_MAX} characters, such as '2026-11-25'"
        raise UsageError(f"run_id is {run_id!r:.80}; give {named}, or leave it out")
    check_choice("rerun", rerun, get_args(Rerun))
    if rerun != "skip" and run_id is None:
        raise UsageError(f"rerun={rerun!r} needs the id of the run; give run_id")
    if rerun == "overwrite" and not mode.startswith("overwrite"):
        raise UsageError(
            "rerun='overwrite' needs mode='overwrite' or 'overwrite_partitions', which replace what the "
            f"run published before; mode={mode!r} replaces nothing; choose one of them, or remove the "
            "earlier files with Dataset.drop(jobs='run:…'), then run again"
        )


def check_footers(footers: bool, committer: str) -> None:
    """Raise UsageError where nobody would keep what files say of themselves."""
    if footers:
        _check_kept("footers", "footers and audit", committer)


def _check_kept(what: str, options: str, committer: str) -> None:
    if not _keeps_footers(committer):
        others = ", ".join(filter(_keeps_footers, _driven()))
        raise UsageError(
            f"{what} are recorded in manifests, and committer={committer!r} writes none; use one of "
            f"{others}, or leave {options} out"
        )


def check_file_checks(checks: Sequence[ContentCheck], asked: JobOptions) -> None:
    """Raise UsageError where no task has the content of its files when it commits, or names are no names."""
    committer = asked.committer
    names = [str(one) for one in checks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two file checks are named {twice!r}; give each its own name: FileCheck(f, name=…)")
    has_content = committer_info(committer).writes == "local files" or (
        committer == "magic" and bool(asked.small_files)
    )
    if checks and not has_content:
        raise UsageError(
            f"FileCheck({names[0]}) reads files before they are uploaded, but with committer={committer!r} "
            "tasks upload them before they commit; use committer='directory' or 'partitioned', or "
            "tracking='memory' and small_files=… with 'magic', or a rule that judges footers"
        )


def check_known(rules: Iterable[object], checks: Collection[ContentCheck]) -> None:
    """Raise UsageError for a check of the content of files that the tasks of the job did not know."""
    for one in rules:
        if isinstance(one, ContentCheck) and one not in checks:
            raise UsageError(
                f"FileCheck({one}) runs in the tasks that write the files, and the tasks of this job did "
                "not have it; nothing was published; pass it to Job(audit=[…])"
            )


def _keeps_footers(committer: str) -> bool:
    return committer_info(committer).driven and committer not in RENAMING


def check_storage_class(committer: str, settings: ObjectSettings) -> None:
    """Raise UsageError for a committer that copies objects which are archived at once."""
    if committer_info(committer).writes == "work files" and object_settings.is_archive(settings):
        raise UsageError(
            f"committer={committer!r} copies the tasks' files, and objects of "
            f"StorageClass={settings['StorageClass']!r} cannot be copied before they are restored; use "
            "committer='magic', or another storage class"
        )


def keep_of(keep: Period | None, *, in_place: bool, has_catalogs: bool) -> Keep:
    """What becomes of files that a job replaces; those that a catalog names stay in place.

    Raises UsageError for no length of time, and where files that nobody keeps should stay where they are.
    """
    ms = kept_for(keep, keep_in_place=in_place)
    in_place = ms is not None and (in_place or has_catalogs)
    return Keep(ms=ms, in_place=in_place, rule=getattr(keep, "rule", ""))


def _check_keep(asked: JobOptions) -> None:
    """Raise UsageError where no extension could do what is asked, or nothing could be kept or is replaced."""
    if (needed := [*asked.needs()]) and not committer_info(asked.committer).driven:
        raise UsageError(
            f"{needed[0]} needs manifests, and committer={asked.committer!r} writes none; use one of "
            f"{', '.join(_driven())}, or leave it out"
        )
    if asked.keep.ms is None:
        return
    if not asked.mode.startswith("overwrite"):
        raise UsageError(
            f"keep applies to files that a job replaces, and mode={asked.mode!r} replaces none; leave it "
            "out, or use mode='overwrite' or 'overwrite_partitions'"
        )
    if asked.places.also_overwrite:
        raise UsageError(
            "also_overwrite deletes other datasets, but keep would leave their files and manifests in "
            "place; leave one of the two out"
        )


def _driven() -> list[str]:
    return [name for name, other in committers().items() if other.driven]


OWN: Final[Mapping[str, object]] = {"after": (), "attempt": 0, "audit_failure": "quarantine"} | dict.fromkeys(
    ("hadoop", "is_current_driver")
)
"""Options that ``JobOptions`` does not hold: and their defaults."""

_MODE: Final = "write mode='error', 'append', 'overwrite' or 'overwrite_partitions'"
_PARTITIONS: Final = "use partition_by=['day']"
_WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("conflict", "save_mode", "if_exists", "existing_data_behavior", "overwrite", "append"), _MODE
    ),
    **dict.fromkeys(("partition_cols", "partition_on", "partitionBy", "partition_columns"), _PARTITIONS),
    **dict.fromkeys(("file_format", "file_type"), "use format='parquet'"),
    **dict.fromkeys(("max_records_per_file", "max_rows_by_file", "rows_per_file"), "use max_rows_per_file="),
    "codec": "use compression='zstd'",
    **dict.fromkeys(("delete_matching", "predicate"), "use mode='overwrite_partitions'"),
    "keep_replaced": "use keep='7d'",
    "path": "give the URL first: s3://bucket/sales",
    "target_directories": "write mode='error', 'overwrite' or 'overwrite_partitions'",
    "write_index": "use index=",
    "committer_options": "pass them in options={…}, too",
    **dict.fromkeys(("hive_partitioning", "hive_schema"), "leave it out: partitioning='hive' is the default"),
}
"""Words of other libraries for what has another name here."""


def check_words(call: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise UsageError for arguments that a call does not have, with what to write in their place."""
    known = [*known]
    for name in given:
        if name in known:
            continue
        word = _WORDS.get(name)
        if word is None and name in {*GIVEN, *OWN}:
            word = f"write options={{{name!r}: …}}"
        word = word or _close(name, known) or "leave it out"
        raise UsageError(f"{name}= is not an argument of {call}; nothing was changed; {word}")


_Values: TypeAlias = dict[str, Any]
_Given: TypeAlias = tuple[_Values, _Values, CommitterOptions]


def with_defaults(job: Mapping[str, Any], **options: object) -> _Values:
    """Arguments of ``Job`` with options that hold where the caller gives none."""
    return {**job, "options": {**options, **(job.get("options") or {})}}


def given_options(given: Mapping[str, object] | None, committer: str) -> _Given:
    """What a caller gave: what ``GIVEN`` names, all of ``OWN``, and the committer's. None is the default.
    Raises UsageError for a name that nothing has.
    """
    kind = committer_info(committer).options
    asked: _Values = {}
    own: _Values = {**OWN}
    rest: _Values = {one.name: None for one in fields(kind)}
    for name, value in (given or {}).items():
        found = [group for names, group in ((GIVEN, asked), (OWN, own), (rest, rest)) if name in names]
        if not found:
            raise _no_option(name, committer, {*GIVEN, *OWN, *rest})
        if value is not None:
            found[0][name] = value
    _check_values(asked)
    check_choice("audit_failure", own["audit_failure"], get_args(OnFailure))
    options = kind(**{name: value for name, value in rest.items() if value is not None})
    committer_info(committer, options)
    return asked, own, options


def _check_values(asked: _Values) -> None:
    """Raise UsageError for a value that a reader of the job object would refuse."""
    for name, value in asked.items():
        try:
            if value != GIVEN[name].default or type(value) is not type(GIVEN[name].default):
                GIVEN[name].check(
                    Fields("options", {name: [*value] if isinstance(value, tuple) else value}), name
                )
        except FormatError as error:
            raise UsageError(
                f"options={{{name!r}: {value!r}}}: {error.problem}; nothing was changed"
            ) from None


def _no_option(name: str, committer: str, known: Collection[str]) -> UsageError:
    hint = _WORDS.get(name) or _close(name, known) or f"options are {', '.join(sorted(known))}"
    return UsageError(f"committer={committer!r} has no option {name!r}; nothing was changed; {hint}")


def _close(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, [*known], 1)
    return f"did you mean {close[0]!r}?" if close else ""
