"""Which other dataset, table or job a listed key belongs to: what no job deletes unless it is told to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from magicfs.errors import UsageError
from magicfs.protocol import ids, paths
from magicfs.protocol.layout import JOB_LOCATION, JOB_OBJECT, LayoutName, WorkLayout
from magicfs.protocol.magic import MAGIC, MAGIC_JOB
from magicfs.protocol.modes import MANIFESTS, delta_mark, overlap, table_format_of
from magicfs.protocol.temporary import TEMPORARY

Kind = Literal["dataset", "table", "job", "visitor", "work"]
"""``visitor``: an unfinished job, of which the directory is an extra destination. ``work``: that of a job
without a job object."""

_JOB: Final = "job-"
_HUDI: Final = ".hoodie"
_HUDI_PARTITION: Final = ".hoodie_partition_metadata"
_STREAM: Final = "_spark_metadata"
# Most keys of a listing are data: one look must tell them.
_PLAIN_SIGN: Final = "metadata/"
_SIGN: Final = re.compile(
    rf"(?:^|/)(?:{MAGIC}|{MANIFESTS}/|{TEMPORARY}/|_delta_log/|{_PLAIN_SIGN}|\.hoodie|{_STREAM}/)"
)


@dataclass(frozen=True, slots=True)
class Other:
    """A directory that belongs to somebody else, and how a key has shown it."""

    directory: str  # a key without a slash at its end; empty for the bucket
    kind: Kind
    what: str  # in words
    key: str  # that shows it
    layout: WorkLayout | None = None  # of the job, where its object or its location is the key


def other_of(key: str, destination: str) -> Other | None:
    """Whom a key below a destination belongs to, if not to the destination itself.

    The first sign on the way down counts. The destination's own manifests and its jobs' work are no others.
    """
    prefix = paths.prefix_of(destination)
    if not key.startswith(prefix) or len(key) == len(prefix):
        return None
    relative = key[len(prefix) :]
    if _SIGN.search(relative) is None:
        return None
    names = relative.split("/")
    for depth in range(len(names) - 1):
        directory = prefix + "/".join(names[:depth]) if depth else prefix.removesuffix("/")
        below = "/".join(names[depth:])
        if below.startswith((MAGIC, f"{MANIFESTS}/", f"{TEMPORARY}/")):
            return _of_job(key, directory, below) if any(names[:depth]) else None
        if (table := table_of(below)) is not None:
            return Other(directory, "table", table, key)
    if names[-1] == _HUDI_PARTITION:
        return Other(key.rpartition("/")[0], "table", "a table of Apache Hudi", key)
    return None


def _of_job(key: str, directory: str, below: str) -> Other | None:
    """Whom a key belongs to by the element with which it goes on ``below`` a directory."""
    if below.startswith(MAGIC):
        return _job(key, directory)
    if below.startswith(f"{MANIFESTS}/"):
        return Other(directory, "dataset", "another dataset", key)
    # Every committer has a directory for each job or attempt there.
    is_work = below.count("/") > 1
    return Other(directory, "work", "the output of an unfinished job", key) if is_work else None


def may_be_others(relative: str) -> bool:
    """Whether a path relative to a destination, which ``is_plain``, may show that it belongs to anybody else.

    All other signs begin with a dot or with ``_``.
    """
    return _PLAIN_SIGN in relative


def table_of(relative: str) -> str | None:
    """What a path shows that begins with the directory by which a table is told."""
    if (table := table_format_of(relative, "")) is not None:
        return f"a table of {table}"
    if relative.startswith(f"{_HUDI}/"):
        return "a table of Apache Hudi"
    if relative.startswith(f"{_STREAM}/"):
        return "the output of a stream of Spark"
    return None


def _job(key: str, directory: str) -> Other | None:
    """The job whose object or location a key below a magic element is; None for its work."""
    magic, _, rest = paths.relative_to(key, directory).partition("/")
    place, _, name = rest.partition("/")
    layout = layout_of(directory, magic, place)
    if layout is None:
        return None
    if name == JOB_OBJECT:
        return Other(directory, "job", f"the destination of job {layout.job}", key, layout)
    if name == JOB_LOCATION:
        return Other(directory, "visitor", f"an extra destination of job {layout.job}", key, layout)
    return None


def layout_of(directory: str, magic: str, place: str) -> WorkLayout | None:
    """The layout of the job that works in ``<directory>/<magic>/<place>``; None if none of ours does."""
    if not place.startswith(_JOB):
        return None
    try:
        job = ids.job_id(place.removeprefix(_JOB))
    except UsageError:
        return None
    if magic not in {MAGIC, f"{MAGIC_JOB}{job}"}:
        return None
    name: LayoutName = "__magic" if magic == MAGIC else "__magic_job"
    return WorkLayout(directory, job, 0, name)


def ancestors(directory: str) -> tuple[str, ...]:
    """The directories that a directory lies in, the nearest first, the bucket as an empty key last."""
    names = directory.split("/")
    return tuple("/".join(names[:depth]) for depth in reversed(range(len(names)))) if directory else ()


def directories_between(directory: str, key: str) -> tuple[str, ...]:
    """The directories that lie in a directory, and in which a key further down lies."""
    return tuple(one for one in ancestors(key) if paths.is_under(one, directory))


def concerns(directory: str, destination: str, partitions: tuple[str, ...] | None) -> bool:
    """Whether what a job replaces, the whole destination or some partitions, may lie in a directory.

    Either may lie in the other, or they are one.
    """
    scope = _scope(destination, "", partitions)
    return overlap(scope, (directory,) if directory else None)


def reaches(
    above: str, theirs: tuple[str, ...] | None, destination: str, partitions: tuple[str, ...] | None
) -> bool:
    """Whether a job further up, with a scope relative to its own destination, may touch what one replaces."""
    return overlap(theirs, _scope(destination, above, partitions))


def _scope(destination: str, above: str, partitions: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """What a job replaces, as directories relative to one above it; None for all of that."""
    if partitions is not None:
        places = tuple(paths.join(destination, one) for one in partitions)
    elif destination == above:
        return None
    else:
        places = (destination,)
    return tuple(paths.relative_to(one, above) for one in places)


@dataclass(slots=True)
class Others:
    """Those whom the keys of a listing belong to, each once. Keys are given to ``add`` one by one."""

    destination: str
    _found: dict[tuple[str, Kind, WorkLayout | None], Other] = field(default_factory=dict)

    _is_registered: bool = False
    _mark: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._mark = delta_mark(self.destination)

    def add(self, key: str) -> None:
        if key == self._mark:
            self._is_registered = True
        if (other := other_of(key, self.destination)) is not None:
            self._found.setdefault((other.directory, other.kind, other.layout), other)

    def concerned(self, partitions: tuple[str, ...] | None) -> list[Other]:
        """Those from whose directories something is replaced: of the whole destination, or of partitions."""
        found = (one for one in self._found.values() if not (self._is_registered and self._is_own_table(one)))
        return [one for one in found if concerns(one.directory, self.destination, partitions)]

    def _is_own_table(self, other: Other) -> bool:
        """Whether it is the destination itself, as a table of Delta Lake."""
        log = self._mark.rpartition("/")[0]
        return other.kind == "table" and paths.is_under(other.key, log)
