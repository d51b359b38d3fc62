"""A custom role of Azure, and the condition that binds it to the prefix of a destination."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from magicfs.errors import UsageError
from magicfs.policy.places import Destination, Document
from magicfs.policy.uses import USES

_BLOBS: Final = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"
_LIST: Final = "ListObjectsV2"
_ACTIONS: Final = {
    "CompleteMultipartUpload": "write",
    "CreateMultipartUpload": "write",
    "DeleteObject": "delete",
    "DeleteObjects": "delete",
    "GetObject": "read",
    "HeadObject": "read",
    "PutObject": "write",
    "UploadPart": "write",
}
"""Aborting an upload asks nothing of Azure, and open uploads are found by listing."""
_CONTAINER: Final = re.compile(r"[a-z0-9$][a-z0-9-]{1,61}[a-z0-9]")


def policy(place: Destination, role: str) -> Document:
    """A role and its assignment: replace SUBSCRIPTION, GROUP, ACCOUNT and PRINCIPAL."""
    container = place.bucket.partition("@")[0]
    if not _CONTAINER.fullmatch(container):
        raise UsageError(f"{container!a} is not the name of an Azure container")
    if "'" in place.key:
        raise UsageError("an Azure condition cannot contain the character '; choose another prefix")
    uses = USES[role]
    places: dict[str, set[str]] = {}
    for operation, where in uses.items():
        if (action := _ACTIONS.get(operation)) is not None:
            places.setdefault(action, set()).update(where)
    clauses = [_clause(action, _starts(place, places[action], listed=False)) for action in sorted(places)]
    if _LIST in uses:
        clauses.append(_list_clause(_starts(place, {"data", *uses[_LIST]}, listed=True)))
    actions = sorted({*places, *(["read"] if _LIST in uses else [])})
    account = (
        "/subscriptions/SUBSCRIPTION/resourceGroups/GROUP/providers/Microsoft.Storage/storageAccounts/ACCOUNT"
    )
    return {
        "role": {
            "Name": f"magicfs {role}",
            "IsCustom": True,
            "Actions": [],
            "DataActions": [f"{_BLOBS}/{one}" for one in actions],
            "AssignableScopes": [account],
        },
        "assignment": {
            "scope": f"{account}/blobServices/default/containers/{container}",
            "principalId": "PRINCIPAL",
            "conditionVersion": "2.0",
            "condition": " AND ".join(clauses),
        },
    }


def _starts(place: Destination, places: Iterable[str], *, listed: bool) -> list[str]:
    """What names begin with. The destination's own name is a start like any other: no wildcards."""
    wide = set(places)
    if "data" in wide:
        wide -= {"work", "decisions", "records", "success"}
    if "work" in wide:
        wide -= {"decisions"}
    patterns = place.listed if listed else place.patterns
    return sorted({start + end.partition("*")[0] for one in wide for start, end in patterns(one)})


def _clause(action: str, starts: list[str]) -> str:
    other = " AND NOT SubOperationMatches{'Blob.List'}" if action == "read" else ""
    path = f"@Resource[{_BLOBS}:path]"
    return f"((!(ActionMatches{{'{_BLOBS}/{action}'}}{other})) OR {_any(path, starts)})"


def _list_clause(starts: list[str]) -> str:
    asks = f"ActionMatches{{'{_BLOBS}/read'}} AND SubOperationMatches{{'Blob.List'}}"
    return f"((!({asks})) OR {_any(f'@Request[{_BLOBS}:prefix]', starts)})"


def _any(attribute: str, starts: list[str]) -> str:
    return "(" + " OR ".join(f"{attribute} StringStartsWith '{one}'" for one in starts) + ")"
