"""What a job was asked for: one value, declared here and nowhere else.

``job.json`` holds it under the names of its declaration, in camel case. An option that equals its default is
left out of the file, so a default is never changed. To add an option, declare it here, let its feature read
it, and describe it in ``docs/job-object.md`` and ``docs/job-options.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import partial
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, get_args

from magicfs.formats.fields import Fields
from magicfs.formats.pending import EtagFormat
from magicfs.formats.record import FLAG, TEXT, Read, Record, child, choice, key_of, member, record
from magicfs.protocol.layout import LayoutName
from magicfs.protocol.modes import REMOVALS, WRITE_MODES, Mode
from magicfs.protocol.parts import DEFAULT_PART_SIZE

Rerun = Literal["skip", "overwrite", "error"]
"""If its run is published already, a job publishes nothing, publishes all the same, or raises at setup."""

Tracking = Literal["store", "memory"]
"""Where finished uploads are remembered until their task commits."""

_SIZE: Final[Read] = partial(Fields.required_integer, minimum=1)
_NAME: Final[Read] = partial(Fields.required_text)  # not only shown, so the gate has a row for it


def _one_of(choices: tuple[str, ...]) -> Read:
    return partial(choice, choices)


def _option(default: Any, read: Read, *, needs: str = "", given: str = "", recorded: bool = True) -> Any:
    """An option of a job.

    Args:
        default: What it is if nobody asks for it.
        read: Reads it from its group in the job object, and checks what a caller gives.
        needs: What an older magicfs has to know to carry out a job that asks for it; see ``requires``.
        given: Its name in ``Job(options={…})``; empty if no caller gives it there.
        recorded: Whether the job object has it; otherwise it stays in this process.
    """
    more = {"needs": needs, "given": given, "check": read}
    return member(read if recorded else None, default=default, rare=True, more=more)


def _group(kind: type[Record]) -> Any:
    """Options that belong together; in the job object they have a member of their own."""
    return member(child(kind), default_factory=kind, rare=True, more={"group": True})


@record
class Keep(Record):
    """What becomes of the files that a job replaces."""

    ms: int | None = _option(None, _SIZE, needs="keep")
    """For how many milliseconds they stay; None if they are deleted."""
    in_place: bool = _option(False, FLAG, given="keep_in_place")
    rule: str = _option("", TEXT, needs="retention")  # by which they stay for longer


@record
class Collected(Record):
    """What is kept of the files that a job publishes."""

    footers: bool = _option(False, FLAG, given="footers")
    checksums: bool = _option(False, FLAG, given="checksums")
    sealed: bool = _option(False, FLAG, needs="seal", given="seal")  # a SHA-256 of each, ended with the key


@record
class Audits(Record):
    """What has to judge a job before it is published."""

    rules: tuple[str, ...] = _option((), Fields.texts, needs="audit")  # by name


@record
class Places(Record):
    """Directories apart from the destination, as keys of its bucket without a slash at their end."""

    extra: tuple[str, ...] = _option((), Fields.texts, given="extra_destinations")
    also_overwrite: tuple[str, ...] = _option((), Fields.texts, given="also_overwrite")
    own_path: str | None = _option(None, TEXT)
    """A user's own magic path whose files the job publishes: their uploads are not the job's."""


@record
class Rollback(Record):
    """What a rollback shows again."""

    job: str | None = _option(None, Fields.nullable_job_id, needs="restore")  # whose files
    partitions: tuple[str, ...] | None = _option(None, Fields.texts)  # only in these; None for all


@record
class Hadoop(Record):
    """In which form a JVM of Hadoop reads what the job's tasks leave."""

    layout: LayoutName = _option("__magic_job", _one_of(get_args(LayoutName)))  # where they work
    etag_format: EtagFormat = _option("string", _one_of(get_args(EtagFormat)))  # of the parts of uploads
    sets: bool = _option(False, FLAG)  # whether pending sets are copied to where its job commit looks
    begun_by: str = _option("", TEXT)
    """Which of its committers began the job in a JVM, such as ``hadoop-magic``; empty for a job of ours."""


@record
class JobOptions(Record):
    """What a job was asked for. A value, the same in every process."""

    committer: str = member(TEXT)
    mode: Mode = member(_one_of((*WRITE_MODES, *REMOVALS)))
    """What to do about data that is there already."""

    run_id: str | None = _option(None, TEXT)  # name of the run, by which a second one finds the first
    rerun: Rerun = _option("skip", _one_of(get_args(Rerun)))  # what to do if that run is published already
    label: str = _option("", TEXT, given="label")  # what people read who find the job unfinished
    allow_empty: bool = _option(False, FLAG, given="allow_empty", recorded=False)
    success_marker: bool = _option(True, FLAG, given="success_marker")
    single_driver: bool = _option(False, FLAG, given="single_driver", recorded=False)
    unique_names: bool = _option(True, FLAG, given="unique_names")
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
        groups: dict[type[Record], dict[str, Any]] = {}
        for name, value in given.items():
            groups.setdefault(GIVEN[name].group, {})[GIVEN[name].field] = value
        own = groups.pop(cls, {})
        made = {_GROUPS[kind]: kind(**values) for kind, values in groups.items()}
        return cls(**made | own | named)

    def needs(self) -> set[str]:
        """What an older magicfs has to know to carry the job out."""
        return {needs for value, default, needs in _NEEDS if value(self) != default}


_GROUPS: Final[Mapping[Any, str]] = {
    one.default_factory: one.name for one in fields(JobOptions) if "group" in one.metadata
}
_OPTIONS: Final = [
    (kind, f"{group}." if group else "", one)
    for kind, group in (*_GROUPS.items(), (JobOptions, ""))
    for one in fields(kind)
    if "check" in one.metadata
]
_NEEDS: Final = [
    (attrgetter(place + one.name), one.default, one.metadata["needs"])
    for _, place, one in _OPTIONS
    if one.metadata["needs"]
]
ALL_NEEDS: Final[frozenset[str]] = frozenset(needs for *_, needs in _NEEDS)


class Given(NamedTuple):
    """An option that a caller gives in ``Job(options={…})``."""

    group: type[Record]
    field: str
    default: object
    check: Read


GIVEN: Final[Mapping[str, Given]] = {
    one.metadata["given"]: Given(kind, one.name, one.default, one.metadata["check"])
    for kind, _, one in _OPTIONS
    if one.metadata["given"]
}

_PLAIN: Final[Mapping[Read, str]] = {
    FLAG: "true or false",
    _SIZE: "a whole number above 0",
    TEXT: "nothing: only shown",
}


def plain_options() -> Iterator[tuple[str, str]]:
    """The options of the job object that are a truth value, a number or a text, and what they may be."""
    for _, place, one in _OPTIONS:
        if one.metadata["read"] in _PLAIN:
            yield f"options.{place}{key_of(one)}", _PLAIN[one.metadata["read"]]
