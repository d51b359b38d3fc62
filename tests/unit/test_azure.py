"""What Azure's store decides without a request: ids of blocks, names of metadata, errors, URLs."""

from __future__ import annotations

import pickle
import traceback
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from azure.core import exceptions as azure
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from magicfs.errors import (
    MagicError,
    ObjectExists,
    ObjectNotFound,
    PermissionDenied,
    PreconditionFailed,
    StoreError,
    Unavailable,
    UploadNotFound,
    UsageError,
)
from magicfs.protocol.readback import WRITE_ID
from magicfs.stores import resolve
from magicfs.stores.azure import blocks as azure_blocks
from magicfs.stores.azure import errors as azure_errors
from magicfs.stores.azure import metadata as azure_metadata
from magicfs.testing import strategies
from proofs.doubles.azure_operations import azure_operation

NOW = 1_795_392_288.7
HEX = "0123456789abcdef" * 2
ETAG = f'"{HEX}"'
OPTIONS = st.dictionaries(st.sampled_from(sorted(azure_metadata.DESCRIPTION)), st.text(max_size=200))
TEXTS = st.text(max_size=40)


def open_ids(upload_id: str, metadata: dict[str, str], options: dict[str, Any]) -> list[str]:
    more, last = azure_blocks.opening(upload_id, metadata, options)
    return [*more, last]


# -- ids of blocks -------------------------------------------------------------------------------------------


@given(metadata=st.dictionaries(TEXTS, TEXTS, max_size=5), options=OPTIONS, known=st.booleans())
def test_an_upload_is_read_from_its_blocks_in_any_order(
    metadata: dict[str, str], options: dict[str, str], known: bool
) -> None:
    metadata |= {WRITE_ID: HEX} if known else {}
    first, second = azure_blocks.new_upload_id(NOW), azure_blocks.new_upload_id(NOW)
    ids = open_ids(first, metadata, options)
    parts = [azure_blocks.part(first, 50_000, ETAG), azure_blocks.part(second, 1, ETAG)]
    everything = [one for one in (*ids, *parts, *open_ids(second, {}, {}), "foreign", "x" * 60) if one]
    assert {len(one) for one in everything if one != "foreign"} == {60}
    found = azure_blocks.uploads_of(everything[::-1])
    assert found.keys() == {first, second}
    assert (found[first].metadata, found[first].options) == (metadata, options)
    assert (found[second].metadata, found[second].options) == ({}, {})


@given(metadata=st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=5))
def test_an_upload_of_which_a_block_is_missing_is_not_open(metadata: dict[str, str]) -> None:
    upload_id = azure_blocks.new_upload_id(NOW)
    ids = open_ids(upload_id, metadata, {})
    for missing in ids:
        assert azure_blocks.uploads_of(set(ids) - {missing}) == {}
    assert azure_blocks.uploads_of([*ids, azure_blocks.end(upload_id)]) == {}


def test_a_job_opens_an_upload_by_one_block() -> None:
    assert len(open_ids(azure_blocks.new_upload_id(NOW), {WRITE_ID: HEX}, {})) == 1


def test_an_upload_id_tells_when_it_was_opened_and_is_no_others() -> None:
    ids = {azure_blocks.new_upload_id(NOW) for _ in range(1000)}
    assert len(ids) == 1000
    assert {azure_blocks.opened_s(one) for one in ids} == {1_795_392_288.0}
    assert all(map(azure_blocks.is_upload_id, ids))
    for other in ("", HEX, "a" * 21, "a" * 23, "ä" * 22, "a" * 21 + "\n"):
        assert not azure_blocks.is_upload_id(other)


def test_pieces_that_are_nobodys_text_open_nothing() -> None:
    upload_id = azure_blocks.new_upload_id(NOW)
    [*more, last] = open_ids(upload_id, {"a": "b"}, {})
    assert more
    wrong = [one[:-32] + "A" * 32 for one in more]
    assert azure_blocks.uploads_of([*wrong, last]) == {}


@pytest.mark.parametrize("etag", ["", "etag", HEX, '"0x8D"', f'"{HEX.upper()}"'])
def test_what_is_no_etag_of_a_part_names_no_block(etag: str) -> None:
    assert azure_blocks.part(azure_blocks.new_upload_id(NOW), 1, etag) is None


