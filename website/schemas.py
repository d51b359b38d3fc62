"""The schemas of what commands print with ``--json``, made from the reports, and the kinds of errors."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from magicfs import errors
from magicfs.alias.catch_up import AliasReport
from magicfs.catalogs.catch_up import CaughtUp
from magicfs.catalogs.register import RegisterReport
from magicfs.cli.statuses import exit_code
from magicfs.datasets.commit import ListedJob
from magicfs.errors import MagicError
from magicfs.notify.catch_up import Notified
from magicfs.operate.adopt import AdoptReport
from magicfs.operate.checkup import Finding
from magicfs.operate.open_uploads import Owner
from magicfs.operate.status import Destination, UnfinishedJob
from magicfs.past.compact import CompactReport
from magicfs.past.drop import DropReport
from magicfs.past.effects import Effects
from magicfs.past.expire import ExpireReport
from magicfs.past.history import Publication
from magicfs.past.rollback import RollbackReport
from magicfs.report import JobReport, PathReport, RecoveredJob, VerifyReport
from magicfs.seal.take_in import SealReport
from magicfs.tables.release import ExpiredReleases
from magicfs.tables.rewrite import RewriteReport
from magicfs.upkeep.dead_jobs import DeadJob
from magicfs.upkeep.leftovers import Leftover
from magicfs.watch.operations import Operation

__all__ = ["DRAFT", "error", "kinds", "schemas", "tables"]

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "integer"}
_FLAG: Final[Schema] = {"type": "boolean"}
_MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}
_ANY: Final[Schema] = {"type": "object"}
_KINDS: Final = {"string": "text", "array": "list", "integer": "number", "boolean": "true or false"}
_SCALARS: Final[dict[Any, Schema]] = {
    str: _TEXT,
    int: _NUMBER,
    float: {"type": "number"},
    bool: _FLAG,
    datetime: _MOMENT,
    type(None): {"type": "null"},
}


def _of(hint: Any) -> Schema:
    """The schema of a type."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if origin in {Union, types.UnionType}:
        known = [_of(one) for one in inner if "PathLike" not in str(one)]
        return known[0] if len(known) == 1 else {"anyOf": known}
    if origin is Literal:
        return {"enum": list(inner)}
    if inspect.isclass(origin) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of(inner[1])}
    if inspect.isclass(origin) and issubclass(origin, Sequence):
        return {"type": "array", "items": _of(inner[0])}
    if is_dataclass(hint):
        return _report(hint)
    raise TypeError(f"no schema for {hint}")


def _report(cls: Any, *without: str, **more: Schema) -> Schema:
    """The schema of a dataclass as its ``to_dict`` writes it, described by its docstring."""
    hints = get_type_hints(cls)
    said = _attributes(cls)
    given = {
        one.name: more[one.name] if one.name in more else _of(hints[one.name])
        for one in fields(cls)
        if one.name not in without
    }
    made = given | {name: one for name, one in more.items() if name not in given}
    described = {
        name: {**one, "description": said[name]} if name in said else one for name, one in made.items()
    }
    return _object(**described)


def _object(optional: Sequence[str] = (), /, **properties: Schema) -> Schema:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _attributes(cls: type) -> dict[str, str]:
    """What the docstrings of a class and its bases say of attributes."""
    said: dict[str, str] = {}
    for one in reversed(cls.__mro__):
        text = inspect.cleandoc(one.__doc__ or "").partition("Attributes:\n")[2]
        for name, words in re.findall(r"^ {4}(\w+): (.*(?:\n {6,}.*)*)", text, re.MULTILINE):
            said[name] = " ".join(words.split()).replace("``", "`")
    return said


