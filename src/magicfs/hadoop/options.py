"""Values of Hadoop's options, as its ``Configuration`` reads them: variables, flags, sizes, directories."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from magicfs.errors import UsageError

_SPARK: Final = "spark.hadoop."
_VARIABLE: Final = re.compile(r"\$\{([^{}$]+)\}")
_ENVIRONMENT: Final = re.compile(r"env\.(?P<name>\w+)(?:(?P<how>:?-)(?P<default>.*))?", re.DOTALL)
_SIZE: Final = re.compile(r"([0-9]+)\s*([kmgtpe]?)", re.IGNORECASE)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_UNITS: Final = "_kmgtpe"
_DIGITS_MAX: Final = 30
_DEPTH: Final = 20


class HadoopOptions:
    """Hadoop's options by name; one that begins with ``spark.hadoop.`` comes first, as in Spark. Values are
    trimmed.

    Attributes:
        names: Names of what was given, sorted, without that beginning.
        read: Names of what somebody has asked for.
    """

    def __init__(
        self, conf: Mapping[str, str], defaults: Mapping[str, str] | None = None, bucket: str | None = None
    ) -> None:
        """``defaults``: what holds where nothing is given. ``bucket``: whose own options may count."""
        found = dict(conf)
        found |= {name.removeprefix(_SPARK): found.pop(name) for name in conf if name.startswith(_SPARK)}
        self.names: list[str] = sorted(found)
        self.read: set[str] = set()
        self.of_bucket: str | None = f"fs.s3a.bucket.{bucket}." if bucket else None
        self._given = {name: str(value).strip() for name, value in ({**(defaults or {}), **found}).items()}

    def get(self, name: str) -> str:
        """The value, its variables replaced; empty if there is none. Raises UsageError if a variable has no
        value.

        ``${name}`` stands for another option, ``${env.NAME}``, ``${env.NAME-text}`` and ``${env.NAME:-text}``
        for a variable of the environment, ``${user.name}`` for the user.
        """
        self.read.add(name)
        value = self._given.get(name, "")
        for _ in range(_DEPTH):
            if (found := _VARIABLE.search(value)) is None:
                return value
            value = value[: found.start()] + self._variable(name, found[1]) + value[found.end() :]
        raise UsageError(f"{name} contains variables that refer to each other; set its value")

    def of_filesystem(self, name: str) -> str:
        """The value that S3A's filesystem has, which is that of its bucket if there is one."""
        return self.get(self.name_in_filesystem(name))

    def name_in_filesystem(self, name: str) -> str:
        """The name of what counts for S3A's filesystem."""
        if self.of_bucket is not None:
            own = f"{self.of_bucket}{name.removeprefix('fs.s3a.')}"
            if own in self._given:
                return own
        return name

    def is_given(self, name: str) -> bool:
        """Whether there is such an option, be it empty."""
        return name in self._given

    @property
    def unread(self) -> list[str]:
        """Names of what was given, is not empty, and nobody has asked for."""
        return [name for name in self.names if name not in self.read and self._given[name]]

    def has(self, name: str, part: str) -> bool:
        """Whether the value of an option has a text in it."""
        found = part in self._given.get(name, "")
        if found:
            self.read.add(name)
        return found

    def is_true(self, name: str) -> bool:
        """Whether an option is true; without it, not."""
        value = self.get(name)
        return bool(value) and flag(name, value)

    def _variable(self, name: str, variable: str) -> str:
        if (match := _ENVIRONMENT.fullmatch(variable)) is not None:
            found = os.environ.get(match["name"])
            if found is not None and (found or match["how"] != ":-"):
                return found
            if match["how"]:
                return match["default"]
        elif variable in self._given:
            return self._given[variable]
        elif variable == "user.name":
            return getpass.getuser()
        raise UsageError(f"{name} holds ${{{variable}}}, which has no value here; set it")


def text(_: str, value: str) -> str:
    """The value as it is."""
    return value


def flag(name: str, value: str) -> bool:
    """A truth value. Raises UsageError for neither ``true`` nor ``false``, in any case."""
    if value.lower() not in {"true", "false"}:
        raise UsageError(f"{name}={value} is not true or false")
    return value.lower() == "true"


def integer(name: str, value: str) -> int:
    """A whole number. Raises UsageError if it is malformed."""
    try:
        return int(value)
    except ValueError:
        raise UsageError(f"{name}={value} is not a whole number") from None


def size(name: str, value: str) -> int:
    """Bytes: a number, perhaps with a unit K, M, G, T, P, E of 1024 (``getLongBytes``), else UsageError."""
    match = _SIZE.fullmatch(value)
    if match is None or len(value) > _DIGITS_MAX:
        raise UsageError(f"{name}={value} is not a size; write bytes, or a number with K, M, G, T, P or E")
    unit: int = 1024 ** _UNITS.index(match[2].lower() or "_")
    return int(match[1]) * unit


def local_directory(name: str, value: str) -> str:
    """The first directory of a list; raises UsageError for another filesystem's, or a relative one."""
    first = next((one.strip() for one in value.split(",") if one.strip()), "")
    if (match := _SCHEME.fullmatch(first)) is not None:
        if match[1].lower() != "file":
            raise UsageError(f"{name}: Wrong FS: {first}, expected: file:///; give a local directory")
        first = "/" + match[2].lstrip("/")
    if not first.startswith("/"):
        raise UsageError(f"{name}={value} does not start with an absolute path; give a local directory")
    return first


def cluster_url(options: HadoopOptions, value: str) -> str:
    """The URL of a path, which may be one of the default filesystem.

    A relative one lies below the user's home there, or on a local filesystem below the working directory.
    """
    if (match := _SCHEME.fullmatch(value)) is not None:
        return f"{match[1]}://{match[2].removeprefix('//')}"
    default = options.get("fs.defaultFS").rstrip("/")
    if not default or default.startswith("file:"):
        return f"file://{Path.cwd() / value}"
    return f"{default}{value}" if value.startswith("/") else f"{default}/user/{getpass.getuser()}/{value}"
