"""What a registration of each kind of catalog can say: others are never acted on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from magicfs.formats.document import shown
from magicfs.formats.registration import Registration

NOTIFICATIONS: Final = ("function", "openlineage", "webhook")
"""Kinds of what is no catalog, but is to hear of a publication. Only its name is recorded, as the table."""
_METASTORE_PORT: Final = 9083
_TABLE_LENGTH_MAX: Final = 512


def metastore_of(uri: str) -> str | None:
    """The address of a metastore as it is compared: ``thrift://host:port``; None for any other text."""
    try:
        at = urlsplit(uri)
        host, port = at.hostname or "", at.port or _METASTORE_PORT
    except ValueError:
        return None
    if at.scheme != "thrift" or not _HOST.fullmatch(host):
        return None
    if "@" in at.netloc or urlunsplit(at._replace(scheme="", netloc="")) not in {"", "/"}:
        return None
    return f"thrift://[{host}]:{port}" if ":" in host else f"thrift://{host}:{port}"


def differs(one: Registration, name: str) -> tuple[str, str] | None:
    """The first field that no job of magicfs could have written, and why; None if there is none.

    ``name``: of its file. The field ``line`` is for people who read the file, and is never used.
    """
    kind = _KINDS.get(one.catalog)
    if kind is None:
        return "catalog", f"{shown(one.catalog)} is not a catalog that magicfs supports"
    if len(one.table) > _TABLE_LENGTH_MAX or not one.table.isprintable():
        return "table", f"{shown(one.table)} is not a table name"
    if not kind.table.fullmatch(one.table):
        return "table", f"{shown(one.table)} is not a table of {one.catalog}"
    if (found := _differs_in_options(kind, one.options)) is not None:
        return found
    if name != one.name:
        return "", f"says what the file {one.name} would say"
    return None


@dataclass(frozen=True, slots=True)
class _Kind:
    """What registrations of one kind of catalog can say."""

    table: re.Pattern[str]
    required: Mapping[str, Callable[[str], bool]] = field(default_factory=dict)
    optional: Mapping[str, Callable[[str], bool]] = field(default_factory=dict)
    may_lack_options: bool = True
    """Whether there are catalogs of the kind that only the program with the connection finds again."""
    must_lack_options: bool = False


def _differs_in_options(kind: _Kind, options: Mapping[str, str] | None) -> tuple[str, str] | None:
    if options is None:
        return None if kind.may_lack_options else ("options", "null, although this catalog always has a name")
    if kind.must_lack_options:
        return "options", "not null, although only a program has the connection"
    checks = {**kind.required, **kind.optional}
    for option, value in options.items():
        if option not in checks:
            return "options", f"{shown(option)} is not an option of this catalog"
        if not checks[option](value):
            return f"options.{option}", f"{shown(value)} is not a value that magicfs writes there"
    missing = kind.required.keys() - options.keys()
    return (f"options.{min(missing)}", "missing") if missing else None


def _is_flag(value: str) -> bool:
    return value in {"true", "false"}


def _is_hash(value: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{64}", value) is not None


def _is_region(value: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9-]{1,63}", value) is not None


def _is_metastore(value: str) -> bool:
    return metastore_of(value) is not None


def _is_name(value: str) -> bool:
    return bool(value) and value.isprintable() and len(value) <= _TABLE_LENGTH_MAX


_HOST: Final = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")
_NO_TABLE: Final = re.compile("")
_TABLE: Final = re.compile(".+")
_TABLE_OF_DATABASE: Final = re.compile(r"[^.]+\..+")
_KINDS: Final = {
    "delta": _Kind(_NO_TABLE),
    "symlink": _Kind(_NO_TABLE, may_lack_options=False),
    "iceberg": _Kind(_TABLE, {"catalog": _is_name}, {"uriSha256": _is_hash}),
    "glue": _Kind(
        _TABLE_OF_DATABASE, {"exact": _is_flag, "endpointSha256": _is_hash}, {"region": _is_region}
    ),
    "hive": _Kind(_TABLE_OF_DATABASE, {"uri": _is_metastore, "exact": _is_flag}, may_lack_options=False),
    "ducklake": _Kind(_TABLE_OF_DATABASE, must_lack_options=True),
} | dict.fromkeys(NOTIFICATIONS, _Kind(re.compile(r"[A-Za-z0-9._:-]{1,128}"), must_lack_options=True))