# -- metadata ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(metadata=strategies.metadata())
def test_metadata_comes_back_and_its_names_are_identifiers(metadata: dict[str, str]) -> None:
    made = azure_metadata.encoded(metadata, "c/k")
    assert all(name.isidentifier() and name.isascii() for name in made)
    assert azure_metadata.decoded(made) == metadata


@given(name=st.from_regex(r"[a-z0-9!#$%&'*+.^_`|~-]{1,12}", fullmatch=True))
def test_any_name_of_a_header_comes_back(name: str) -> None:
    made = azure_metadata.encoded({name: "x"}, "c/k")
    assert [one.isidentifier() for one in made] == [True]
    assert azure_metadata.decoded(made) == {name: "x"}


@pytest.mark.parametrize("name", ["is_directory", "hdi_isfolder", "last_modified", "a__b", "col_20"])
def test_names_that_others_gave_stay(name: str) -> None:
    assert azure_metadata.decoded({name: "x"}) == {name: "x"}


@pytest.mark.parametrize("metadata", [{"é": "x"}, {"a b": "x"}, {"": "x"}, {"a": "é"}, {"a": "line\n"}])
def test_metadata_that_azure_cannot_keep_is_refused(metadata: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="nothing was written"):
        azure_metadata.encoded(metadata, "c/k")


# -- errors --------------------------------------------------------------------------------------------------


def answered(status: int, code: str, message: str = "No.\nRequestId:1") -> azure.HttpResponseError:
    response = SimpleNamespace(status_code=status, reason="reason", headers={}, body=lambda: b"")
    error = azure.HttpResponseError(message=message, response=response)
    error.error_code = code  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("status", "code", "kind", "hint"),
    [
        (404, "ContainerNotFound", ObjectNotFound, "create the container"),
        (404, "BlobNotFound", ObjectNotFound, "check the bucket"),
        (409, "ContainerBeingDeleted", ObjectNotFound, "wait until"),
        (409, "BlobAlreadyExists", ObjectExists, "another name"),
        (412, "ConditionNotMet", PreconditionFailed, "read the object again"),
        (412, "LeaseIdMissing", StoreError, "release the lease"),
        (409, "BlobImmutableDueToPolicy", StoreError, "legal hold"),
        (409, "BlobImmutableDueToLegalHold", StoreError, "legal hold"),
        (409, "PathImmutableDueToPolicy", StoreError, "legal hold"),
        (409, "BlobArchived", StoreError, "rehydrate"),
        (409, "SnapshotsPresent", StoreError, "snapshots"),
        (409, "InvalidBlobType", StoreError, "append or page blob"),
        (400, "InvalidBlobOrBlock", StoreError, "another program"),
        (400, "InvalidBlockList", UploadNotFound, "read the object itself"),
        (400, "Md5Mismatch", Unavailable, "try again"),
        (401, "NoAuthenticationInformation", PermissionDenied, "AZURE_STORAGE_CONNECTION_STRING"),
        (403, "AuthenticationFailed", PermissionDenied, "renew the credentials"),
        (403, "AuthorizationPermissionMismatch", PermissionDenied, "Storage Blob Data Contributor"),
        (403, "AuthorizationFailure", PermissionDenied, "firewall"),
        (503, "ServerBusy", Unavailable, "try again"),
        (500, "OperationTimedOut", Unavailable, "try again"),
        (429, "TooManyRequests", Unavailable, "try again"),
    ],
)
def test_answers_are_told_in_the_words_of_the_port(
    status: int, code: str, kind: type[MagicError], hint: str
) -> None:
    found = azure_errors.translate(answered(status, code), "put", "c/k")
    assert type(found) is kind
    assert hint in str(found)
    assert code in str(found)
    # Of a container that is not there the key says nothing: the caller may never have named it.
    assert ("c/k" in str(found)) == (code != "ContainerNotFound")
    assert "RequestId" not in str(found)
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (azure.ServiceRequestError("cannot connect"), Unavailable),
        (azure.ServiceResponseError("cut"), Unavailable),
        (azure.IncompleteReadError("half"), Unavailable),
        (azure.ClientAuthenticationError("no credential in the chain"), PermissionDenied),
        (TimeoutError("late"), Unavailable),
        (ValueError("ours"), ValueError),
    ],
)
def test_silence_is_unavailable_and_missing_credentials_are_not(error: Exception, kind: type) -> None:
    assert type(azure_errors.translate(error, "put", "c/k")) is kind


