"""Where an alias lies, and what it is called. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from magicfs.errors import UsageError
from magicfs.protocol import paths
from magicfs.protocol.final_names import LABEL, UUID
from magicfs.protocol.modes import MANIFESTS, is_reserved
from magicfs.protocol.paths import Location

_CLAIMS: Final = f"{MANIFESTS}_aliases"
"""The directory of claims. A name that begins so is never data, and no job deletes it."""
_UNIQUE: Final = re.compile(rf"(?:-[0-9a-f]{{16}})?-(?:{LABEL}|copied)-(?:{UUID.pattern})\Z", re.IGNORECASE)
_WRITE: Final = "write a name such as alias='latest.parquet', which is placed next to the dataset"


@dataclass(frozen=True, slots=True)
class AliasPlace:
    """The place of one alias.

    Attributes:
        dataset: The dataset.
        text: What the job was asked for: a name, or a directory with a slash at its end.
        directory: The key of the directory that the alias lies in.
        name: Its name there; empty if that is the name of the published file.
    """

    dataset: Location
    text: str
    directory: str
    name: str

    @classmethod
    def of(cls, dataset: Location, text: str) -> AliasPlace:
        """The place that a text means. Raises UsageError for one that cannot be an alias of the dataset."""
        parent, slash, _ = dataset.key.rpartition("/")
        if not dataset.key or (not slash and not dataset.bucket):
            raise _refused(text, f"{dataset.url} has no directory above it in its bucket")
        _check(text)
        directory, _, name = text.rpartition("/")
        place = cls(dataset, text, paths.join(parent, directory), name)
        below = place.key(name or "file")
        paths.check_length(below, "the alias", "choose a shorter name")
        if below == dataset.key or paths.is_under(below, dataset.key):
            raise _refused(text, f"it lies in {dataset.url}, where readers would take it for data")
        return place

    def key(self, file: str) -> str:
        """The key of the alias of a file of this own name."""
        return paths.join(self.directory, self.name or file)

    def url(self, file: str = "") -> str:
        """The URL of the alias, or of its directory."""
        return Location(self.dataset.scheme, self.dataset.bucket, self.key(file)).url

    @property
    def claim(self) -> str:
        """The key of what says whose alias it is. A hash, for names may be long or look like a version."""
        digest = hashlib.sha256(self.name.encode("utf-8", "surrogatepass")).hexdigest()
        return paths.join(self.directory, _CLAIMS, f"{digest[:16]}.json")


def own_name(key: str) -> str:
    """The name that a program gave to a published file, without what makes it unique."""
    last = key.rpartition("/")[2]
    stem, dot, extension = last.partition(".")
    return f"{_UNIQUE.sub('', stem)}{dot}{extension}" or last


def _check(text: str) -> None:
    if ":" in text.partition("/")[0]:
        raise _refused(text, "it looks like a URL")
    try:
        key = paths.parse_path(f"bucket/{text}").key
    except UsageError as error:
        raise _refused(text, str(error).replace("bucket/", "")) from None
    if not key or not text.isprintable() or is_reserved(key):
        raise _refused(text, "it is not a name that a file may have there")


def _refused(text: str, problem: str) -> UsageError:
    return UsageError(f"alias={text!r}: {problem}; nothing was changed; {_WRITE}")
