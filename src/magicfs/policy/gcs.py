"""Custom roles of Google Cloud Storage, and their bindings to the prefix of a destination."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from magicfs.errors import UsageError
from magicfs.policy.places import Destination, Document
from magicfs.policy.uses import USES

_OBJECTS: Final[Mapping[str, tuple[str, ...]]] = {
    "AbortMultipartUpload": ("storage.multipartUploads.abort",),
    "CompleteMultipartUpload": ("storage.multipartUploads.create", "storage.objects.create"),
    "CreateMultipartUpload": ("storage.multipartUploads.create", "storage.objects.create"),
    "DeleteObject": ("storage.objects.delete",),
    "DeleteObjects": ("storage.objects.delete",),
    "GetObject": ("storage.objects.get",),
    "HeadObject": ("storage.objects.get",),
    "PutObject": ("storage.objects.create",),  # of records, which it may replace
    "UploadPart": ("storage.multipartUploads.create",),
}
_OF_BUCKET: Final = {
    "GetBucketLifecycleConfiguration": "storage.buckets.get",
    "ListMultipartUploads": "storage.multipartUploads.list",
}
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


def policy(place: Destination, role: str) -> Document:
    """Roles and bindings: replace MEMBER. The bucket needs uniform bucket-level access."""
    if not _BUCKET.fullmatch(place.bucket):
        raise UsageError(f"{place.bucket!a} is not the name of a bucket of Google Cloud Storage")
    made = [
        _binding(role, one, found, _objects(place, one)) for one, found in _permissions(role).items() if found
    ]
    if "ListObjectsV2" in USES[role]:
        made.append(_binding(role, "list", {"storage.objects.list"}, _listed(place, role)))
    if of_bucket := {permission for operation, permission in _OF_BUCKET.items() if operation in USES[role]}:
        bucket = f"resource.name == {_text(f'projects/_/buckets/{place.bucket}')}"
        made.append(_binding(role, "bucket", of_bucket, bucket))
    return {"roles": [one for one, _ in made], "bindings": [one for _, one in made]}


def _permissions(role: str) -> dict[str, set[str]]:
    """By place, what a role needs there and not at all data."""
    places: dict[str, set[str]] = {"data": set()}
    for operation, where in USES[role].items():
        for one in where:
            replaces = operation == "PutObject" and one != "data"
            needed = {*_OBJECTS.get(operation, ()), *({"storage.objects.delete"} if replaces else ())}
            places.setdefault("work" if one == "decisions" else one, set()).update(needed)
    return {one: found - (places["data"] if one != "data" else set()) for one, found in places.items()}


def _binding(role: str, name: str, permissions: set[str], condition: str) -> tuple[Document, Document]:
    made = f"magicfs_{role}_{name}"
    title = f"magicfs {role}: {name}"
    own: Document = {
        "roleId": made,
        "role": {"title": title, "includedPermissions": sorted(permissions), "stage": "GA"},
    }
    bound: Document = {
        "role": f"projects/PROJECT/roles/{made}",
        "members": ["MEMBER"],
        "condition": {"title": title, "expression": condition},
    }
    return own, bound


def _objects(place: Destination, name: str) -> str:
    start = f"projects/_/buckets/{place.bucket}/objects/"
    exact = [start + key + end for key, end in place.patterns(name) if "*" not in end]
    begun = [start + key + end.partition("*")[0] for key, end in place.patterns(name) if "*" in end]
    return " || ".join(
        [*(f"resource.name == {_text(one)}" for one in exact)]
        + [f"resource.name.startsWith({_text(one)})" for one in begun]
    )


def _listed(place: Destination, role: str) -> str:
    """Of a request that lists nothing, the prefix counts as the destination's."""
    where = {"data"} | ({"above"} & set(USES[role]["ListObjectsV2"]))
    asked = f"api.getAttribute('storage.googleapis.com/objectListPrefix', {_text(place.prefix)})"
    starts = sorted({start + end.partition("*")[0] for one in where for start, end in place.listed(one)})
    return " || ".join(f"{asked}.startsWith({_text(one)})" for one in starts)


def _text(text: str) -> str:
    """A string of CEL: JSON's are strings of CEL, too."""
    return json.dumps(text)