def test_no_signature_is_in_the_traceback_of_an_answer_that_quotes_the_request() -> None:
    quoting = answered(400, "InvalidHeaderValue", "Bad header.\nHeaderValue:/c/a?sv=1&sig=SECRET%3D&se=2")
    with pytest.raises(StoreError) as refused, azure_errors.translated("rename", "c/a"):
        raise quoting
    shown = "".join(traceback.format_exception(refused.value))
    assert "HeaderValue:/c/a?sv=1&sig=…&se=2" in shown
    assert "SECRET" not in shown
    assert azure_errors.code_of(refused.value) == "InvalidHeaderValue"


def test_no_address_with_a_signature_is_in_the_traceback_of_a_bad_answer() -> None:
    url = URL("http://a/c?sv=1&sig=SECRET")
    info = aiohttp.RequestInfo(url, "GET", CIMultiDictProxy(CIMultiDict()), url)
    with pytest.raises(Unavailable) as refused, azure_errors.translated("get", "c/a"):
        try:
            raise aiohttp.ClientResponseError(info, (), status=400, message="Bad status line")
        except aiohttp.ClientError as error:
            raise azure.ServiceResponseError("no answer", error=error) from error
    assert "SECRET" not in "".join(traceback.format_exception(refused.value))


def test_no_signature_is_in_a_message() -> None:
    url = "https://a.blob.core.windows.net/c?sv=1&sig=SECRET%3D&se=2 AccountKey=SECRET; "
    url += "SharedAccessSignature=SECRET"
    for error in (azure.ServiceRequestError(url), answered(403, "AuthenticationFailed", url)):
        assert "SECRET" not in str(azure_errors.translate(error, "put", "c/k"))


# -- URLs and requests ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "plain", "options"),
    [
        ("abfs://c/x", "abfs://c/x", {}),
        ("abfs://c@a.dfs.core.windows.net/x é#%", "abfs://c/x é#%", {"account_name": "a"}),
        ("abfss://c@a.blob.core.windows.net", "abfss://c", {"account_name": "a"}),
        (
            "az://c@a.dfs.core.chinacloudapi.cn/x",
            "az://c/x",
            {"account_name": "a", "account_host": "a.blob.core.chinacloudapi.cn"},
        ),
        ("abfs://c/user@a.dfs.core.windows.net/x", "abfs://c/user@a.dfs.core.windows.net/x", {}),
        ("s3://c@a.dfs.core.windows.net/x", "s3://c@a.dfs.core.windows.net/x", {}),
        ("no url", "no url", {}),
    ],
)
def test_a_url_may_name_the_account(url: str, plain: str, options: dict[str, str]) -> None:
    assert resolve.split(url) == (plain, options)
    assert resolve.split(url, {"anon": True}) == (plain, {"anon": True, **options})


def test_a_url_and_options_that_name_two_accounts_are_refused() -> None:
    with pytest.raises(UsageError, match="give one of them"):
        resolve.split("abfs://c@a.dfs.core.windows.net/x", {"account_name": "b"})


def test_what_carries_a_secret_is_left_out() -> None:
    given = {"account_name": "a", "account_key": "s", "sas_token": "s", "connection_string": "s"}
    assert resolve.without_secrets(given | {"client_secret": "s", "credential": object()}) == {
        "account_name": "a"
    }


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "operation"),
    [
        ("PUT", "/a/c/k", "comp=block&blockid=x", {}, "Put Block"),
        ("PUT", "/a/c/k/l", "comp=blocklist", {}, "Put Block List"),
        ("GET", "/a/c/k", "comp=blocklist&blocklisttype=uncommitted", {}, "Get Block List"),
        ("PUT", "/a/c/k", "", {}, "Put Blob"),
        ("PUT", "/a/c/k", "", {"x-ms-copy-source": "u"}, "Copy Blob"),
        ("GET", "/a/c", "restype=container&comp=list", {}, "List Blobs"),
        (
            "GET",
            "/a/c",
            "restype=container&comp=list&include=uncommittedblobs",
            {},
            "List Blobs, uncommitted too",
        ),
        ("PUT", "/a/c", "restype=container", {}, "Create Container"),
        ("PATCH", "/a/c/k", "", {}, "PATCH"),
    ],
)
def test_operations_are_named(
    method: str, path: str, query: str, headers: dict[str, str], operation: str
) -> None:
    assert azure_operation(method, path, query, headers) == operation
