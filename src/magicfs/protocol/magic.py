"""What a magic path means.

A write to ``DEST/__magic_job-<id>/…/__base/year=2026/part.parquet`` is a delayed upload to
``DEST/year=2026/part.parquet``. The rules are those of Hadoop's ``MagicCommitPaths``: the first magic
element counts; ``__base`` is looked for only after it, and the first one counts; without ``__base`` the
destination is what stands before the magic element plus the last element. (The architecture paper says
that the last ``__base`` counts; Hadoop's code takes the first, and so do we:
``docs/design/001-first-base.md``.)

One rule is ours alone. In the layout of a committer, ``…/tasks/<attempt>/__to=<directory>/__base/<relative>``
is a delayed upload to ``<directory>/<relative>`` in the same bucket; in that one element ``%25`` stands for a
percent sign and ``%2F`` for a slash. Only a job with such an extra destination commits it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

from magicfs.errors import UsageError
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import AttemptId, JobId, TaskId

MAGIC = "__magic"
MAGIC_JOB = "__magic_job-"
BASE = "__base"
PENDING = ".pending"
PENDING_SET = ".pendingset"
_TO = "__to="
_JOB = "job-"
_TASKS = "tasks"


@dataclass(frozen=True, slots=True)
class Dialect:
    """Which elements are magic."""

    plain: bool = True  # whether a bare ``__magic`` counts, as in the paper and in Hadoop up to 3.3
    job: bool = True  # whether ``__magic_job-<id>`` counts, as in Hadoop from 3.4 (HADOOP-18797)

    @classmethod
    def of_layout(cls, layout: str | None) -> Dialect:
        """The elements that a layout has, and no other; both kinds for none."""
        return cls() if layout is None else cls(plain=layout == MAGIC, job=layout != MAGIC)

    def is_magic(self, element: str) -> bool:
        return (self.plain and element == MAGIC) or (self.job and element.startswith(MAGIC_JOB))


@dataclass(frozen=True, slots=True)
class PathOwner:
    """The task attempt that a path in the committer's own layout belongs to."""

    job: JobId
    task: TaskId
    attempt: AttemptId
    directory: str
    """``bucket/key`` of the task attempt's directory."""

    @property
    def job_directory(self) -> str:
        """``bucket/key`` of the directory in which the job keeps its work."""
        return self.directory.rsplit("/", 3)[0]

    @property
    def is_ours(self) -> bool:
        """Whether the attempt is one of ours: then its job has a job object. Hadoop's have none."""
        return ids.is_attempt_of_ours(self.attempt)


@dataclass(frozen=True, slots=True)
class MagicPath:
    """A path with a magic element, taken apart."""

    bucket: str
    key: str
    parents: tuple[str, ...]
    """The elements before the magic one: the destination directory."""
    magic: str
    children: tuple[str, ...]
    """The elements after the magic one."""
    owner: PathOwner | None = field(init=False, compare=False, repr=False)
    """None if the layout is not a committer's."""

    def __post_init__(self) -> None:
        named = 6 if len(self.children) > 5 and self.children[4].startswith(_TO) else 5
        object.__setattr__(self, "owner", _find_owner(self._magic_directory, self.children[:named]))

    @property
    def _magic_directory(self) -> str:
        return "/".join((self.bucket, *self.parents, self.magic))

    @property
    def scope(self) -> str:
        """The directory of its task attempt, or else the magic directory, with the bucket.

        Files are tracked by it until their task commits.
        """
        return self.owner.directory if self.owner else self._magic_directory

    @property
    def path(self) -> str:
        """``bucket/key``."""
        return f"{self.bucket}/{self.key}"

    @property
    def is_delayed(self) -> bool:
        """Whether a write here is delayed; the committer's own files are ordinary writes."""
        return not (self.children and self.children[-1].endswith((PENDING, PENDING_SET)))

    @property
    def pending_key(self) -> str:
        """Key of the ``.pending`` file that describes the upload."""
        return self.key + PENDING

    @property
    def destination(self) -> str:
        """The destination directory, or the extra one that the path names.

        Raises UsageError for an extra one that ``element_to`` did not make.
        """
        children = self.children
        if len(children) > 5 and children[2] == _TASKS and children[5] == BASE:
            return directory_of(children[4]) or "/".join(self.parents)
        return "/".join(self.parents)

    @property
    def relative(self) -> tuple[str, ...]:
        """The elements of the final key below the destination directory.

        Raises UsageError if nothing follows the magic element, or ``__base`` comes last.
        """
        if not self.children:
            raise UsageError(
                f"{self.path}: no file is named after {self.magic!r}; add a task directory and a name"
            )
        if BASE not in self.children:
            return self.children[-1:]
        below = self.children[self.children.index(BASE) + 1 :]
        if not below:
            raise UsageError(f"{self.path}: no file is named after {BASE!r}; add a name")
        return below

    def below(self, key: str) -> MagicPath:
        """The path of another key under the same magic element."""
        return replace(self, key=key, children=paths.elements(key)[len(self.parents) + 1 :])

    @property
    def final_key(self) -> str:
        """The key at which the upload will appear. Raises UsageError as ``relative`` does."""
        return paths.join(self.destination, *self.relative)


