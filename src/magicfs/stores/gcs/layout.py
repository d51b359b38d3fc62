"""What kind of bucket one of Google Cloud Storage is, asked once a process."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from magicfs.errors import PermissionDenied, Unsupported
from magicfs.stores.gcs import errors
from magicfs.stores.gcs.client import GcsClient

__all__ = ["Layout", "layout_of"]

_known: dict[str, Layout] = {}


@dataclass(frozen=True, slots=True)
class Layout:
    """The kind of a bucket.

    Attributes:
        is_zonal: Whether it is a Rapid bucket, whose objects are visible while they are written.
        is_hierarchical: Whether it has folders, which are renamed in one step.
    """

    is_zonal: bool = False
    is_hierarchical: bool = False


async def layout_of(client: GcsClient, bucket: str, operation: str) -> Layout:
    """The layout of a bucket; of one that who may use it may not ask about, that of an ordinary one.

    Raises ObjectNotFound if there is no such bucket.
    """
    place = f"{client.location}/{bucket}"
    if (known := _known.get(place)) is not None:
        return known
    target = f"/storage/v1/b/{quote(bucket)}/storageLayout"
    try:
        answer = await client.ask(operation, f"{bucket}/", "GET", target)
        told = errors.document(answer, operation, f"{bucket}/", "storage#storageLayout")
    except (PermissionDenied, Unsupported) as error:
        if errors.is_about_credentials(error):
            raise  # others may be allowed to ask
        told = {}
    with errors.reading(operation, f"{bucket}/"):
        folders = told.get("hierarchicalNamespace") or {}
        found = Layout(told.get("locationType") == "zone", bool(folders.get("enabled")))
    if not found.is_zonal:
        _known[place] = found
    return found
