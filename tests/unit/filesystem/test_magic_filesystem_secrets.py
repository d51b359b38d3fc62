"""No secret leaves the process by itself: pickles, JSON, repr; and what is said where none can be found."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs
from s3fs import S3FileSystem

from magicfs.errors import PermissionDenied, UsageError
from magicfs.filesystem import MagicFileSystem
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import World

SECRET = "hidden-secret-0123456789"
ENDPOINT = "http://127.0.0.1:9"
PLAIN: dict[str, Any] = {
    "endpoint_url": ENDPOINT,
    "client_kwargs": {"region_name": "eu-north-1"},
    "config_kwargs": {"s3": {"addressing_style": "path"}},
    "use_listings_cache": False,
}
# Every place where s3fs takes a secret.
INLINE: list[dict[str, Any]] = [
    {"key": f"{SECRET}-key", "secret": SECRET},
    {"key": f"{SECRET}-key", "secret": SECRET, "token": f"{SECRET}-token"},
    {"username": f"{SECRET}-key", "password": SECRET},
    {
        "client_kwargs": {
            "region_name": "eu-north-1",
            "aws_access_key_id": SECRET,
            "aws_secret_access_key": SECRET,
        }
    },
    {"client_kwargs": {"region_name": "eu-north-1", "aws_session_token": SECRET}},
]
# Secrets by their values, with what is left of each.
IN_VALUES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"endpoint_url": f"http://user:{SECRET}@127.0.0.1:9"}, {}),
    ({"endpoint_url": f"http://{SECRET}@127.0.0.1:9"}, {}),
    (
        {
            "config_kwargs": {
                "proxies": {"http": f"http://u:{SECRET}@proxy:3128", "https": f"u:{SECRET}@proxy:1"}
            }
        },
        {"config_kwargs": {"proxies": {"http": "http://proxy:3128", "https": "proxy:1"}}},
    ),
]
FILE = "bucket/dataset1/__magic/job 1/__base/a"


def by_options(secrets: dict[str, Any]) -> MagicFileSystem:
    return MagicFileSystem(target_protocol="s3", target_options=PLAIN | secrets)


def by_nested_options(secrets: dict[str, Any]) -> MagicFileSystem:
    return MagicFileSystem(target_protocol="s3", s3=PLAIN | secrets)


def by_url(secrets: dict[str, Any]) -> MagicFileSystem:
    filesystem, _ = url_to_fs(f"magic::s3a://{FILE}", s3=PLAIN | secrets)
    assert isinstance(filesystem, MagicFileSystem)
    return filesystem


BY_OPTIONS = [by_options, by_nested_options, by_url]


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No credentials can be found on this machine."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "FSSPEC_"))]:
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def unpickled(raw: bytes) -> MagicFileSystem:
    MagicFileSystem.clear_instance_cache()
    S3FileSystem.clear_instance_cache()
    made: MagicFileSystem = pickle.loads(raw)
    return made


@pytest.mark.parametrize("make", BY_OPTIONS)
@pytest.mark.parametrize("secrets", INLINE)
def test_pickle_drops_secrets_and_keeps_the_way_to_the_store(make: Any, secrets: dict[str, Any]) -> None:
    raw = pickle.dumps(make(secrets))
    assert SECRET.encode() not in raw
    assert unpickled(raw).fs.storage_options == PLAIN


@pytest.mark.parametrize("make", BY_OPTIONS)
def test_pickle_keeps_the_options_of_magic_itself(make: Any) -> None:
    for options in (
        {"tracking": "memory", "unique_names": True, "part_size": 2**23},
        {"hadoop": "3.4", "part_size": 2**23},
    ):
        made = MagicFileSystem(target_protocol="s3", target_options=PLAIN, **options)
        again = unpickled(pickle.dumps(made))
        assert again.storage_options == made.storage_options
        assert (again.locate("bucket/a/__magic/b") is None) is ("hadoop" in options)


@pytest.mark.parametrize("make", BY_OPTIONS)
@pytest.mark.parametrize("secrets", INLINE)
def test_secrets_go_along_only_where_allowed(make: Any, secrets: dict[str, Any]) -> None:
    made = MagicFileSystem(
        target_protocol="s3", target_options=PLAIN | secrets, allow_secrets_in_pickles=True
    )
    assert unpickled(pickle.dumps(made)).fs.storage_options == PLAIN | secrets


@pytest.mark.parametrize("secrets", INLINE)
def test_instance_with_inline_secrets_is_pickled_only_where_allowed(secrets: dict[str, Any]) -> None:
    wrapped = S3FileSystem(**PLAIN | secrets)
    with pytest.raises(UsageError, match="allow_secrets_in_pickles=True") as caught:
        pickle.dumps(MagicFileSystem(wrapped))
    assert SECRET not in str(caught.value)
    allowed = MagicFileSystem(wrapped, allow_secrets_in_pickles=True)
    assert unpickled(pickle.dumps(allowed)).fs.storage_options == PLAIN | secrets


def test_secrets_that_were_given_by_position_are_secrets_too() -> None:
    wrapped = S3FileSystem(False, ENDPOINT, f"{SECRET}-key", SECRET)
    with pytest.raises(UsageError, match="key, secret"):
        pickle.dumps(MagicFileSystem(wrapped))
    assert SECRET not in MagicFileSystem(wrapped).to_json()


def test_instance_without_inline_secrets_is_pickled(nowhere: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", f"{SECRET}-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    raw = pickle.dumps(MagicFileSystem(S3FileSystem(**PLAIN)))
    assert SECRET.encode() not in raw
    assert unpickled(raw).fs.storage_options == PLAIN


def test_key_of_customer_encryption_is_never_dropped_in_silence() -> None:
    # Without it the copy would write the data in the clear, and no request would fail.
    secrets = {"s3_additional_kwargs": {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": SECRET}}
    with pytest.raises(UsageError, match=r"SSECustomerKey.*allow_secrets_in_pickles=True") as caught:
        pickle.dumps(by_options(secrets))
    assert SECRET not in str(caught.value)
    with pytest.raises(UsageError, match="SSECustomerKey"):
        pickle.dumps(MagicFileSystem(S3FileSystem(**PLAIN | secrets)))


@pytest.mark.parametrize("make", BY_OPTIONS)
def test_first_request_of_a_copy_that_finds_no_credentials_says_what_to_set(make: Any, nowhere: None) -> None:
    copy = unpickled(pickle.dumps(make(INLINE[0])))
    for call in (lambda: copy.pipe_file(FILE, b"1"), lambda: copy.open(FILE, "wb"), lambda: copy.info(FILE)):
        with pytest.raises(PermissionDenied, match="AWS_ACCESS_KEY_ID"):
            call()


def test_copy_finds_the_credentials_of_its_own_process(
    nowhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = unpickled(pickle.dumps(by_options(INLINE[0])))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "its-own-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "its-own-secret")
    client = copy.fs.s3 if copy.fs._s3 is not None else copy.fs.connect()
    assert client._request_signer._credentials.access_key == "its-own-key"


@pytest.mark.parametrize("make", BY_OPTIONS)
@pytest.mark.parametrize("secrets", INLINE)
def test_secrets_are_in_no_text(make: Any, secrets: dict[str, Any]) -> None:
    made = make(secrets)
    texts = [
        repr(made),
        str(made),
        made.to_json(),
        made.to_json(include_password=True),
        made.unstrip_protocol(FILE),
    ]
    texts += [
        json.dumps(made.to_dict(), default=str),
        json.dumps(made.to_dict(include_password=False), default=str),
    ]
    assert [text for text in texts if SECRET in text] == []
    assert ENDPOINT in made.to_json()


@pytest.mark.parametrize("secrets", INLINE)
def test_secrets_of_a_wrapped_instance_are_in_no_text(secrets: dict[str, Any]) -> None:
    for made in (
        MagicFileSystem(S3FileSystem(**PLAIN | secrets)),
        MagicFileSystem(fs=S3FileSystem(**PLAIN | secrets)),
    ):
        texts = [repr(made), made.to_json(), json.dumps(made.to_dict(), default=repr)]
        assert [text for text in texts if SECRET in text] == []


@pytest.mark.parametrize("options", [{}, {"hadoop": None, "part_size": 2**23}])
def test_json_makes_the_filesystem_again_where_it_holds_no_secret(options: dict[str, Any]) -> None:
    made = MagicFileSystem(target_protocol="s3", target_options=PLAIN, **options)
    assert AbstractFileSystem.from_json(made.to_json()) is made
    wrapped = MagicFileSystem(S3FileSystem(**PLAIN))
    assert AbstractFileSystem.from_json(wrapped.to_json()).fs.storage_options == PLAIN


def test_memory_filesystem_pickles_only_with_the_world_of_its_process() -> None:
    shared = MagicFileSystem(target_protocol="memory")
    assert pickle.loads(pickle.dumps(shared)) is shared
    with pytest.raises(UsageError, match="cannot be pickled"):
        pickle.dumps(MagicFileSystem(MemoryFileSystem(world=World())))


@pytest.mark.parametrize(("given", "left"), IN_VALUES)
@pytest.mark.parametrize("make", BY_OPTIONS)
def test_a_password_in_a_url_is_a_secret_and_the_rest_of_the_url_is_kept(
    make: Any, given: dict[str, Any], left: dict[str, Any]
) -> None:
    made = make(given)
    raw = pickle.dumps(made)
    assert SECRET.encode() not in raw
    assert unpickled(raw).fs.storage_options == PLAIN | left
    texts = [repr(made), made.to_json(), made.to_json(include_password=True)]
    assert [text for text in texts if SECRET in text] == []


@pytest.mark.parametrize(("given", "_left"), IN_VALUES)
def test_an_instance_with_a_password_in_a_url_is_pickled_only_where_allowed(
    given: dict[str, Any], _left: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match=r"endpoint_url|config_kwargs\.proxies\.http") as caught:
        pickle.dumps(MagicFileSystem(S3FileSystem(**PLAIN | given)))
    assert SECRET not in str(caught.value)