def element_to(directory: str) -> str:
    """The element of a work path that leads to an extra destination."""
    return _TO + directory.replace("%", "%25").replace("/", "%2F")


# A task writes many files, and this is what their paths have in common.
@lru_cache(maxsize=256)
def _find_owner(magic_directory: str, children: tuple[str, ...]) -> PathOwner | None:
    if len(children) < 5 or children[2] != _TASKS or not children[0].startswith(_JOB):
        return None
    try:
        is_extra = len(children) > 5 and directory_of(children[4]) is not None
        if children[5 if is_extra else 4] != BASE:
            return None
        job = ids.job_id(children[0].removeprefix(_JOB))
        attempt = ids.check_attempt(children[3])
        task = ids.task_of_attempt(attempt)
    except UsageError:
        return None
    return PathOwner(job, task, attempt, "/".join((magic_directory, *children[:4])))


def directory_of(element: str) -> str | None:
    """The extra destination that an element of a work path leads to; None for an ordinary element.

    Raises UsageError if it names no directory that ``element_to`` could have been given.
    """
    if not element.startswith(_TO):
        return None
    directory = element.removeprefix(_TO).replace("%2F", "/").replace("%25", "%")
    names = directory.split("/")
    if element_to(directory) != element or not {"", ".", ".."}.isdisjoint(names):
        raise UsageError(f"{element!r} does not name a directory; use the path that task.path_to returns")
    return directory


def locate(path: str, dialect: Dialect | None = None) -> MagicPath | None:
    """Take a path apart at its first magic element; None for an ordinary path.

    ``path``: ``bucket/key``, or ``/key`` for files of a machine, without a scheme, not encoded; several
    slashes in a row count as one, as in Hadoop's ``Path``. ``dialect``: which elements are magic; both kinds
    by default. The path of a task attempt of ours is magic in every dialect: its job chose the element.

    Raises UsageError if no directory or bucket stands before the magic element, or the path of a magic write
    contains ``.``, ``..`` or ``::`` (which no chained URL could name again).
    """
    if dialect is not None and dialect != Dialect():
        either = _located(path, Dialect())
        if either is not None and either.owner is not None and either.owner.is_ours:
            return either
    return _located(path, dialect or Dialect())


def _located(path: str, dialect: Dialect) -> MagicPath | None:
    bucket, _, key = path.partition("/")
    names = paths.elements(key)
    if dialect.is_magic(bucket):
        raise UsageError(f"{path!r} has the magic element {bucket!r} as its bucket; put the bucket before it")
    index = next((i for i, name in enumerate(names) if dialect.is_magic(name)), None)
    if index is None:
        return None
    if not bucket and not index:
        raise UsageError(f"{path!r} has no bucket; write it as bucket/dataset/{names[index]}/…")
    if "::" in path:
        raise UsageError(f"{path!r} contains '::', which separates chained URLs; choose another name")
    if any(name in {".", ".."} for name in names):
        raise UsageError(f"{path!r} contains a '.' or '..' element; write the full path")
    return MagicPath(bucket, "/".join(names), names[:index], names[index], names[index + 1 :])
