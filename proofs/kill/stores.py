"""The kinds of stores on which jobs are killed: their servers, and what their requests mean.

A request is named as the same step on S3 is, so that one table of phases serves all of them.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar
from urllib.parse import parse_qs, unquote

from magicfs.testing.s3_operations import s3_operation
from proofs.doubles.azure_operations import azure_operation
from proofs.doubles.azurite import Azurite
from proofs.doubles.bucket_view import BucketView
from proofs.doubles.ceph_server import Ceph
from proofs.doubles.gcs_operations import gcs_operation
from proofs.doubles.gcs_server import GcsDouble
from proofs.doubles.server_process import ServerProcess
from proofs.doubles.servers import SeaweedFS
from proofs.kill.disk import PAUSE_VARIABLE, REQUIRED_ON_DISK, Disk, hold_up_changes
from proofs.kill.phases import REQUIRED, Phase, Request, request_about, request_of

__all__ = ["PLACES", "STORES", "Arrived", "Kind", "Place", "enter", "kind_of", "take_role"]

_OWN_VARIABLES = ("AWS_", "AZURE_", "FSSPEC_", "GOOGLE_", "STORAGE_EMULATOR_HOST")
_ROLE = re.compile(r"\bapp/([\w-]+)")
_NAME_IN_BODY = re.compile(rb'"name"\s*:\s*("(?:[^"\\]|\\.)*")')
_KEY_IN_BATCH = re.compile(rb"^DELETE /storage/v1/b/[^/]+/o/([^?\s]+)", re.MULTILINE)
_OF_BLOCKS = {"p": "UploadPart", "e": "AbortMultipartUpload"}
_BLOCK_KIND_AT = 22

_ON_GCS = {
    "objects.insert": "PutObject",
    "objects.get": "HeadObject",
    "objects.read": "GetObject",
    "objects.delete": "DeleteObject",
    "batch": "DeleteObjects",
    "objects.list": "ListObjectsV2",
}
_ON_AZURE = {
    "Put Block": "UploadPart",
    "Put Block List": "CompleteMultipartUpload",
    "Get Block List": "ListParts",
    "Put Blob": "PutObject",
    "Get Blob": "GetObject",
    "Get Blob Properties": "HeadObject",
    "Delete Blob": "DeleteObject",
    "List Blobs": "ListObjectsV2",
    "List Blobs, uncommitted too": "ListMultipartUploads",
}


Place = ServerProcess | Disk
"""Where jobs publish."""

_Place = TypeVar("_Place", bound=Place)


@dataclass(frozen=True, slots=True)
class Arrived:
    """A request as a proxy saw it.

    Attributes:
        operation: As ``Kind.operation`` names it.
        path: Raw.
        query: Raw, without the question mark.
        headers: Looked up in any case.
        body: All of it.
    """

    operation: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Kind(Generic[_Place]):
    """A kind of store.

    Attributes:
        server: Starts one.
        operation: The name of the operation of a request, by method, path, query and headers.
        request: What tells the phase of a request that arrived.
        options: Storage options without secrets, for a way to the server.
        environment: What processes need beside, secrets included, for a way to the server.
        numbered: Whether versions of a job object are numbered there, for want of If-Match.
        required: The phases that must all have been hit for a run of kills to count.
    """

    server: Callable[[], _Place]
    operation: Callable[[str, str, str, Mapping[str, str]], str]
    request: Callable[[Arrived], Request]
    options: Callable[[Any, str], dict[str, Any]]
    environment: Callable[[Any, str], dict[str, str]]
    numbered: bool = False
    required: tuple[Phase, ...] = REQUIRED


def take_role(role: str) -> None:
    """Say in the User-Agent of every request from now on who this process is: for each client there is."""
    import aiohttp.client_reqrep

    from magicfs.runtime import watchers

    agent = watchers.agent
    watchers.agent = lambda: f"{agent()} app/{role}"
    os.environ["AWS_SDK_UA_APP_ID"] = role
    os.environ["AZURE_HTTP_USER_AGENT"] = f"app/{role}"
    # gcsfs has no setting for it.
    aiohttp.client_reqrep.SERVER_SOFTWARE = f"app/{role}"  # type: ignore[attr-defined]


def enter(environment: Mapping[str, str]) -> None:
    """Take on an environment, and leave behind what would be taken for another store's."""
    for name in [name for name in os.environ if name.startswith(_OWN_VARIABLES)]:
        del os.environ[name]
    os.environ.update(environment)
    hold_up_changes(float(environment.get(PAUSE_VARIABLE, "0")))


