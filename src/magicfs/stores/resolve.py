"""URLs of destinations as people type them: understood, or refused with the line to write."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from magicfs.errors import UsageError
from magicfs.protocol import paths
from magicfs.protocol.paths import Location
from magicfs.runtime import process_end, registered
from magicfs.stores import backends
from magicfs.stores.backends import (
    BACKENDS,
    IRREPLACEABLE,
    Backend,
    has_secret_name,
    is_secret,
    without_password,
)
from magicfs.stores.port import Store

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from fsspec import AbstractFileSystem

SCHEMES = frozenset[str]().union(*(one.schemes for one in BACKENDS))
"""Schemes of the filesystems that have a store, and so can be wrapped."""

redacted: Final = paths.redacted

_CONNECT: Final = "MAGICFS_CONNECT_"
"""Begins variables whose values functions of the entry points ``magicfs.connections`` take, for commands."""
AROUND: Final[list[Callable[[Store], Store]]] = []
"""What guests put around each store that is opened, the last one outermost."""


def filesystem(protocol: str, options: Mapping[str, Any]) -> AbstractFileSystem:
    """The fsspec filesystem of a protocol that has a store; ``check`` says whether it can delay an upload.

    Raises UsageError if the protocol has no store here, or its package is missing.
    """
    backend = backends.of_scheme(protocol)
    if backend is None:
        raise _cannot_delay(protocol)
    try:
        return backend.make(protocol, options)
    except ImportError as error:
        raise UsageError(
            f"{protocol}:// needs a package that is not installed; pip install 'magicfs[{backend.extra}]'"
        ) from error


def open_store(filesystem: AbstractFileSystem, bucket: str) -> Store:
    """The store of one bucket behind a filesystem; UsageError if it has none here.

    On S3 its requests are repeated as ``stores.retrying.RETRIES`` says; of the filesystem's own options only
    ``config_kwargs={"retries": {"total_max_attempts": …}}`` changes that. On local files nothing is repeated.
    """
    process_end.keep_inherited_filesystems()
    connect()
    if callable(maker := getattr(filesystem, "store", None)):
        store: Store = maker(bucket)
        if hasattr(filesystem, "fs"):  # a wrapped one, whose store came from here
            return store
    else:
        names = protocols(filesystem)
        backend = _backend(names)
        # FSSpec's own memory filesystem has objects of its own kind.
        if backend is None or backend is backends.MEMORY:
            raise _cannot_delay(names[0])
        store = backend.open(filesystem, bucket)
    for around in AROUND:
        store = around(store)
    return store


@cache
def connect() -> None:
    """Hand the environment's connections to the guests that take them. A second call does nothing."""
    for name in tuple(os.environ):
        if name.startswith(_CONNECT):
            registered.load("magicfs.connections", name.removeprefix(_CONNECT).lower())(os.environ[name])
            del os.environ[name]  # processes that this one starts are not given what a guest reads there


def is_unchanged(path: str, etag: str) -> bool:
    """Whether a file of this machine has the size and the date of its ETag; a backup restores these alone."""
    from magicfs.stores.local import files as local_files

    now = local_files.info_of("", Path(path).stat()).etag
    return now.partition("-")[2] == etag.partition("-")[2]


def loop_of(filesystem: AbstractFileSystem) -> AbstractEventLoop:
    """The loop on which the store behind a filesystem works: its own, or fsspec's where it has none."""
    from fsspec.asyn import get_loop

    loop: AbstractEventLoop = filesystem.loop if filesystem.async_impl else get_loop()
    return loop


def check(filesystem: AbstractFileSystem) -> None:
    """Raise UsageError for a filesystem that cannot delay an upload, by its name."""
    names = protocols(filesystem)
    if "magic" in names:
        raise UsageError("this is already a magic filesystem; wrap the one that it wraps, its attribute fs")
    backend = _backend(names)
    has_store = backend is not None and backend is not backends.MEMORY
    if not has_store and not callable(getattr(filesystem, "store", None)):
        raise _cannot_delay(names[0])


def aliases(protocol: str) -> frozenset[str]:
    """All names of a protocol."""
    backend = backends.of_scheme(protocol)
    return frozenset({protocol}) if backend is None else backend.schemes


def scheme_has_buckets(scheme: str) -> bool:
    """Whether the first element of a path is a bucket; True for an unknown scheme."""
    backend = backends.of_scheme(scheme)
    return backend is None or backend.has_buckets


