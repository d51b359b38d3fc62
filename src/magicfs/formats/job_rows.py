"""What each field of a job object is compared with before anything is done by its word."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from magicfs.errors import UsageError
from magicfs.formats.job_object import Chunk, JobObject
from magicfs.formats.job_options import plain_options
from magicfs.formats.limits import BUNDLE_SIZE_LIMIT
from magicfs.formats.rows import SHOWN, Place, Problem, Row, has_dots, moment, old_problem, same
from magicfs.protocol import ids, paths
from magicfs.protocol.layout import FACTS, WorkLayout
from magicfs.protocol.magic import locate
from magicfs.protocol.modes import REMOVALS, is_by_partition, is_reserved
from magicfs.protocol.period import PERIOD_MAX_MS
from magicfs.protocol.temporary import RENAMING

_PART_SIZE_MAX: Final = 5 * 1024**3
_ATTEMPT_MAX: Final = 9999
_BEGUN_BY: Final = frozenset({"", "hadoop-magic", "hadoop-manifest", "hadoop-staging"})


def _work(place: Place) -> WorkLayout:
    assert place.layout is not None
    return place.layout


def _bucket(job: JobObject, place: Place) -> str | None:
    return None if job.bucket == place.bucket else f"is {job.bucket!a}, not {place.bucket!a}; it was moved"


def _destination(job: JobObject, place: Place) -> str | None:
    expected = place.destination
    return None if job.destination == expected else f"is {job.destination!a}, not {expected!a}; it was moved"


def _job_id(job: JobObject, place: Place) -> str | None:
    whose = place.whose
    return None if job.job_id == whose else f"belongs to job {job.job_id}, not {whose}; it was copied here"


def _layout(job: JobObject, place: Place) -> str | None:
    name = _work(place).name
    return (
        None if job.options.hadoop.layout == name else f"is {job.options.hadoop.layout}, and lies in {name}"
    )


def _attempt(job: JobObject, _: Place) -> str | None:
    return None if job.attempt <= _ATTEMPT_MAX else f"{job.attempt} attempts, and a job has at most 9999"


def _committer(job: JobObject, _: Place) -> str | None:
    return None if ids.is_job_id(job.options.committer) else "is not the name of a committer"


def _sum(said: Callable[[JobObject], int], of_chunk: Callable[[Chunk], int]) -> Problem:
    def problem(job: JobObject, _: Place) -> str | None:
        listed = sum(map(of_chunk, job.chunks))
        return f"{said(job)}, and its chunks have {listed}" if job.chunks and said(job) != listed else None

    return problem


def _facts(chunks: Callable[[JobObject], Iterable[str]], allowed: Callable[[JobObject], bool]) -> Problem:
    def problem(job: JobObject, place: Place) -> str | None:
        directory, named = f"{_work(place).job_directory}/{FACTS}", list(chunks(job))
        if named and not allowed(job):
            return f"a job of committer {job.options.committer!a} and mode {job.options.mode!a} names none"
        wrong = (key for key in named if not (paths.is_under(key, directory) and paths.can_be_a_file(key)))
        key = next(wrong, None)
        return None if key is None else f"{key!a} is outside {directory!a}, where the job keeps its files"

    return problem


def _deletes(job: JobObject) -> bool:
    """Whether a job may delete old objects: to replace them, or from the place of a directory."""
    return (
        job.options.mode.startswith("overwrite")
        or job.options.mode in REMOVALS
        or job.options.committer in RENAMING
    )


def _hides(job: JobObject) -> bool:
    return job.options.mode == "overwrite_partitions" or job.options.mode in REMOVALS


def _partitions(job: JobObject, _: Place) -> str | None:
    if job.partitions is None:
        return None
    if not is_by_partition(job.options.mode, job.options.committer):
        return f"a job of mode {job.options.mode!a} names none"
    return _wrong_partition(job.partitions)


def _wrong_partition(partitions: Iterable[str]) -> str | None:
    wrong = next((one for one in partitions if one.startswith("/") or has_dots(one)), None)
    return None if wrong is None else f"{wrong!a} is not a directory below the destination"


def _pointer(job: JobObject, _: Place) -> str | None:
    if job.pointer is None or (ids.is_job_id(job.pointer.job) and job.pointer.job != job.job_id):
        return None
    return f"{job.pointer.job!a} is not another job"


def _old_success(job: JobObject) -> Iterable[str]:
    return () if job.old_success is None else (job.old_success.key,)


def _equal_keys(job: JobObject, place: Place) -> str | None:
    for key in job.equal_keys:
        if (problem := old_problem(key, place.destination)) is not None:
            return problem
        if not paths.can_be_a_file(key):
            return f"{key!a} is not the key of a file"
    return None


def _extra_destinations(job: JobObject, place: Place) -> str | None:
    if not job.options.places.extra:
        return None
    if job.options.committer in RENAMING or not (job.options.unique_names and ids.is_random(job.job_id)):
        return "only jobs with delayed uploads, unique names and a random id have any"
    met = [place.destination]
    for one in job.options.places.extra:
        if not paths.can_be_a_file(one) or is_reserved(one):
            return f"{one!a} is not a data directory"
        if any(paths.overlap(one, other) for other in met):
            return f"{one!a} overlaps the destination or another one"
        met.append(one)
    return None


def _part_size(job: JobObject, _: Place) -> str | None:
    fits = job.options.part_size <= _PART_SIZE_MAX
    return None if fits else f"{job.options.part_size} bytes, and no store takes such a part"


def _small_files(job: JobObject, _: Place) -> str | None:
    if job.options.small_files is None:
        return None
    if job.options.committer != "magic" or job.options.tracking != "memory":
        return "only the magic committer with tracking='memory' keeps small files"
    fits = job.options.small_files <= BUNDLE_SIZE_LIMIT
    return None if fits else f"{job.options.small_files} bytes, more than a bundle holds"


def _own_path(job: JobObject, place: Place) -> str | None:
    if job.options.places.own_path is None:
        return None
    try:
        found = locate(f"{place.bucket}/{job.options.places.own_path}")
        leads_here = found is not None and (found.key, found.destination) == (
            job.options.places.own_path,
            place.destination,
        )
    except UsageError:
        leads_here = False
    return None if leads_here else f"{job.options.places.own_path!a} is not a magic path of this destination"


def _also_overwrite(job: JobObject, place: Place) -> str | None:
    if job.options.places.also_overwrite and not job.options.mode.startswith("overwrite"):
        return f"a job of mode {job.options.mode!a} replaces no other dataset"
    for one in job.options.places.also_overwrite:
        if has_dots(one) or not (not one or paths.overlap(one, place.destination)):
            return f"{one!a} lies neither below the destination nor above it"
    return None


def _keep(job: JobObject, _: Place) -> str | None:
    fits = job.options.keep.ms is None or job.options.keep.ms <= PERIOD_MAX_MS
    return None if fits else "longer than a hundred years"


def _may_restore(job: JobObject) -> bool:
    return job.options.mode == "overwrite" or (
        job.options.mode == "overwrite_partitions" and job.partitions is not None
    )


def _restores(job: JobObject, _: Place) -> str | None:
    if job.options.rollback.job is None:
        return None
    if not _may_restore(job):
        mode = job.options.mode
        return f"a rollback replaces everything or the partitions that it names; this job has {mode!a}"
    return "the job itself" if job.options.rollback.job == job.job_id else None


def _rolled_back(job: JobObject, _: Place) -> str | None:
    partitions = job.options.rollback.partitions
    return None if partitions is None else _wrong_partition(partitions)


def _begun_by(job: JobObject, _: Place) -> str | None:
    return (
        None
        if job.options.hadoop.begun_by in _BEGUN_BY
        else f"{job.options.hadoop.begun_by!a} is not a Hadoop committer"
    )


def _chunks(name: str, who: str, allowed: Callable[[JobObject], bool], by: str) -> tuple[Row, ...]:
    """Rows of chunks that only some jobs have."""
    keys = _facts(lambda job: (one.key for one in getattr(job, name)), allowed)
    return (
        Row(f"{name}[].key", f"the job's own directory of facts; only {who} any", keys),
        Row(f"{name}[].sha256", "the bytes that are read", by=f"transaction.facts.{by}"),
        *same(SHOWN, f"{name}[].files", f"{name}[].bytes"),
    )


_ROWS: Final = (
    Row("jobId", "the job of the directory that it lies in", _job_id),
    Row("bucket", "the bucket that it was read from", _bucket),
    Row("destination", "the directory that it was read below", _destination),
    Row("options.hadoop.layout", "the kind of directory that it lies in", _layout),
    Row(
        "state",
        "the states of a job; what each allows stands in job-object.md",
        by="protocol.job_state.decide",
    ),
    Row("nonce", "nothing: only compared with itself, read again"),
    Row("driver", "nothing: only compared with the token that the driver was given"),
    Row("attempt", "0 to 9999", _attempt),
    Row(
        "options.committer", "one word; `manifest` and `file` rename, all others complete uploads", _committer
    ),
    Row("options.mode", "the modes"),
    Row("options.uniqueNames", "true or false; changes which uploads are found by name, of this job alone"),
    Row("options.tracking", "`store` or `memory`"),
    Row("options.runId", "the run of the driver that looks for its predecessor"),
    Row("created", "a moment before the year 10000", moment(lambda job: job.created_ms)),
    Row("changed", "a moment before the year 10000", moment(lambda job: job.changed_ms)),
    Row("host", "nothing: only shown"),
    Row("tasks", "nothing: only shown"),
    Row("files", "the sum of its chunks", _sum(lambda job: job.files, lambda one: one.files)),
    Row("bytes", "the sum of its chunks", _sum(lambda job: job.size, lambda one: one.size)),
    Row(
        "chunks[].key",
        "the job's own directory of facts",
        _facts(lambda job: (one.key for one in job.chunks), lambda _: True),
    ),
    Row("chunks[].sha256", "the bytes that are read", by="transaction.facts.read_output"),
    Row("chunks[].files", "`files`, as a sum"),
    Row("chunks[].bytes", "`bytes`, as a sum"),
    *_chunks("deletions", "a mode that replaces, or a committer that renames, has", _deletes, "read_old"),
    Row("partitions[]", "directories below the destination; only modes of partitions have any", _partitions),
    Row("pointer.jobId", "a job id, not the job's own", _pointer),
    Row("pointer.etag", "nothing: only compared with the pointer"),
    Row("olderFiles", "nothing: a warning to readers"),
    Row("olderExtra[]", "nothing: a warning to readers"),
    Row("options.rerun", "`skip`, `overwrite` or `error`"),
    Row("options.rollback.partitions[]", "as `partitions[]`", _rolled_back),
    Row("oldSuccess.key", "the job's own directory of facts", _facts(_old_success, lambda _: True)),
    Row("oldSuccess.sha256", "the bytes that are read", by="transaction.facts.read_success"),
    Row("oldSuccess.etag", "the `_SUCCESS` of the destination: only that version is replaced"),
    Row("equalKeys[]", "keys of data below the destination", _equal_keys),
    Row("irreversible", "true or false; keeps a job from being taken back"),
    Row("reason", "nothing: only shown"),
    Row(
        "options.places.extra[]",
        "directories beside the destination and each other; only committers with uploads have any; believed "
        "where the record of the job that lies there names this destination",
        _extra_destinations,
        by="transaction.record.believed",
    ),
    Row("options.hadoop.etagFormat", "`string` or `object`"),
    Row("options.partSize", "at most 5 GiB", _part_size),
    Row("options.smallFiles", "at most a bundle; only `magic` with `memory` has any", _small_files),
    Row("options.places.ownPath", "a magic path of this destination", _own_path),
    Row(
        "options.places.alsoOverwrite[]",
        "directories below the destination or above it; only modes that replace",
        _also_overwrite,
    ),
    Row(
        "objectSettings.*",
        "an ACL, a grant or the ARN of a key counts only where this process was given the same",
        by="stores.object_settings.check_recorded",
    ),
    Row("options.keep.ms", "at most a hundred years", _keep),
    Row("options.alias", "a place next to the dataset that its claim names", by="alias.follow.claim"),
    Row("options.keep.rule", "what `magicfs.Keep` can have written", by="past.held.rule_of"),
    Row(
        "options.rollback.job",
        "another job; only mode `overwrite` has any, or one that names its partitions",
        _restores,
    ),
    *_chunks("restored", "a rollback has", lambda job: job.options.rollback.job is not None, "read_restored"),
    *_chunks("hidden", "modes that name what they replace have", _hides, "read_old"),
    Row("options.audit.rules[]", "nothing: only shown; with any, the job is not published unjudged"),
    Row("audit.verdicts[].rule", "nothing: only shown"),
    Row("audit.verdicts[].passed", "true or false; a failed one keeps the job from being published"),
    Row("audit.verdicts[].told", "nothing: only shown"),
    Row("audit.against", "a job id; only shown"),
    Row("audit.audited", "nothing: only shown"),
    Row("audit.accepted", "nothing: who may write it may publish by the record of the job, too"),
    Row("numberedVersions", "true or false"),
    Row("options.hadoop.begunBy", "the committers of Hadoop that are known", _begun_by),
)

JOB_ROWS: Final = (
    *_ROWS,
    *(Row(name, words) for name, words in plain_options() if name not in {row.field for row in _ROWS}),
)
"""Options that nothing else is compared with have what their declaration says."""