def schemas() -> dict[str, Schema]:
    """The schema of each command's document, by the command, or by a part of it and its option."""
    job = _report(JobReport, "task_figures", statistics=_ANY, rows=_of(int | None))
    publication = _report(Publication)
    files = _object(files=_NUMBER, bytes=_NUMBER, keys=_list(_TEXT))
    effects = _report(Effects, publications=_list(publication), gone=files, back=files, lost=files)
    recovered = _object(
        ("alias", "below", "catalogs", "notify"),
        destination=_TEXT,
        undecided=_FLAG,
        jobs=_list(_report(RecoveredJob)),
        below=_list(_TEXT),
        catalogs=_list(_report(CaughtUp)),
        notify=_list(_report(Notified)),
        alias=_report(AliasReport),
    )
    operation = _report(Operation, "unknown", "when_ms", when=_MOMENT)
    owner: Schema = {"enum": [one.value for one in Owner]}
    dollars = _of(float | None)
    group = _object(
        uploads=_NUMBER,
        bytes=_NUMBER,
        bytes_unknown=_NUMBER,
        oldest_age_seconds=_of(int | None),
        dollars_a_month=dollars,
    )
    groups: Schema = {"type": "object", "additionalProperties": group}
    upload = _object(
        key=_TEXT,
        upload_id=_TEXT,
        initiated=_MOMENT,
        age_seconds=_NUMBER,
        bytes=_of(int | None),
        owner=owner,
        initiator=_TEXT,
        job_id=_of(str | None),
        quarantined=_FLAG,
        unjudged=_FLAG,
        held=_TEXT,
        end=_list(_TEXT),
    )
    maybe: Schema = {"anyOf": [_MOMENT, {"type": "null"}]}
    release = _object(
        url=_TEXT,
        release=_TEXT,
        number=_NUMBER,
        published=_MOMENT,
        run_id=_of(str | None),
        restores=_of(str | None),
        datasets=_list(_object(name=_TEXT, url=_TEXT, job_id=_TEXT)),
    )
    shares = _list(_object(owner=owner, uploads=_NUMBER, bytes=_of(int | None), all=_FLAG))
    status = _object(
        url=_TEXT,
        ok=_FLAG,
        newest={"anyOf": [publication, {"type": "null"}]},
        files=_NUMBER,
        bytes=_NUMBER,
        rows=_of(int | None),
        jobs=_list(_report(UnfinishedJob, moved=maybe)),
        uploads=shares,
        kept=_object(files=_NUMBER, bytes=_NUMBER, until=maybe),
        behind=_list(_TEXT),
        leftovers=_list(_TEXT),
        dollars_a_month=dollars,
        problems=_list(_TEXT),
    )
    failed = _object(error=error())
    parts = {
        "catalogs": _list(_report(CaughtUp)),
        "notify": _list(_report(Notified)),
        "alias": _report(AliasReport),
        "compact": _report(CompactReport),
        "expire": _report(ExpireReport),
        "recover": _list(_report(DeadJob)),
        "register": {"anyOf": [_report(RegisterReport), _object(catalog=_TEXT, table=_of(str | None))]},
        "rewrite": _report(RewriteReport),
        "sweep": _list(_report(Leftover)),
    }
    done = {name: {"anyOf": [one, failed]} for name, one in parts.items()}
    skipped = _object(("skipped", "published"), job_id=_TEXT, skipped=_FLAG, published=_FLAG)
    return {
        "adopt": _report(AdoptReport),
        "doctor": _object(destination=_TEXT, ok=_FLAG, findings=_list(_report(Finding))),
        "drop": _report(DropReport, effects=effects),
        "job abort": {"anyOf": [recovered, skipped]},
        "job commit": {"anyOf": [job, skipped]},
        "job discard": _report(PathReport),
        "job publish": _report(PathReport),
        "job setup": _object(job=_TEXT, url=_TEXT, published=_FLAG),
        "job task": _object(
            ("files", "bytes", "skipped", "status"),
            task=_of(str | int),
            files=_NUMBER,
            bytes=_NUMBER,
            skipped=_FLAG,
            status=_NUMBER,
        ),
        "log": _object(
            ("operations",), url=_TEXT, publications=_list(publication), operations=_list(operation)
        ),
        "maintain": _object([*parts], url=_TEXT, **done),
        "maintain --policy": _object(
            url=_TEXT,
            policy=_TEXT,
            dry_run=_FLAG,
            datasets=_list(_object([*parts], url=_TEXT, exit_status=_NUMBER, **done)),
            exit_status=_NUMBER,
        ),
        "policy": _ANY,
        "recover": recovered,
        "recover --commit": job,
        "recover --commit --dry-run": _report(ListedJob, action=_TEXT),
        "rollback": _report(
            RollbackReport, "task_figures", statistics=_ANY, rows=_of(int | None), effects=effects
        ),
        "release": _object(
            url=_TEXT, releases=_list(release), tags={"type": "object", "additionalProperties": _TEXT}
        ),
        "release --show": release,
        "release --untag": _object(url=_TEXT, tag=_TEXT, removed=_FLAG),
        "release --expire": _report(ExpiredReleases),
        "seal": _report(SealReport),
        "status": status,
        "status of a bucket": _object(
            url=_TEXT,
            ok=_FLAG,
            all=_FLAG,
            destinations=_list(_report(Destination, published=maybe)),
            uploads=shares,
        ),
        "show": _object(path=_TEXT, kind=_TEXT, document=_ANY),
        "tag": _object(("job_id", "removed"), url=_TEXT, tag=_TEXT, job_id=_TEXT, removed=_FLAG),
        "uploads": _object(
            destination=_TEXT,
            count=_NUMBER,
            **group["properties"],
            price=_object(dollars_a_gib_month=dollars, source=_TEXT),
            owners=groups,
            prefixes=groups,
            initiators=groups,
            pending=_list(upload),
            unreadable=_list(_TEXT),
            aborting={"anyOf": [_ANY, {"type": "null"}]},
            lifecycle_rule={"anyOf": [_ANY, {"type": "null"}]},
        ),
        "verify": _report(VerifyReport, ok=_FLAG, advice=_list(_TEXT)),
        "write": job,
        "write --dry-run": _object(
            action=_TEXT,
            destination=_TEXT,
            mode=_TEXT,
            files=_NUMBER,
            bytes=_NUMBER,
            columns={"type": "object", "additionalProperties": _TEXT},
        ),
    }


