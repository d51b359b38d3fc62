"""How long a rollback or a drop keeps what it replaces, where its caller does not say."""

from __future__ import annotations

from typing import Final

from magicfs.engine import Engine
from magicfs.formats.job_options import Keep
from magicfs.manifests import chain
from magicfs.manifests.chain import READING
from magicfs.past.held import rule_of
from magicfs.protocol.modes import delta_mark
from magicfs.protocol.paths import Location
from magicfs.protocol.period import NotSaid
from magicfs.stores.register import is_there

_WEEK_MS: Final = 7 * 86_400_000


async def keep_of(
    engine: Engine, location: Location, keep_ms: int | NotSaid | None, *, in_place: bool, rule: str = ""
) -> Keep:
    """What becomes of the files that a verb replaces.

    Without a word they are kept for as long as the newest job promised that still keeps some, or 7 days; in
    place if the dataset is a table of Delta Lake, too, whose readers know no other place.
    """
    if not isinstance(keep_ms, NotSaid):
        return Keep(ms=keep_ms, in_place=in_place, rule=rule)
    ms, rule = await _own_promise(engine, location)
    return Keep(ms=ms, in_place=in_place or await _is_table(engine, location), rule=rule)


async def _own_promise(engine: Engine, location: Location) -> tuple[int, str]:
    seen = await chain.read_pointer(engine.store, location.key, READING)
    for one in reversed(seen[0].keeping if seen else ()):
        manifest = await chain.read(engine.store, location.key, one.job_id, READING, files=False)
        if manifest is not None and manifest.kept is not None:
            path = chain.manifest_key(location.key, one.job_id)
            return max(manifest.kept.until_ms - manifest.committed_ms, 1), rule_of(manifest.kept, path)
    return _WEEK_MS, ""


async def _is_table(engine: Engine, location: Location) -> bool:
    return await is_there(engine.store, delta_mark(location.key))