def kind_of(server: BucketView | Disk) -> Kind[Any]:
    """The kind of a server, or of a disk."""
    return _BY_SCHEME[server.scheme]


def _s3_request(arrived: Arrived) -> Request:
    first = "If-None-Match" in arrived.headers
    role = _role_of(arrived)
    return request_of(role, arrived.operation, arrived.path, arrived.query, arrived.body, if_none_match=first)


def _gcs_request(arrived: Arrived) -> Request:
    operation = _ON_GCS.get(arrived.operation, arrived.operation)
    keys: tuple[str, ...] = ()
    if operation == "PutObject":
        if found := _NAME_IN_BODY.search(arrived.body):
            keys = (json.loads(found[1]),)
    elif operation == "DeleteObjects":
        keys = tuple(unquote(one.decode()) for one in _KEY_IN_BATCH.findall(arrived.body))
    elif "/storage/v1/" in arrived.path:
        keys = tuple(unquote(one) for one in arrived.path.partition("/o/")[2:] if one)
    elif key := unquote(arrived.path).removeprefix("/").partition("/")[2]:
        keys = (key,)
    first = parse_qs(arrived.query).get("ifGenerationMatch") == ["0"]
    return _told(arrived, operation, keys, first=first)


def _azure_request(arrived: Arrived) -> Request:
    operation = _ON_AZURE.get(arrived.operation, arrived.operation)
    if operation == "UploadPart":
        operation = _OF_BLOCKS.get(_block_kind(arrived.query), "CreateMultipartUpload")
    key = unquote(arrived.path).removeprefix("/").partition("/")[2].partition("/")[2]
    return _told(arrived, operation, (key,) if key else (), first="If-None-Match" in arrived.headers)


def _block_kind(query: str) -> str:
    """Of the letter by which an id says what its block is for."""
    (block_id,) = parse_qs(query).get("blockid", ("",))
    return base64.b64decode(block_id).decode()[_BLOCK_KIND_AT : _BLOCK_KIND_AT + 1]


def _told(arrived: Arrived, operation: str, keys: tuple[str, ...], *, first: bool) -> Request:
    about = keys or tuple(parse_qs(arrived.query).get("prefix", ("",)))
    return request_about(_role_of(arrived), operation, about, arrived.body, first=first)


def _role_of(arrived: Arrived) -> str:
    """Who sent a request; nothing if it does not say."""
    found = _ROLE.search(arrived.headers.get("User-Agent", ""))
    return found[1] if found else ""


_NOBODY_ELSES = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}


def _of_s3(server: type[ServerProcess]) -> Kind[ServerProcess]:
    return Kind(
        server,
        s3_operation,
        _s3_request,
        lambda server, endpoint: {
            "endpoint_url": endpoint,
            "client_kwargs": {"region_name": server.region},
        },
        lambda server, _: server.credentials() | _NOBODY_ELSES,
    )


STORES: Final[Mapping[str, Kind[ServerProcess]]] = MappingProxyType(
    {
        "s3": _of_s3(SeaweedFS),
        "ceph": replace(_of_s3(Ceph), numbered=True),
        "gcs": Kind(
            GcsDouble,
            gcs_operation,
            _gcs_request,
            lambda server, endpoint: server.plain_options(endpoint),
            lambda server, _: server.credentials(),
        ),
        "azure": Kind(
            Azurite,
            azure_operation,
            _azure_request,
            lambda _server, _endpoint: {},
            lambda server, endpoint: {"AZURE_STORAGE_CONNECTION_STRING": server.connection_string(endpoint)},
        ),
    }
)
"""Servers, by the names that ``--store`` takes."""

_LOCAL = Kind(
    Disk,
    lambda *_: "",
    lambda arrived: request_about(_role_of(arrived), arrived.operation, (), arrived.body, first=False),
    lambda _server, _endpoint: {},
    lambda _server, pause_s: {PAUSE_VARIABLE: pause_s},
    numbered=True,
    required=REQUIRED_ON_DISK,
)

PLACES: Final[Mapping[str, Kind[Any]]] = MappingProxyType({**STORES, "local": _LOCAL})
"""All that ``--store`` takes: servers, and files of this machine."""

_BY_SCHEME: Mapping[str, Kind[Any]] = {
    "s3": STORES["s3"],
    "gs": STORES["gcs"],
    "abfs": STORES["azure"],
    Disk.scheme: _LOCAL,
}