def error() -> Schema:
    """The schema of an error, which goes to stderr."""
    return _object(kind={"enum": [*kinds()]}, message=_TEXT, next=_of(str | None), exit_status=_NUMBER)


def kinds() -> dict[str, tuple[int, str]]:
    """Exit status and meaning of each kind of error, in the order of the module."""
    found: dict[str, tuple[int, str]] = {}
    for name, one in vars(errors).items():
        if inspect.isclass(one) and issubclass(one, MagicError) and one is not MagicError:
            words = " ".join((one.__doc__ or "").partition("\n\n")[0].split()).replace("``", "`")
            found[name] = int(exit_code(one.__new__(one))), words
    return {**found, "KeyboardInterrupt": (130, "You interrupted the command.")}


def tables() -> Iterator[str]:
    """What the page of commands says of both, as Markdown."""
    yield from ("| kind | exit status | meaning |", "| --- | --- | --- |")
    for name, (status, meaning) in kinds().items():
        yield f"| `{name}` | {status} | {meaning} |"
    yield ""
    for name, schema in schemas().items():
        yield from (f"### {name} --json", "", f"[Schema](schemas/{name.replace(' ', '_')}.json)", "")
        yield from ("| field | type | meaning |", "| --- | --- | --- |")
        for field, one in schema.get(
            "properties", schema.get("anyOf", [{}])[0].get("properties", {})
        ).items():
            yield f"| `{field}` | {_type(one)} | {one.get('description', '').replace('|', chr(92) + '|')} |"
        yield ""


def _type(schema: Schema) -> str:
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if "enum" in schema:
        return "text"
    kind = str(schema["type"])
    return _KINDS.get(kind, kind)
