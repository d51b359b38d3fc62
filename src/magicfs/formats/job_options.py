"""What a job was asked for: one value, declared here and nowhere else.

``job.json`` holds it under the names of its declaration, in camel case. An option that equals its default is
left out of the file, so a default is never changed. To add an option, declare it here, let its feature read
it, and describe it in ``docs/job-object.md`` and ``docs/job-options.md``.
"""

# ruff: noqa: RUF009 - the calls make fields, as ``dataclasses.field`` does

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args

from magicfs.formats.document import shown, with_unknown
from magicfs.formats.fields import Fields
from magicfs.formats.pending import EtagFormat
from magicfs.protocol.layout import LayoutName
from magicfs.protocol.modes import REMOVALS, WRITE_MODES, Mode
from magicfs.protocol.parts import DEFAULT_PART_SIZE

__all__ = [
    "ALL_NEEDS",
    "GIVEN",
    "Audits",
    "Collected",
    "Hadoop",
    "JobOptions",
    "Keep",
    "Places",
    "Rerun",
    "Rollback",
    "Tracking",
    "choice",
    "plain_options",
]

Rerun = Literal["skip", "overwrite", "error"]
"""If its run is published already, a job publishes nothing, publishes all the same, or raises at setup."""

Tracking = Literal["store", "memory"]
"""Where finished uploads are remembered until their task commits."""

_T = TypeVar("_T", bound="_Group")
_Read = Callable[[Fields, str], object]


def choice(choices: tuple[str, ...], found: Fields, name: str) -> str:
    """One of some texts. Raises FormatError for another."""
    text = found.required_text(name)
    if text not in choices:
        raise found.error(name, f"{shown(text)} is not one of {', '.join(choices)}")
    return text


_FLAG: Final[_Read] = partial(Fields.flag, default=False)
_TRUE: Final[_Read] = partial(Fields.flag, default=True)
_SIZE: Final[_Read] = partial(Fields.required_integer, minimum=1)
_TEXT: Final[_Read] = Fields.required_text
_NAME: Final[_Read] = partial(Fields.required_text)  # not only shown, so the gate has a row for it
_TEXTS: Final[_Read] = Fields.texts


def _one_of(choices: tuple[str, ...]) -> _Read:
    return partial(choice, choices)


def _read_child(kind: type[_T], found: Fields, name: str) -> _T:
    return _read(kind, found.child(name))


def _read(kind: type[_T], found: Fields) -> _T:
    """A group as a document has it."""
    values: dict[str, Any] = {}
    for one in _RECORDED[kind]:
        if one.default is MISSING or found.has(one.key):
            values[one.name] = one.read(found, one.key)
    return kind(**values, unknown=found.rest())


def _option(default: Any, read: _Read, *, needs: str = "", given: str = "", recorded: bool = True) -> Any:
    """An option of a job.

    Args:
        default: What it is if nobody asks for it.
        read: Reads it from its group in the job object, and checks what a caller gives.
        needs: What an older magicfs has to know to carry out a job that asks for it; see ``requires``.
        given: Its name in ``Job(options={…})``; empty if no caller gives it there.
        recorded: Whether the job object has it; otherwise it stays in this process.
    """
    return field(
        default=default,
        metadata={"read": read if recorded else None, "needs": needs, "given": given, "check": read},
    )


def _group(kind: type) -> Any:
    """Options that belong together; in the job object they have a member of their own."""
    return field(default_factory=kind, metadata={"read": partial(_read_child, kind), "needs": ""})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    unknown: Mapping[str, object] = field(default_factory=dict)  # what a newer magicfs has added

    def to_document(self) -> dict[str, object]:
        """The member of the job object: what differs from the defaults."""
        document: dict[str, object] = {}
        for one in _RECORDED[type(self)]:
            value = getattr(self, one.name)
            if value != one.default:
                document[one.key] = value.to_document() if isinstance(value, _Group) else value
        return with_unknown(document, self.unknown)

    def needs(self) -> Iterator[str]:
        """What an older magicfs has to know to carry the job out."""
        for one in _RECORDED[type(self)]:
            value = getattr(self, one.name)
            if isinstance(value, _Group):
                yield from value.needs()
            elif one.needs and value != one.default:
                yield one.needs


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep(_Group):
    """What becomes of the files that a job replaces."""

    ms: int | None = _option(None, _SIZE, needs="keep")
    """For how many milliseconds they stay; None if they are deleted."""
    in_place: bool = _option(False, _FLAG, given="keep_in_place")
    rule: str = _option("", _TEXT, needs="retention")  # by which they stay for longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected(_Group):
    """What is kept of the files that a job publishes."""

    footers: bool = _option(False, _FLAG, given="footers")
    checksums: bool = _option(False, _FLAG, given="checksums")
    sealed: bool = _option(False, _FLAG, needs="seal", given="seal")  # a SHA-256 of each, ended with the key


