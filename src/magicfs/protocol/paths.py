"""Algebra of URLs, buckets and keys.

A *path* is ``bucket/key`` without a scheme, as fsspec uses it. A *key* is what the store calls an object:
raw text, never percent-encoded, without a leading slash. A *directory* is a key without a trailing slash;
the prefix that lists what lies under it always ends with one, so that ``dataset1`` never meets ``dataset10``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from magicfs.errors import UsageError

KEY_BYTES_MAX: Final = 1024
"""The longest key of S3 and its relatives, in UTF-8."""

_USERINFO: Final = re.compile(
    r"(?P<scheme>\b(?:https?|socks\w*)://)[^\s/?#]*@|(?P<other>\A|://)[^\s/?#]*:[^\s/?#]*@", re.IGNORECASE
)
"""A user or a password before the host of a URL, or of a proxy without a scheme."""
SIGNED: Final = re.compile(
    r"(?P<name>\b(?:AccountKey|SharedAccessSignature)=|"
    r"[?&](?:sig|X-Amz-Signature|X-Amz-Security-Token|X-Goog-Signature)=)[^\s;&\"']+",
    re.IGNORECASE,
)
"""What lets anybody in who has the text: a part of a connection string, or of a signed URL."""

# What s3fs takes for the end of a key.
_VERSION: Final = "?versionId="
# Of filesystems, not of stores.
_WITHOUT_BUCKETS = frozenset({"file", "local"})


@dataclass(frozen=True, slots=True)
class Location:
    """A location in a store."""

    scheme: str  # the fsspec protocol, such as ``s3``; empty for a bare path
    bucket: str
    """The first element of the path; empty for files of a machine, whose key is the whole path."""
    key: str  # the rest, possibly empty for the bucket itself

    @property
    def path(self) -> str:
        """``bucket/key``, the form that fsspec filesystems take; ``/key`` for files of a machine."""
        return f"{self.bucket}/{self.key}" if self.key else self.bucket

    @property
    def url(self) -> str:
        """``scheme://bucket/key``."""
        return f"{self.scheme}://{self.path}" if self.scheme else self.path


def parse_url(url: str) -> Location:
    """Split ``scheme://bucket/key``; slashes at the end are dropped, nothing is decoded.

    ``file:///tmp/x`` has no bucket: its key is ``tmp/x``. There, several slashes in a row count as one.

    Raises UsageError for no scheme, no bucket, a chained URL, an element that is empty, ``.`` or ``..``, a
    version, and for a file whose path is not absolute or is the root.
    """
    scheme, separator, path = url.partition("://")
    if not separator or not scheme:
        raise UsageError(f"{url!r} has no scheme; write it as s3://bucket/key")
    if "::" in scheme:
        raise UsageError(f"{url!r} is a chained URL; give the plain URL of the destination")
    if scheme in _WITHOUT_BUCKETS:
        return Location(scheme, "", _absolute(url, path))
    location = parse_path(path, before=f"{scheme}://")
    return Location(scheme, location.bucket, location.key)


def _absolute(url: str, path: str) -> str:
    names = elements(path)
    if not path.startswith("/"):
        raise UsageError(f"{url!r} has no absolute path; write it as 'file:///{path}'")
    if not names:
        raise UsageError(f"{url!r} is the root of the machine; name a directory in it")
    _refuse_dots(url, names)
    return "/".join(names)


def parse_path(path: str, *, has_buckets: bool = True, before: str = "") -> Location:
    """Split ``bucket/key``, or ``/key`` where there are no buckets; nothing is decoded.

    Slashes at the end are dropped. ``before`` is what stood before the path, for messages.

    So that one directory has one spelling: raises UsageError for no bucket, for an element that is ``.`` or
    ``..`` (stores take them literally, local filesystems do not) or empty (stores take ``a//b`` for another
    place than ``a/b``, Hadoop and most tools do not), and for what s3fs would cut off as a version.
    """
    bucket, _, key = path.partition("/")
    key = key.rstrip("/")
    path = before + path
    if not bucket and has_buckets:
        raise UsageError(f"{path!r} has no bucket; write it as '{before}bucket/key'")
    names = key.split("/") if key else []
    _refuse_dots(path, names)
    if not all(names):
        spelled = before + (join(bucket, *names) if bucket else f"/{join(*names)}")
        raise UsageError(
            f"{path!r} has two slashes in a row; write it as {spelled!r}, because tools disagree whether "
            "the two are the same place"
        )
    if _VERSION in key:
        raise UsageError(f"{path!r} names a version with {_VERSION!r}; write {path.partition(_VERSION)[0]!r}")
    return Location("", bucket, key)