def check_leads(location: Location, filesystem: AbstractFileSystem) -> None:
    """Raise UsageError for a URL of files of this machine and a filesystem of buckets, or the reverse."""
    if bool(location.bucket) != has_buckets(filesystem):
        raise UsageError(
            f"{location.url} is not a URL of the filesystem {protocols(filesystem)[0]!r}; write a URL of "
            "its store, such as s3://bucket/sales, or leave filesystem out"
        )


def fsspec_opens(scheme: str) -> bool:
    """Whether fsspec opens URLs of a scheme by the filesystem of the store.

    Its own memory filesystem is another one than ours, with other objects.
    """
    return backends.of_scheme(scheme) is not backends.MEMORY


def has_buckets(filesystem: AbstractFileSystem) -> bool:
    """As ``scheme_has_buckets``, for a filesystem."""
    backend = _backend(protocols(filesystem))
    return backend is None or backend.has_buckets


def chains_with_slash(filesystem: AbstractFileSystem) -> bool:
    """Whether the paths that fsspec takes out of chained URLs begin with a slash before the bucket.

    It takes ``magic::memory://bucket/a`` apart by its own memory filesystem, whose root is a slash.
    """
    return _backend(protocols(filesystem)) is backends.MEMORY


def secrets_of(options: Mapping[str, Any], where: str = "") -> frozenset[str]:
    """The names among the options, nested ones included, that carry a secret.

    One that does by its value, such as a URL with a password, is named with ``where`` it stands.
    """
    found: set[str] = set()
    for name, value in options.items():
        if is_secret(name, value):
            found.add(name if has_secret_name(name) else f"{where}{name}")
        elif isinstance(value, Mapping):
            found |= secrets_of(value, f"{where}{name}.")
    return frozenset(found)