@dataclass(frozen=True, slots=True, kw_only=True)
class Audits(_Group):
    """What has to judge a job before it is published."""

    rules: tuple[str, ...] = _option((), _TEXTS, needs="audit")  # by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Places(_Group):
    """Directories apart from the destination, as keys of its bucket without a slash at their end."""

    extra: tuple[str, ...] = _option((), _TEXTS, given="extra_destinations")
    also_overwrite: tuple[str, ...] = _option((), _TEXTS, given="also_overwrite")
    own_path: str | None = _option(None, _TEXT)
    """A user's own magic path whose files the job publishes: their uploads are not the job's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback(_Group):
    """What a rollback shows again."""

    job: str | None = _option(None, Fields.nullable_job_id, needs="restore")  # whose files
    partitions: tuple[str, ...] | None = _option(None, _TEXTS)  # only in these; None for all


@dataclass(frozen=True, slots=True, kw_only=True)
class Hadoop(_Group):
    """In which form a JVM of Hadoop reads what the job's tasks leave."""

    layout: LayoutName = _option("__magic_job", _one_of(get_args(LayoutName)))  # where they work
    etag_format: EtagFormat = _option("string", _one_of(get_args(EtagFormat)))  # of the parts of uploads
    sets: bool = _option(False, _FLAG)  # whether pending sets are copied to where its job commit looks
    begun_by: str = _option("", _TEXT)
    """Which of its committers began the job in a JVM, such as ``hadoop-magic``; empty for a job of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions(_Group):
    """What a job was asked for. A value, the same in every process."""

    committer: str = field(metadata={"read": _TEXT, "needs": ""})
    mode: Mode = field(metadata={"read": _one_of((*WRITE_MODES, *REMOVALS)), "needs": ""})
    """What to do about data that is there already."""

    run_id: str | None = _option(None, _TEXT)  # name of the run, by which a second one finds the first
    rerun: Rerun = _option("skip", _one_of(get_args(Rerun)))  # what to do if that run is published already
    label: str = _option("", _TEXT, given="label")  # what people read who find the job unfinished
    allow_empty: bool = _option(False, _FLAG, given="allow_empty", recorded=False)
    success_marker: bool = _option(True, _TRUE, given="success_marker")
    single_driver: bool = _option(False, _FLAG, given="single_driver", recorded=False)
    unique_names: bool = _option(True, _TRUE, given="unique_names")
    tracking: Tracking = _option("store", _one_of(get_args(Tracking)), given="tracking")
    part_size: int = _option(DEFAULT_PART_SIZE, _SIZE, given="part_size")
    small_files: int | None = _option(None, _SIZE, given="small_files")
    warn_below: int | None = _option(None, _SIZE, needs="sizes", given="warn_below")  # mean bytes of a file
    alias: str | None = _option(None, _NAME, needs="alias", given="alias")  # of the only file of the dataset
    inline_limit: int | None = _option(None, _SIZE, recorded=False)
    """Bytes of the largest pending set inside a task commit; None for the default."""

    keep: Keep = _group(Keep)
    collect: Collected = _group(Collected)
    audit: Audits = _group(Audits)
    places: Places = _group(Places)
    rollback: Rollback = _group(Rollback)
    hadoop: Hadoop = _group(Hadoop)

    @classmethod
    def asked(cls, given: Mapping[str, Any], **named: Any) -> JobOptions:
        """What a caller gave by the names of ``GIVEN``, and fields of this class, which come first."""
        groups: dict[type[_Group], dict[str, Any]] = {}
        for name, value in given.items():
            groups.setdefault(GIVEN[name].group, {})[GIVEN[name].field] = value
        own = groups.pop(cls, {})
        places = {one.default_factory: one.name for one in fields(cls)}
        made = {places[kind]: kind(**values) for kind, values in groups.items()}
        return cls(**made | own | named)

    @classmethod
    def of(cls, found: Fields) -> JobOptions:
        """Those that a job object has. Raises FormatError for one that cannot be."""
        return _read(cls, found)


class _Recorded(NamedTuple):
    """How one field of a group stands in the job object."""

    name: str
    key: str
    read: _Read
    default: object
    needs: str


def _recorded(kind: type[_Group]) -> tuple[_Recorded, ...]:
    found = []
    for one in fields(kind):
        if (read := one.metadata.get("read")) is not None:
            head, *rest = one.name.split("_")
            default = one.default if one.default_factory is MISSING else one.default_factory()
            key = head + "".join(map(str.capitalize, rest))
            found.append(_Recorded(one.name, key, read, default, one.metadata["needs"]))
    return tuple(found)


_RECORDED: Final[Mapping[type[_Group], tuple[_Recorded, ...]]] = {
    kind: _recorded(kind) for kind in (Keep, Collected, Audits, Places, Rollback, Hadoop, JobOptions)
}


class Given(NamedTuple):
    """An option that a caller gives in ``Job(options={…})``."""

    group: type[_Group]
    field: str
    default: object
    check: _Read


GIVEN: Final[Mapping[str, Given]] = {
    name: Given(kind, one.name, one.default, one.metadata["check"])
    for kind in _RECORDED
    for one in fields(kind)
    for name in [one.metadata.get("given")]
    if name
}

_PLAIN: Final[Mapping[_Read, str]] = dict.fromkeys((_FLAG, _TRUE), "true or false") | {
    _SIZE: "a whole number above 0",
    _TEXT: "nothing: only shown",
}


def plain_options() -> Iterator[tuple[str, str]]:
    """The options of the job object that are a truth value, a number or a text, and what they may be."""
    groups = {one.default_factory: f"{one.name}." for one in fields(JobOptions)}
    for kind, recorded in _RECORDED.items():
        place = f"options.{groups.get(kind, '')}"
        yield from ((place + one.key, _PLAIN[one.read]) for one in recorded if one.read in _PLAIN)


ALL_NEEDS: Final = frozenset(one.needs for group in _RECORDED.values() for one in group if one.needs)
