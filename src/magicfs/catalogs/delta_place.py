"""Where a Delta table of a dataset is for ``deltalake``, who cannot read it, and the mark of its log."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from magicfs.datasets.connection import Destination, told_as_newest
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.protocol import paths
from magicfs.protocol.modes import delta_mark
from magicfs.protocol.paths import Location
from magicfs.stores import resolve

_NOTE: Final = b"The versions of this table are made by magicfs: it shows a dataset of magicfs.\n"
_LOGGER = logging.getLogger("magicfs")
_ENCODED: Final = re.compile(r"""[^!-~]|["#<>?^`{}]""")
_UNENCODED: Final = "!$%&'()*+,/:;=@[\\]|~"
_LOCAL: Final = frozenset({"file", "local", ""})
_SCHEMES: Final = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "abfs": "abfs",
    "abfss": "abfss",
}


def uri_of(location: Location) -> str:
    """The table's place; raises UsageError for a store that ``deltalake`` cannot reach."""
    if location.scheme in _LOCAL:
        return location.path
    if location.scheme not in _SCHEMES:
        raise UsageError(
            f"deltalake does not support {location.scheme}://; a Delta table can be on S3, Google Cloud "
            "Storage, Azure and local files"
        )
    return f"{_SCHEMES[location.scheme]}://{location.bucket}/{quote(location.key)}"


def options_of(place: Destination) -> dict[str, str]:
    """Options of ``deltalake`` with which it reaches what a filesystem of S3 reaches; else none."""
    if _SCHEMES.get(place.location.scheme) != "s3":
        return {}
    filesystem: Any = place.filesystem
    client = dict(getattr(filesystem, "client_kwargs", None) or {})
    given = getattr(filesystem, "endpoint_url", None) or client.get("endpoint_url")
    endpoint = resolve.redacted(given) if given else None  # deltalake repeats it in its errors
    found = {
        "AWS_ACCESS_KEY_ID": getattr(filesystem, "key", None),
        "AWS_SECRET_ACCESS_KEY": getattr(filesystem, "secret", None),
        "AWS_SESSION_TOKEN": getattr(filesystem, "token", None),
        "AWS_REGION": client.get("region_name"),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true" if str(endpoint).startswith("http://") else None,
        "AWS_SKIP_SIGNATURE": "true" if getattr(filesystem, "anon", False) else None,
    }
    return {name: str(value) for name, value in found.items() if value}


def warn_of_names(location: Location, keys: Iterable[str]) -> None:
    """Log which directory of files that a table gains Polars does not find: its name is encoded in URLs.

    No spelling in the log of the table helps: ``deltalake`` decodes it, and gives Polars the URL.
    """
    if location.scheme in _LOCAL:
        return
    lost = next((key for key in keys if _ENCODED.search(key)), None)
    if lost is not None:
        text = (
            "%s: Polars' pl.read_delta cannot find files below %s in this Delta table, because it looks for "
            "%s; use pl.scan_pyarrow_dataset(magicfs.Dataset(%r).to_arrow()); deltalake, DuckDB and Spark "
            "find them"
        )
        below = lost.rpartition("/")[0] or lost
        _LOGGER.warning(text, location.url, below, quote(lost, safe=_UNENCODED), location.url)


async def mark(engine: Engine, location: Location) -> None:
    """Say in the log that magicfs keeps it, so that jobs go on publishing here. A second call changes
    nothing.
    """
    key = delta_mark(location.key)
    async for info in engine.store.list(key, limit=1):
        if info.key == key:
            return
    newest = await told_as_newest(engine, location)
    await newest.store.put(paths.join(key), _NOTE)