def _refuse_dots(path: str, names: Iterable[str]) -> None:
    if any(name in {".", ".."} for name in names):
        raise UsageError(f"{path!r} contains a '.' or '..' element; write the full key")


def elements(key: str) -> tuple[str, ...]:
    """The elements of a key. Empty ones are dropped, as Hadoop's ``Path`` drops them."""
    return tuple(element for element in key.split("/") if element)


def join(*keys: str) -> str:
    """Join keys with single slashes, leaving out empty ones."""
    return "/".join(key.strip("/") for key in keys if key.strip("/"))


def prefix_of(directory: str) -> str:
    """The prefix under which a directory's objects are listed: ends with a slash, empty for the bucket."""
    directory = directory.rstrip("/")
    return f"{directory}/" if directory else ""


def is_under(key: str, directory: str) -> bool:
    """Whether a key lies inside a directory, the directory's own name not counted."""
    prefix = prefix_of(directory)
    return key.startswith(prefix) and len(key) > len(prefix)


def overlap(first: str, second: str) -> bool:
    """Whether two directories are one, or one of them lies in the other."""
    return first == second or is_under(first, second) or is_under(second, first)


def which_holds(key: str, directories: Iterable[str]) -> str | None:
    """The first of some directories that a key lies inside; None if it lies in none."""
    return next((one for one in directories if is_under(key, one)), None)


def relative_to(key: str, directory: str) -> str:
    """The key relative to a directory that it lies under; UsageError if it lies elsewhere."""
    prefix = prefix_of(directory)
    if not key.startswith(prefix) or len(key) == len(prefix):
        raise UsageError(f"{key!r} is not under {directory!r}; write below the destination")
    return key[len(prefix) :]


def check_length(key: str, what: str, advice: str) -> None:
    """Refuse a key that is too long for an object store, before anything is written; raises UsageError."""
    size = len(key.encode(errors="surrogatepass"))
    if size > KEY_BYTES_MAX:
        raise UsageError(
            f"{what} {key!r} has {size} bytes, and a key has at most {KEY_BYTES_MAX:,}; nothing was "
            f"uploaded; {advice}"
        )


def is_visible(key: str, directory: str) -> bool:
    """Whether readers of a directory take the key for data.

    That is a key under the directory with no hidden element below it.
    """
    return is_under(key, directory) and not any(map(is_hidden, elements(relative_to(key, directory))))


def is_hidden(element: str) -> bool:
    """Whether readers skip what bears this name, or lies in a directory of this name.

    Spark's rule, ``HadoopFSUtils.shouldFilterOutPathName``: it begins with a dot, or with ``_`` and holds no
    ``=``, for ``_day=1`` is the directory of a partition.
    """
    return element.startswith(".") or (element.startswith("_") and "=" not in element)


def parents(key: str) -> Iterator[str]:
    """The directories above a key, the nearest first, without the bucket itself."""
    end = key.rfind("/")
    while end > 0:
        yield key[:end]
        end = key.rfind("/", 0, end)


def can_be_a_file(key: str) -> bool:
    """Whether a file can have this key: no element is empty, ``.`` or ``..``, and no character is NUL."""
    try:
        key.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return "\0" not in key and not any(element in {"", ".", ".."} for element in key.split("/"))


def has_password(url: str) -> bool:
    """Whether a URL has a user or a password before its host."""
    return _USERINFO.search(url) is not None


def redacted(text: str) -> str:
    """Text as it may be shown: URLs in it lose user and password, and signatures their value."""
    if "@" in text:
        text = _USERINFO.sub(lambda found: found["scheme"] or found["other"] or "", text)
    return SIGNED.sub(lambda found: f"{found['name']}…", text)
