"""One file of a dataset, for those who want to know what all of them look like."""

from __future__ import annotations

from magicfs.datasets.connection import Destination
from magicfs.engine import Engine
from magicfs.errors import MagicError
from magicfs.manifests import chain
from magicfs.protocol import paths
from magicfs.protocol.conflict import is_data
from magicfs.protocol.paths import Location

__all__ = ["one_file"]

_LOOKED_AT = 1000


def one_file(destination: Destination, ending: str) -> tuple[str, int] | None:
    """A visible file whose name ends so: its key relative to the destination, and its size.

    It is of the job that was published last; where no job was, or that one has no such file in the manifest
    itself, of the first page of a listing. None if there is none, or the store refused to tell.
    """
    try:
        return destination.run(_one_file, ending)
    except (MagicError, OSError):
        return None


async def _one_file(engine: Engine, location: Location, ending: str) -> tuple[str, int] | None:
    store, directory = engine.store, location.key
    newest = await chain.newest_job(store, directory, chain.READING)
    if newest is not None:
        manifest = await chain.read(store, directory, newest, chain.READING, files=False)
        for file in manifest.files if manifest is not None else ():
            if file.key.endswith(ending) and is_data(file.key, ""):
                return file.key, file.size
    async for info in store.list(paths.prefix_of(directory), limit=_LOOKED_AT):
        if info.key.endswith(ending) and is_data(info.key, directory):
            return paths.relative_to(info.key, directory), info.size
    return None