def without_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that may be written down: endpoint, region, addressing, but no credentials.

    A URL with a password loses only that, so that requests go the same way.

    Raises UsageError if one of them cannot be left out: without its key, data would be written in the clear.
    """
    if found := secrets_of(options) & IRREPLACEABLE:
        raise UsageError(
            f"{', '.join(sorted(found))} is a secret that other processes cannot find on their own; set the "
            "encryption of the bucket instead, or pass allow_secrets_in_pickles=True to MagicFileSystem"
        )
    plain: dict[str, Any] = {}
    for name, value in options.items():
        if not is_secret(name, value):
            plain[name] = without_secrets(value) if isinstance(value, Mapping) else value
        elif not has_secret_name(name) and (rest := without_password(value)) is not None:
            plain[name] = rest
    return plain


def advice_for(secrets: Collection[str]) -> str:
    """Where a command finds secrets of these names, if not on its command line."""
    found = [one.advice for one in BACKENDS if one.advice and one.secrets & set(secrets)]
    if any(not has_secret_name(name) for name in secrets):
        found.append(
            "set a URL with a password in the environment: HTTPS_PROXY, HTTP_PROXY, AWS_ENDPOINT_URL or "
            "FSSPEC_S3"
        )
    return "; ".join(found)


def with_secrets(options: Mapping[str, Any], source: Mapping[str, Any]) -> dict[str, Any]:
    """The options, with every secret that the source has: the reverse of ``without_secrets``."""
    filled = dict(options)
    for name, value in source.items():
        if is_secret(name, value):
            filled[name] = value
        elif isinstance(value, Mapping) and secrets_of(value):
            filled[name] = with_secrets(filled.get(name, {}), value)
    return filled


def protocol_of(filesystem: AbstractFileSystem) -> str | None:
    """The protocol of which ``filesystem()`` makes one of the same class; None if there is none."""
    protocol = protocols(filesystem)[0]
    if protocol not in SCHEMES:
        return None
    if protocol == "memory":
        from magicfs.stores.memory.filesystem import MemoryFileSystem

        return protocol if type(filesystem) is MemoryFileSystem else None
    backend = backends.of_scheme(protocol)
    return protocol if backend is not None and type(filesystem) in backend.classes(protocol) else None


def protocols(filesystem: AbstractFileSystem) -> tuple[str, ...]:
    """All names by which a filesystem calls itself."""
    protocol = filesystem.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _backend(names: tuple[str, ...]) -> Backend | None:
    """The kind of store of a filesystem that has all these names."""
    return next((one for one in BACKENDS if one.schemes & set(names)), None)


def _cannot_delay(protocol: str) -> UsageError:
    if protocol == "memory":
        return UsageError(
            "fsspec's own memory filesystem cannot delay uploads; use magicfs's, with "
            "target_protocol='memory' or a URL magic::memory://…"
        )
    return UsageError(
        f"the filesystem {protocol!r} cannot delay an upload; magicfs works on {', '.join(sorted(SCHEMES))}"
    )


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
        raise UsageError(f"storage_options is {type(options).__name__}, not a dict; write {{'name': value}}")
    given = carried | dict(options or {})
    backend = backends.of_scheme(text.partition("://")[0])
    plain, named = backend.split(text) if backend is not None else (text, {})
    for name, value in named.items():
        if given.get(name) not in {None, value}:
            raise UsageError(
                f"{text} has {name}={value!r}, but the options have {given[name]!r}; give one of them"
            )
    return plain, given | named


def location_of(url: str | os.PathLike[str], *, any_scheme: bool = False) -> paths.Location:
    """Take the URL of a destination, such as ``s3://bucket/sales``, apart; raises UsageError if it is none.

    ``any_scheme``: the scheme is only a name, for the filesystem is known.
    """
    plain, _ = split(url)
    if paths.has_password(plain):
        # Whatever it is, it may be a secret: not quoted.
        raise UsageError(
            "a URL such as s3://…@… contains credentials, which would end up in logs and manifests; leave "
            "them out, and set them in the environment, a profile or storage_options"
        )
    if (line := _line_for(plain)) is not None:
        raise UsageError(line)
    scheme, separator, rest = plain.partition("://")
    if separator and not any_scheme and backends.of_scheme(scheme) is None:
        known = ", ".join(sorted(frozenset[str]().union(*(one.schemes for one in BACKENDS))))
        raise UsageError(f"{plain!r}: magicfs has no store for {scheme}://, only {known}")
    _check_bucket(plain, scheme, rest.partition("/")[0])
    if found := _QUERY.search(rest):
        raise UsageError(
            f"{plain!r} contains options of another tool ({found[0]}…); give them as storage_options, such "
            f"as {{'endpoint_url': …}}, and write {plain[: len(plain) - len(rest) + found.start()]!r}"
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
        raise UsageError(f"{url!r} is not a URL; give text such as {_EXAMPLE}, or a path of pathlib or upath")
    text = os.fspath(url)
    if not isinstance(text, str):
        raise UsageError(f"{url!r} is bytes; give text such as {_EXAMPLE}")
    if lost := _LOST_SLASH.fullmatch(text):
        raise UsageError(
            f"{url!r}: pathlib removes one of the two slashes of a URL; give it as a string, "
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
        return f"{url!r} is a resource name (ARN); write 's3://{url.partition(':s3:::')[2]}'"
    if not separator:
        if lost := _LOST_SLASH.fullmatch(url):
            return f"{url!r} lacks a slash; write '{lost[1]}://{lost[2]}'"
        local = Path(url).expanduser().absolute()
        return f"{url!r} has no scheme; write 's3://{url}' for a bucket, or 'file://{local}' for this machine"
    if scheme in {"http", "https"}:
        return _line_for_http(url)
    if scheme in _OF_S3:
        return (
            f"{url!r}: magicfs has no store for {scheme}://; for a service that speaks S3, write "
            f"'s3://{rest}', with storage_options={{'endpoint_url': …}}"
        )
    return None


def _line_for_http(url: str) -> str | None:
    where = f"{url!r} is a web address"
    for pattern, scheme in _HTTP:
        if match := pattern.fullmatch(url):
            return f"{where}; write '{scheme}://{match['bucket']}{match['key'] or ''}'"
    if match := _HTTP_AZURE.fullmatch(url):
        host = f"{match['account']}.dfs.{match['cloud']}"
        return f"{where}; write 'abfs://{match['bucket']}@{host}{match['key'] or ''}'"
    if match := _HTTP_OTHER.fullmatch(url):
        return (
            f"{where}; for a service that speaks S3, write 's3://{match['rest']}', with "
            f"storage_options={{'endpoint_url': {match['endpoint']!r}}}"
        )
    return None


def _check_bucket(url: str, scheme: str, bucket: str) -> None:
    if "@" in bucket:
        name, _, host = bucket.partition("@")
        if backends.of_scheme(scheme) is backends.AZURE:
            raise UsageError(
                f"{url!r} does not name the host of an account; write "
                f"'{scheme}://{name}@{host}.dfs.core.windows.net/…', or '{scheme}://{name}/…' with "
                f"storage_options={{'account_name': {host!r}}}"
            )
        raise UsageError(f"{url!r}: {bucket!r} is not a bucket name; write '{scheme}://{name}/…'")
    if _PORT.fullmatch(bucket) and backends.of_scheme(scheme) is backends.S3:
        raise UsageError(
            f"{url!r} names a server instead of a bucket; write '{scheme}://bucket/key', with "
            f"storage_options={{'endpoint_url': 'http://{bucket}'}}"
        )
