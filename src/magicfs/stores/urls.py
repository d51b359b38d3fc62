"""URLs of destinations as people type them: understood, or refused with the line to write."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from magicfs.errors import UsageError
from magicfs.protocol import paths
from magicfs.stores import backends
from magicfs.stores.backends import BACKENDS

__all__ = ["in_one_bucket", "location_of", "split"]

_EXAMPLE: Final = "s3://bucket/sales, gs://…, abfs://… or file:///data/sales"
_OTHER_NAMES: Final = {"s3n": "s3", "wasb": "abfs", "wasbs": "abfss", "azure": "abfs"}
"""Schemes of older or other tools, by those that mean the same."""
_OF_S3: Final = frozenset({"b2", "ceph", "cos", "minio", "oss", "r2", "wasabi"})
"""Names by which some tools know services that speak S3."""
_LOST_SLASH: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/([^/].*)", re.DOTALL)
_PORT: Final = re.compile(r"[^:]+:[0-9]+")
_QUERY: Final = re.compile(r"[?&](?:region|scheme|endpoint|endpoint_override|allow_http)=")
_HTTP: Final = (
    (re.compile(r"https?://(?P<bucket>[^/]+?)\.s3[.-][^/]*amazonaws\.com(?P<key>/.*)?", re.DOTALL), "s3"),
    (re.compile(r"https?://s3[.-][^/]*amazonaws\.com/(?P<bucket>[^/]+)(?P<key>/.*)?", re.DOTALL), "s3"),
    (
        re.compile(
            r"https?://storage\.(?:googleapis|cloud\.google)\.com/(?P<bucket>[^/]+)(?P<key>/.*)?", re.DOTALL
        ),
        "gs",
    ),
)
_HTTP_AZURE: Final = re.compile(
    r"https?://(?P<account>[^/.]+)\.(?:blob|dfs)\.(?P<cloud>[^/]+)/(?P<bucket>[^/]+)(?P<key>/.*)?", re.DOTALL
)
_HTTP_OTHER: Final = re.compile(r"(?P<endpoint>https?://[^/@]+)/(?P<rest>[^/].*)", re.DOTALL)


def split(
    url: str | os.PathLike[str], options: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, Any]]:
    """A URL with the bucket alone, and the options with what else the URL names, such as an account.

    A path of ``pathlib``, or text that begins with a slash, is one of this machine. Raises UsageError for
    what is neither text nor path, and if the options name another account.
    """
    text, carried = _spelled(url)
    if options is not None and not isinstance(options, Mapping):
        raise UsageError(
            f"storage_options is {type(options).__name__}, no dictionary; write {{'name': value}}"
        )
    given = carried | dict(options or {})
    backend = backends.of_scheme(text.partition("://")[0])
    plain, named = backend.split(text) if backend is not None else (text, {})
    for name, value in named.items():
        if given.get(name) not in {None, value}:
            raise UsageError(
                f"{text} names {name}={value!r}, and the options name {given[name]!r}; give one of them"
            )
    return plain, given | named


def location_of(url: str | os.PathLike[str], *, any_scheme: bool = False) -> paths.Location:
    """Take the URL of a destination, such as ``s3://bucket/sales``, apart; raises UsageError if it is none.

    ``any_scheme``: the scheme is only a name, for the filesystem is known.
    """
    plain, _ = split(url)
    _check_password(plain)
    if (line := _line_for(plain)) is not None:
        raise UsageError(line)
    scheme, separator, rest = plain.partition("://")
    if separator and not any_scheme and backends.of_scheme(scheme) is None:
        known = ", ".join(sorted(frozenset[str]().union(*(one.schemes for one in BACKENDS))))
        raise UsageError(f"{plain!r}: magicfs has no store for {scheme}://, only {known}")
    _check_bucket(plain, scheme, rest.partition("/")[0])
    if found := _QUERY.search(rest):
        raise UsageError(
            f"{plain!r} carries options of another tool ({found[0]}…); give them as storage_options, such as "
            f"{{'endpoint_url': …}}, and write {plain[: len(plain) - len(rest) + found.start()]!r}"
        )
    return paths.parse_url(plain)


def in_one_bucket(one: paths.Location, other: paths.Location) -> bool:
    """Whether two locations lie in one bucket, by whichever names of its scheme they were given."""
    kind = backends.of_scheme(one.scheme)
    alike = kind is backends.of_scheme(other.scheme) if kind is not None else one.scheme == other.scheme
    return alike and one.bucket == other.bucket


def _spelled(url: object) -> tuple[str, dict[str, Any]]:
    """A URL as text, with the scheme that the stores know; and the options of a path of ``upath``."""
    if isinstance(url, str):
        return _with_known_scheme(url), {}
    carried = getattr(url, "storage_options", None)
    if isinstance(carried, Mapping):
        return _with_known_scheme(str(url)), dict(carried)
    if not isinstance(url, os.PathLike):
        raise UsageError(f"{url!r} is no URL; give text such as {_EXAMPLE}, or a path of pathlib or upath")
    text = os.fspath(url)
    if not isinstance(text, str):
        raise UsageError(f"{url!r} is bytes; give text such as {_EXAMPLE}")
    if lost := _LOST_SLASH.fullmatch(text):
        raise UsageError(
            f"{url!r}: pathlib makes one slash of the two in a URL; give it as text, "
            f"'{lost[1]}://{lost[2]}', or as upath.UPath"
        )
    return f"file://{Path(text).absolute()}", {}


def _with_known_scheme(text: str) -> str:
    if text.startswith("/"):
        return f"file://{text}"
    if text.startswith("file:/") and not text.startswith("file://"):
        return f"file://{text.removeprefix('file:')}"
    scheme, separator, rest = text.partition("://")
    lower = scheme.lower()
    lower = _OTHER_NAMES.get(lower, lower)
    return f"{lower}://{rest}" if separator and backends.of_scheme(lower) is not None else text


def _line_for(url: str) -> str | None:
    """Why a URL is none, with the line to write in its place; None for one that may be right."""
    scheme, separator, rest = url.partition("://")
    if separator and (scheme.startswith("magic+") or "::" in scheme):
        *_, inner = url.removeprefix("magic+").split("::")
        return f"{url!r} is a chained URL; give the plain URL of the destination, {inner!r}"
    if url.startswith("arn:aws") and ":s3:::" in url:
        return f"{url!r} is the name of a resource; write 's3://{url.partition(':s3:::')[2]}'"
    if not separator:
        if lost := _LOST_SLASH.fullmatch(url):
            return f"{url!r} lacks a slash; write '{lost[1]}://{lost[2]}'"
        local = Path(url).expanduser().absolute()
        return f"{url!r} has no scheme; write 's3://{url}' for a bucket, or 'file://{local}' for this machine"
    if scheme in {"http", "https"}:
        return _line_for_http(url)
    if scheme in _OF_S3:
        return (
            f"{url!r}: magicfs has no store for {scheme}://; of a service that speaks S3 write "
            f"'s3://{rest}', with storage_options={{'endpoint_url': …}}"
        )
    return None


def _line_for_http(url: str) -> str | None:
    where = f"{url!r} is an address of the web"
    for pattern, scheme in _HTTP:
        if match := pattern.fullmatch(url):
            return f"{where}; write '{scheme}://{match['bucket']}{match['key'] or ''}'"
    if match := _HTTP_AZURE.fullmatch(url):
        host = f"{match['account']}.dfs.{match['cloud']}"
        return f"{where}; write 'abfs://{match['bucket']}@{host}{match['key'] or ''}'"
    if match := _HTTP_OTHER.fullmatch(url):
        return (
            f"{where}; of a service that speaks S3 write 's3://{match['rest']}', with "
            f"storage_options={{'endpoint_url': {match['endpoint']!r}}}"
        )
    return None


def _check_password(url: str) -> None:
    if paths.has_password(url):
        # Whatever it is, it may be a secret: not quoted.
        raise UsageError(
            "a URL such as s3://…@… carries credentials, which land in logs and manifests; leave them out, "
            "and give them by the environment, a profile or storage_options"
        )


def _check_bucket(url: str, scheme: str, bucket: str) -> None:
    if "@" in bucket:
        name, _, host = bucket.partition("@")
        if backends.of_scheme(scheme) is backends.AZURE:
            raise UsageError(
                f"{url!r} names no host of an account; write "
                f"'{scheme}://{name}@{host}.dfs.core.windows.net/…', or '{scheme}://{name}/…' with "
                f"storage_options={{'account_name': {host!r}}}"
            )
        raise UsageError(f"{url!r}: {bucket!r} is no name of a bucket; write '{scheme}://{name}/…'")
    if _PORT.fullmatch(bucket) and backends.of_scheme(scheme) is backends.S3:
        raise UsageError(
            f"{url!r} names a server in place of a bucket; write '{scheme}://bucket/key', with "
            f"storage_options={{'endpoint_url': 'http://{bucket}'}}"
        )
