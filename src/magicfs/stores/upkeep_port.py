"""The port of upkeep: what an operator asks of a bucket beyond its objects. Not every store can answer.

Keys, errors and what each docstring says are as in ``stores.port``. Nothing here changes anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast

from magicfs.errors import Unsupported
from magicfs.stores.port import Store

__all__ = ["Rule", "Upkeep", "Written", "upkeep_of"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the bucket's lifecycle that ends open uploads.

    Attributes:
        days: After how many days, from when an upload was opened.
        prefix: Of which keys.
    """

    days: int
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """What an open upload has come to.

    Attributes:
        size: Bytes of its parts.
        last: When the last of them was written, in seconds since the epoch; None if it has none.
    """

    size: int
    last: float | None


class Upkeep(Protocol):
    """The upkeep of one bucket."""

    async def clock(self) -> float:
        """What time the store says it is, in seconds since the epoch."""

    async def written(self, key: str, upload_id: str) -> Written:
        """How much was written to an upload, and when last.

        Raises:
            UploadNotFound: Aborted or completed already.
        """

    async def rules(self) -> tuple[Rule, ...]:
        """The rules that end open uploads, as far as they ask for nothing but age and prefix."""


def upkeep_of(store: Store) -> Upkeep:
    """The upkeep of a store's bucket. Makes no request.

    Raises:
        Unsupported: The store has none.
    """
    made = getattr(store, "upkeep", None)
    if made is None:
        problem = f"{store.name}:// cannot say when an upload was last written, or how large it is"
        raise Unsupported("upkeep", store.name, problem, hint="use magicfs recover URL --job ID --abort")
    return cast("Upkeep", made())
