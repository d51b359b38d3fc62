"""Tables of catalogs that do not show yet what a job has published, or is about to publish.

::

    DEST/_magicfs/.catalogs/<job>-<hash>.json

Each is written before the commit point of its job, and goes once its table shows the job. So one that stays
after its job has ended says what a driver that died has not done. A job's id never begins with a dot, so the
directory is no job's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from magicfs.formats.limits import REGISTRATION_SIZE_LIMIT
from magicfs.formats.registration import Registration
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.runtime.parallel import drained
from magicfs.stores.port import Store
from magicfs.stores.register import body_at

_DIRECTORY: Final = ".catalogs"


async def write(store: Store, destination: str, registrations: Iterable[Registration]) -> None:
    """Write down what a job is to register. A second call, from any process, writes the same again."""
    for one in registrations:
        await store.put(_key(destination, one.name), one.to_bytes())


async def all_registrations(store: Store, destination: str) -> dict[str, Registration]:
    """All that are there, by the names of their files, sorted.

    Raises FormatError if one is malformed.
    """
    keys = [info.key async for info in store.list(_prefix(destination))]
    found: dict[str, Registration] = {}

    async def read(key: str) -> None:
        raw = await body_at(store, key, REGISTRATION_SIZE_LIMIT + 1)
        if raw is not None:  # else it was done meanwhile
            found[key] = Registration.from_bytes(f"{store.bucket}/{key}", raw)

    await drained(keys, read, 8)
    return {key.removeprefix(_prefix(destination)): found[key] for key in sorted(found)}


async def remove(store: Store, destination: str, registrations: Sequence[Registration]) -> None:
    """Forget registrations. A second call does nothing."""
    size = store.capabilities.bulk_delete_max
    keys = [_key(destination, one.name) for one in registrations]
    for start in range(0, len(keys), size):
        await store.delete(keys[start : start + size])


def path_of(store: Store, destination: str, name: str) -> str:
    """Where the file of a registration is, as errors and reports show it."""
    return f"{store.bucket}/{_key(destination, name)}"


def _prefix(destination: str) -> str:
    return paths.prefix_of(paths.join(destination, MANIFESTS, _DIRECTORY))


def _key(destination: str, name: str) -> str:
    return f"{_prefix(destination)}{name}"
