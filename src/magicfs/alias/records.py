"""What is recorded of an alias: ``magicfs.alias/1`` at the dataset, ``magicfs.alias-claim/1`` at the alias.

::

    DEST/_magicfs/.alias.json                   the name of the alias that the dataset has
    ALIAS/../_magicfs_aliases/<hash>.json       whose alias it is, and which copies were made there

Whoever may write to the dataset can name any place as its alias. So nothing is written or removed at a place
that has no claim of this dataset, which only a process makes that may write there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final
from uuid import uuid4

from magicfs.alias.places import AliasPlace
from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields
from magicfs.formats.limits import within
from magicfs.formats.record import COUNT, FLAG, TEXT, Record, each, member, record
from magicfs.formats.rows import ITSELF, Row
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location
from magicfs.protocol.readback import WRITE_ID
from magicfs.stores.port import ObjectInfo, Store
from magicfs.stores.register import body_at

_SIZE_LIMIT: Final = 64 * 1024
_COPIES_MAX: Final = 16
"""Most copies that are remembered: as many processes may be late."""
ROWS: Final[Mapping[str, tuple[Row, ...]]] = {
    "alias": (Row("alias", "a place next to the dataset that its claim names", by="alias.follow.follow"),),
    "alias claim": (
        Row("dataset", "the dataset", by="alias.follow.follow"),
        Row("name", "the name of the alias", by="alias.follow.follow"),
        Row("file", "nothing: a name in a directory that is believed whole"),
        Row("jobId", "nothing: only compared with the pointer"),
        Row("etag", "nothing: only compared with the alias"),
        Row("done", "true or false; says that `etag` is right"),
        Row("copies[].*", "nothing: only compared with the alias"),
        Row("nonce", ITSELF),
    ),
}
"""What each field is compared with before anything is done by its word."""


def _nonce() -> str:
    return uuid4().hex


@record
class AliasName(Record):
    """The alias that a dataset has. A value."""

    FORMAT: ClassVar = "magicfs.alias/1"

    alias: str = member(TEXT)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> AliasName:
        return cls.from_fields(Fields(path, parse(path, raw, size_limit=_SIZE_LIMIT)))

    def to_bytes(self) -> bytes:
        return within(render(self.to_document()), _SIZE_LIMIT, "the name of an alias", "choose a shorter one")


@record
class Copy(Record):
    """A copy that was begun, by which its object is recognized."""

    size: int = member(COUNT)
    write_id: str = member(Fields.text, default="")  # that the object has in its metadata, if it has one


@record
class Claim(Record):
    """Whose alias it is. A value: every move makes a new one."""

    FORMAT: ClassVar = "magicfs.alias-claim/1"

    nonce: str = member(TEXT, default_factory=_nonce, required=True)
    """Another one in every version, so that a writer recognizes its own."""
    dataset: str = member(TEXT)  # the key of the dataset
    name: str = member(Fields.text)  # of the alias in its directory; empty if it has that of the file
    file: str = member(Fields.text, default="")  # its own name, of the file that was copied last
    job_id: str = member(Fields.text, default="")  # the publication that it shows, or is about to show
    etag: str = member(Fields.text, default="")  # of the alias once that is so; empty before, and for none
    done: bool = member(FLAG, default=False)  # whether it is so
    copies: tuple[Copy, ...] = member(each(Copy), default=())  # the newest last

    def knows(self, info: ObjectInfo) -> bool:
        """Whether an object at the alias is one that magicfs has copied there.

        One without a write id is known by its size, as long as nobody has seen what became of the copies.
        """
        if self.etag and info.etag == self.etag:
            return True
        own = info.metadata.get(WRITE_ID, "")
        return any(
            one.size == info.size and one.write_id == own and bool(own or not self.done)
            for one in self.copies
        )

    def begun(self, job_id: str, file: str, copy: Copy | None) -> Claim:
        """The same before the alias shows a publication, by a copy; by none if it goes."""
        copies = self.copies
        if copy is not None:
            copies = (*[one for one in copies if one != copy], copy)[-_COPIES_MAX:]
        return replace(self, job_id=job_id, file=file, copies=copies, done=False, nonce=_nonce())

    def ended(self, etag: str) -> Claim:
        """The same once it shows it."""
        return replace(self, etag=etag, done=True, nonce=_nonce())

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> Claim:
        return cls.from_fields(Fields(path, parse(path, raw, size_limit=_SIZE_LIMIT)))

    def to_bytes(self) -> bytes:
        raw = render(self.to_document())
        return within(raw, _SIZE_LIMIT, "the claim of an alias", "choose a shorter name")


def _name_key(destination: str) -> str:
    return paths.join(destination, MANIFESTS, ".alias.json")


async def read_name(store: Store, dataset: Location) -> AliasPlace | None:
    """The alias that a dataset has; None if it has none.

    Raises FormatError if the record is malformed, UsageError if it names what can be no alias.
    """
    key = _name_key(dataset.key)
    if (raw := await body_at(store, key, _SIZE_LIMIT + 1)) is None:
        return None
    return AliasPlace.of(dataset, AliasName.from_bytes(f"{store.bucket}/{key}", raw).alias)


async def write_name(store: Store, place: AliasPlace) -> None:
    """Record which alias a dataset has."""
    await store.put(_name_key(place.dataset.key), AliasName(alias=place.text).to_bytes())


async def remove_name(store: Store, dataset: Location) -> None:
    """Record that it has none."""
    await store.delete([_name_key(dataset.key)])
