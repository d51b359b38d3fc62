"""Where a job's URL leads, and which committer is best there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from magicfs.committers import registry
from magicfs.job.checks import check_filesystem
from magicfs.protocol import paths
from magicfs.stores import resolve
from magicfs.stores.urls import location_of, split

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

__all__ = ["choose_committer", "destination_of"]


def choose_committer(
    name: str,
    location: paths.Location,
    storage_options: Mapping[str, Any],
    filesystem: AbstractFileSystem | None,
) -> tuple[str, str]:
    """The committer that was asked for; for ``auto`` the best that the store can carry, and why."""
    if name != "auto":
        return name, ""
    check_filesystem(storage_options, filesystem)
    wrapped = filesystem or resolve.filesystem(location.scheme, storage_options)
    best, reason = registry.best_for(resolve.open_store(wrapped, location.bucket))
    logging.getLogger("magicfs").info("%s: committer %s, because %s", location.url, best, reason)
    return best, reason


def destination_of(
    url: str | PathLike[str],
    storage_options: Mapping[str, Any] | None,
    filesystem: AbstractFileSystem | None,
) -> tuple[paths.Location, dict[str, Any]]:
    """Where a job's URL leads, and the options of the filesystem, with those that the URL itself names."""
    plain, named = split(url, storage_options)
    location = location_of(plain, any_scheme=filesystem is not None)
    if filesystem is None:
        return location, named
    resolve.check_leads(location, filesystem)
    return location, dict(storage_options or {})
