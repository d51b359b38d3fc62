"""The names of operations of Azure's Blob service and of Data Lake Storage, recognised from requests, and
their cost.

The account is the first element of the path, as emulators have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

__all__ = ["CLASSES", "azure_operation", "classes"]

CLASSES: Mapping[str, frozenset[str]] = {
    "write": frozenset(
        {"Put Block", "Put Block List", "Put Blob", "Copy Blob", "Path Create", "Path Update"}
    ),
    "list and create container": frozenset({"List Blobs", "List Blobs, uncommitted too", "Create Container"}),
    "read": frozenset({"Get Blob", "Path Get Properties"}),
    "iterative write": frozenset({"Path Rename"}),
    "iterative read": frozenset({"Path List"}),
    "other": frozenset(
        {"Get Blob Properties", "Get Block List", "Get Account Information", "Get Container Properties"}
    ),
    "free": frozenset({"Delete Blob", "Delete Container", "Path Delete"}),
}
"""The operations of each class by which Azure bills, on standard general-purpose v2 and premium accounts."""

# (method, value of comp) -> operation, as the service's reference calls it.
_ON_BLOB = {
    ("PUT", "block"): "Put Block",
    ("PUT", "blocklist"): "Put Block List",
    ("GET", "blocklist"): "Get Block List",
    ("PUT", ""): "Put Blob",
    ("GET", ""): "Get Blob",
    ("HEAD", ""): "Get Blob Properties",
    ("DELETE", ""): "Delete Blob",
}
_ON_CONTAINER = {
    ("GET", "list"): "List Blobs",
    ("PUT", ""): "Create Container",
    ("DELETE", ""): "Delete Container",
    ("GET", ""): "Get Container Properties",
    ("HEAD", ""): "Get Container Properties",
}


# (method, value of resource or action) -> operation of the endpoint ``dfs``.
_OF_DFS = {
    ("PUT", "directory"): "Path Create",
    ("PUT", "file"): "Path Create",
    ("GET", "filesystem"): "Path List",
    ("PATCH", "append"): "Path Update",
    ("PATCH", "flush"): "Path Update",
    ("HEAD", "getStatus"): "Path Get Properties",
    ("HEAD", "getAccessControl"): "Path Get Properties",
}


def azure_operation(method: str, path: str, query: str, headers: Mapping[str, str]) -> str:
    """Return the name of the operation that a request asks for; the HTTP method alone for an unknown one.

    Path and query are raw, the query without its question mark; headers are looked up by lower-case name.
    """
    _, _, blob = path.removeprefix("/").split("/", 2) if path.count("/") > 2 else ("", "", "")
    parameters = dict(parameter.partition("=")[::2] for parameter in query.split("&"))
    if "x-ms-rename-source" in headers:
        return "Path Rename"
    if method == "DELETE" and "recursive" in parameters:
        return "Path Delete"
    of_dfs = _OF_DFS.get((method, parameters.get("resource") or parameters.get("action", "")))
    if of_dfs is not None:
        return of_dfs
    if parameters.get("restype") == "account":
        return "Get Account Information"
    table = _ON_BLOB if blob else _ON_CONTAINER
    operation = table.get((method, parameters.get("comp", "")), method)
    if operation == "List Blobs" and "uncommittedblobs" in parameters.get("include", ""):
        return "List Blobs, uncommitted too"
    return "Copy Blob" if operation == "Put Blob" and "x-ms-copy-source" in headers else operation


def classes(counts: Mapping[str, int]) -> Counter[str]:
    """Return how many requests of each class Azure bills, or of none that is known here: unknown."""
    found: Counter[str] = Counter()
    for operation, number in counts.items():
        found[next((one for one, known in CLASSES.items() if operation in known), "unknown")] += number
    return found
