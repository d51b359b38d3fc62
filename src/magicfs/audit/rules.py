"""The rules. Each is a value with a one-line description, and reports its findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Protocol, cast

from magicfs.errors import UsageError
from magicfs.formats.audit import Said
from magicfs.formats.footer import Column, Footer, Schema
from magicfs.protocol.modes import partition_of
from magicfs.transaction.context import StagedFile


@dataclass(frozen=True, slots=True)
class AuditedFile:
    """A file of the job.

    Attributes:
        key: Relative to the destination.
        bytes: Its size.
        footer: Its footer; None if it is unknown.
        said: The results of the checks of its content, by name: what is wrong with it, or None.
    """

    key: str
    bytes: int
    footer: Footer | None
    said: Said = field(default_factory=dict)

    @property
    def partition(self) -> dict[str, str]:
        """The values in the names of its directories: ``{"day": "2026-01-01"}`` of ``day=2026-01-01/…``."""
        return partition_of(self.key)


@dataclass(frozen=True, slots=True)
class Previous:
    """The publication before.

    Attributes:
        job_id: The job.
        files: How many files it added.
        bytes: Their size.
        rows: Their rows; None if they are unknown for some file.
        schemas: Their schemas by fingerprint; one that is too large has no columns.
    """

    job_id: str
    files: int
    bytes: int
    rows: int | None
    schemas: Mapping[str, Schema] = field(default_factory=dict)


@dataclass
class Audited:
    """A job that is about to be published.

    Attributes:
        job_id: The job.
        destination: URL of its destination.
        run_id: Name of its run; None without one.
        mode: Its mode.
        previous: The publication before it; None if there is none.
    """

    job_id: str
    destination: str
    run_id: str | None
    mode: str
    previous: Previous | None
    _files: Callable[[], Iterator[AuditedFile]] = field(repr=False)

    def files(self) -> Iterator[AuditedFile]:
        """Every file that the job adds at the destination; you can iterate more than once."""
        return self._files()

    @property
    def count(self) -> int:
        """How many files."""
        return int(self._sums["count"])

    @property
    def bytes(self) -> int:
        """Their size."""
        return int(self._sums["bytes"])

    @property
    def unknown(self) -> int:
        """The number of files without a footer."""
        return int(self._sums["unknown"])

    @property
    def rows(self) -> int | None:
        """Their rows; None if they are unknown for some file."""
        return None if self.unknown else int(self._sums["rows"])

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """Their schemas by fingerprint."""
        found: Mapping[str, Schema] = self._sums["schemas"]
        return found

    @cached_property
    def _sums(self) -> dict[str, Any]:
        count = size = unknown = rows = 0
        schemas: dict[str, Schema] = {}
        for one in self.files():
            count, size = count + 1, size + one.bytes
            if one.footer is None:
                unknown += 1
                continue
            rows += one.footer.rows
            if one.footer.schema is not None:
                schemas[one.footer.schema.fingerprint] = one.footer.schema
        return {"count": count, "bytes": size, "unknown": unknown, "rows": rows, "schemas": schemas}


Told = tuple[bool, str]
"""Whether a rule lets the job be published, and what it found."""

_TEXT_MAX: Final = 1000
"""Characters of the name of a rule, and of its message."""

_WIDER: Final[Mapping[str, frozenset[str]]] = {
    "int8": frozenset({"int16", "int32", "int64"}),
    "int16": frozenset({"int32", "int64"}),
    "int32": frozenset({"int64"}),
    "uint8": frozenset({"uint16", "uint32", "uint64"}),
    "uint16": frozenset({"uint32", "uint64"}),
    "uint32": frozenset({"uint64"}),
    "float": frozenset({"double"}),
}
"""Types that hold every value of another one."""


class Rule(Protocol):
    """A condition that a job has to meet before it is published."""

    def judge(self, seen: Audited) -> Told:
        """Whether the job meets it, and the reason."""


@dataclass(frozen=True)
class Rows:
    """The job has at least ``min`` and at most ``max`` rows."""

    min: int = 0
    max: int | None = None

    def judge(self, seen: Audited) -> Told:
        if seen.rows is None:
            return False, _without_footer(seen)
        passed = self.min <= seen.rows and (self.max is None or seen.rows <= self.max)
        return passed, f"{seen.rows} rows"


@dataclass(frozen=True)
class RowChange:
    """The row count, compared with the previous publication: at most this share less or more.

    ``RowChange(less=0.2)`` fails on a job of 70 rows after one of 100. None for no bound. The first
    publication passes.
    """

    less: float | None = 0.2
    more: float | None = None

    def __post_init__(self) -> None:
        if any(one is not None and one < 0 for one in (self.less, self.more)):
            raise UsageError(f"{self}: a share is 0 or more; write 0.2 for 20 %")

    def judge(self, seen: Audited) -> Told:
        before = seen.previous
        if before is None:
            return True, "nothing was published before"
        if seen.rows is None:
            return False, _without_footer(seen)
        if before.rows is None:
            return False, f"the row count of the previous job, {before.job_id}, is not known"
        change = seen.rows - before.rows
        share = f"{change / before.rows:+.1%}" if before.rows else "none before"
        text = f"{seen.rows} rows after {before.rows} ({share})"
        is_less = self.less is not None and -change > self.less * before.rows
        is_more = self.more is not None and change > self.more * before.rows
        return not (is_less or is_more), text


@dataclass(frozen=True)
class SameSchema:
    """All files have the same schema, that of the previous publication if there is one."""

    def judge(self, seen: Audited) -> Told:
        if seen.unknown:
            return False, _without_footer(seen)
        if len(seen.schemas) > 1:
            return False, f"{len(seen.schemas)} schemas: {', '.join(sorted(seen.schemas))}"
        before = seen.previous
        if before is None or not before.schemas:
            return True, f"schema {''.join(seen.schemas) or 'of no file'}, no previous schema"
        if differing := sorted(seen.schemas.keys() - before.schemas.keys()):
            return False, f"schema {differing[0]}, previously {', '.join(sorted(before.schemas))}"
        return True, f"schema {''.join(seen.schemas) or 'of no file'}"


@dataclass(frozen=True)
class CompatibleSchema:
    """Every file has the columns of the previous publication, with the same types or wider ones.

    New columns have to be nullable.
    """

    def judge(self, seen: Audited) -> Told:
        if seen.unknown:
            return False, _without_footer(seen)
        if seen.previous is None:
            return True, "nothing was published before"
        for old in seen.previous.schemas.values():
            for new in seen.schemas.values():
                if (problem := _incompatible(old, new)) is not None:
                    return False, problem
        return True, f"{len(seen.schemas)} schemas"


def _incompatible(old: Schema, new: Schema) -> str | None:
    if old.fingerprint == new.fingerprint:
        return None
    if not old.fields or not new.fields:
        return f"the columns of schema {(new if old.fields else old).fingerprint} are not known"
    columns = {one.path: one for one in new.fields}
    for one in old.fields:
        found = columns.pop(one.path, None)
        if found is None:
            return f"column {one.name} is missing"
        if found.type != one.type and found.type not in _WIDER.get(one.type, ()):
            return f"column {one.name} is {found.type}, previously {one.type}"
        if found.repeated != one.repeated:
            return f"column {one.name} is nested differently than before"
    added = [one.name for one in columns.values() if not one.optional]
    return f"column {added[0]} is new and not nullable" if added else None


@dataclass(frozen=True)
class NoNulls:
    """A column has no nulls, or at most this share of all rows."""

    column: str
    share: float = 0.0

    def judge(self, seen: Audited) -> Told:
        nulls = rows = 0
        for one in seen.files():
            column = one.footer.column(self.column) if one.footer is not None else None
            if one.footer is None or (one.footer.rows and (column is None or column.nulls is None)):
                return False, f"{one.key} has no null count for {self.column}"
            nulls, rows = nulls + ((column.nulls or 0) if column else 0), rows + one.footer.rows
        return nulls <= self.share * rows, f"{nulls} nulls in {rows} rows"


@dataclass(frozen=True)
class Range:
    """All values of a column are between two bounds, inclusive; nulls are ignored. None for no bound."""

    column: str
    min: Any = None
    max: Any = None

    def judge(self, seen: Audited) -> Told:
        bounds: tuple[Any, Any] | None = None
        for one in seen.files():
            column = one.footer.column(self.column) if one.footer is not None else None
            if one.footer is not None and _has_no_values(one.footer, column):
                continue
            if column is None or column.min is None:
                return False, f"{one.key} has no min and max for {self.column}"
            least, greatest = bounds or (column.min, column.max)
            bounds = min(least, column.min), max(greatest, column.max)
        if bounds is None:
            return True, "no values"
        least, greatest = bounds
        text = f"from {least} to {greatest}"
        try:
            passed = (self.min is None or self.min <= least) and (self.max is None or greatest <= self.max)
        except TypeError:
            return False, f"{text}, which cannot be compared with the bounds"
        return bool(passed), text


def _has_no_values(footer: Footer, column: Column | None) -> bool:
    return not footer.rows or (column is not None and column.min is None and column.nulls == footer.rows)


@dataclass(frozen=True)
class Partitions:
    """Every file is in a partition with one of these values: ``Partitions("day", ["2026-01-01"])``."""

    column: str
    values: Collection[str]

    def judge(self, seen: Audited) -> Told:
        found: set[str] = set()
        for one in seen.files():
            value = one.partition.get(self.column)
            if value is None or value not in self.values:
                where = "no partition" if value is None else f"partition {self.column}={value}"
                return False, f"{one.key} lies in {where}"
            found.add(value)
        return True, f"{len(found)} partitions"


@dataclass(frozen=True)
class Check:
    """Your own function. None or True publishes the job; False or a text does not."""

    function: Callable[[Audited], bool | str | None]
    name: str = ""

    def judge(self, seen: Audited) -> Told:
        said = self.function(seen)
        if isinstance(said, str):
            return False, said
        return said is None or bool(said), "" if said is None else f"returned {said}"

    def __str__(self) -> str:
        return self.name or getattr(self.function, "__name__", repr(self.function))


def as_rule(given: Rule | Callable[[Audited], Any]) -> Rule:
    """A rule, of what was given as one: a function becomes a ``Check``."""
    return cast("Rule", given) if hasattr(given, "judge") else Check(given)


def name_of(given: Rule | Callable[[Audited], Any]) -> str:
    """What a rule is called in documents: one line that can be written, and is not too long."""
    return plain(str(as_rule(given)))


def plain(text: str) -> str:
    """Text of others as documents can have it; never empty."""
    return text.encode("utf-8", "replace").decode()[:_TEXT_MAX] or "?"


def _without_footer(seen: Audited) -> str:
    first = next(one.key for one in seen.files() if one.footer is None)
    return f"{seen.unknown} of {seen.count} files have no recorded statistics, such as {first}"


@dataclass(frozen=True)
class FileCheck:
    """Your own function, for the content of each file: ``FileCheck(no_duplicates)``.

    The task that wrote the file calls it in its commit, with a ``StagedFile``. If it returns None or True,
    the file passes. If it returns False or a text, or raises, the audit fails. Its name, by default that of
    the function, has to be unique among the job's checks.
    """

    function: Callable[[StagedFile], bool | str | None]
    name: str = ""

    def look(self, file: StagedFile) -> str | None:
        """What is wrong with a file; None if nothing is."""
        try:
            said = self.function(file)
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            return f"raised {error!r}"
        if isinstance(said, str):
            return said or "failed the check"
        return None if said is None or said else f"returned {said}"

    def judge(self, seen: Audited) -> Told:
        name, count, wrong, unseen = str(self), 0, [], []
        for one in seen.files():
            count += 1
            if name not in one.said:
                unseen.append(one.key)
            elif (problem := one.said[name]) is not None:
                wrong.append(f"{one.key}: {problem}")
        if unseen:
            return False, f"no task has checked {len(unseen)} of {count} files, such as {unseen[0]}"
        if wrong:
            return False, f"{len(wrong)} of {count} files, {'; '.join(wrong[:3])}"
        return True, f"{count} files"

    def __str__(self) -> str:
        return self.name or getattr(self.function, "__name__", repr(self.function))
