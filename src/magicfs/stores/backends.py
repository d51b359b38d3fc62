"""The kinds of stores that there are: one row for each, with all that sets it apart from here.

Nothing above ``stores`` asks which one it is on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magicfs.errors import UsageError
from magicfs.protocol.paths import SIGNED, has_password, redacted
from magicfs.stores.port import Store

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


def _of_fsspec(scheme: str, options: Mapping[str, Any]) -> AbstractFileSystem:
    import fsspec

    return fsspec.filesystem(scheme, **options)


def _class_of_fsspec(scheme: str) -> Collection[type]:
    import fsspec

    return (fsspec.get_filesystem_class(scheme),)


def _nothing(_name: str, _value: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One kind of store."""

    schemes: frozenset[str]  # of URLs, and names of the fsspec filesystem; all mean the same
    open: Callable[[AbstractFileSystem, str], Store]
    """The store of one bucket behind a filesystem of this kind."""
    make: Callable[[str, Mapping[str, Any]], AbstractFileSystem]
    """The filesystem of a scheme and its options; ImportError if its package is missing."""
    split: Callable[[str], tuple[str, dict[str, Any]]] = lambda url: (url, {})
    """A URL with the bucket alone, and what else it names as options of the filesystem."""
    extra: str = ""  # what is installed with ``pip install 'magicfs[…]'`` for it
    has_buckets: bool = True  # whether a path begins with a bucket; else it is absolute, such as /tmp/x
    secrets: frozenset[str] = frozenset()  # options of its filesystem that carry a secret
    irreplaceable: frozenset[str] = frozenset()
    """Those of them that no other process can find by itself, and without which data would be wrong."""
    is_public: Callable[[str, Any], bool] = _nothing
    """Whether the value of such an option only says where the secret is, or that there is none."""
    advice: str = ""  # where a command finds secrets, if not on its command line
    classes: Callable[[str], Collection[type]] = _class_of_fsspec
    """The classes of filesystems that ``make`` makes again, given their options."""


_OF_EXPRESS = ("--x-s3", "--xa-s3")
"""How the names of directory buckets of S3 Express One Zone end, and those of their access points."""


def _s3_store(filesystem: AbstractFileSystem, bucket: str) -> Store:
    if bucket.endswith(_OF_EXPRESS):
        raise UsageError(
            f"s3://{bucket} is a directory bucket of S3 Express One Zone, which lists objects and uploads "
            "in no order, and only below whole directories, so magicfs could not find the leftovers of a "
            "dead job; nothing was changed; use a general purpose bucket"
        )
    from magicfs.stores.s3.client import kept_store

    return kept_store(filesystem, bucket, _new_s3_store)


def _new_s3_store(filesystem: AbstractFileSystem, bucket: str) -> Store:
    from magicfs.stores.object_settings import options_of
    from magicfs.stores.retrying import RetryingStore
    from magicfs.stores.s3.client import retries_of, without_retries
    from magicfs.stores.s3.store import S3Store

    sibling = without_retries(filesystem, options_of(filesystem))
    return RetryingStore(S3Store(sibling, bucket), retries=retries_of(filesystem))


def _s3_filesystem(scheme: str, options: Mapping[str, Any]) -> AbstractFileSystem:
    from magicfs.stores.s3 import client as s3_client

    s3_client.check(options)
    return _of_fsspec(scheme, s3_client.without_userinfo(options))


_CUSTOMER_KEYS = frozenset({"SSECustomerKey", "CopySourceSSECustomerKey"})

S3 = Backend(
    schemes=frozenset({"s3", "s3a"}),
    open=_s3_store,
    make=_s3_filesystem,
    extra="s3",
    # Those that s3fs hands on to its client included.
    secrets=_CUSTOMER_KEYS
    | {
        *("key", "secret", "token", "username", "password", "session"),
        *("aws_access_key_id", "aws_secret_access_key", "aws_session_token"),
    },
    irreplaceable=_CUSTOMER_KEYS,
    advice="set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or AWS_PROFILE, in the "
    "environment; a key of SSE-C goes into FSSPEC_S3='{\"s3_additional_kwargs\": {…}}'",
)


def _gcs_store(filesystem: AbstractFileSystem, bucket: str) -> Store:
    from magicfs.stores.gcs.store import GcsStore
    from magicfs.stores.retrying import RetryingStore

    return RetryingStore(GcsStore(filesystem, bucket))


def _gcs(scheme: str, options: Mapping[str, Any]) -> AbstractFileSystem:
    from fsspec.config import apply_config
    from gcsfs.core import GCSFileSystem

    told = apply_config(GCSFileSystem, dict(options))
    if told.get("endpoint_url") or os.environ.get("STORAGE_EMULATOR_HOST"):
        # gcsfs's other class asks for the type of each bucket by gRPC, and waits a minute for an endpoint
        # that does not speak it.
        return GCSFileSystem(**options)
    return _of_fsspec(scheme, options)


def _gcs_classes(scheme: str) -> Collection[type]:
    from gcsfs.core import GCSFileSystem

    return (GCSFileSystem, *_class_of_fsspec(scheme))


_WAYS_TO_A_TOKEN = frozenset({"anon", "browser", "cache", "cloud", "google_default"})


def _names_a_token(name: str, value: Any) -> bool:
    """Whether a token is one of gcsfs's words or the path of a file, which gcsfs tells apart just so."""
    if name != "token" or not isinstance(value, str):
        return False
    return value in _WAYS_TO_A_TOKEN or os.path.exists(value)  # noqa: PTH110 - a token may be no path at all


GCS = Backend(
    schemes=frozenset({"gs", "gcs"}),
    open=_gcs_store,
    make=_gcs,
    extra="gcs",
    # The others are of the HTTP session, nested in session_kwargs.
    secrets=frozenset({"token", "auth", "cookies", "headers", "proxy_auth"}),
    is_public=_names_a_token,
    advice="on Google Cloud Storage set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account",
    classes=_gcs_classes,
)


_AZURE_HOST = re.compile(r"([a-z]+)://([^/@]*)@([^/@.]+)\.(?:blob|dfs)\.([^/@]+)(/.*)?", re.DOTALL)


def _azure_split(url: str) -> tuple[str, dict[str, Any]]:
    """``abfs://container@account.dfs.core.windows.net/path`` names the account, too."""
    if not (match := _AZURE_HOST.fullmatch(url)):
        return url, {}
    scheme, container, account, cloud, path = match.groups()
    elsewhere = {} if cloud == "core.windows.net" else {"account_host": f"{account}.blob.{cloud}"}
    return f"{scheme}://{container}{path or ''}", {"account_name": account, **elsewhere}


def _azure_filesystem(scheme: str, options: Mapping[str, Any]) -> AbstractFileSystem:
    filesystem = _of_fsspec(scheme, options)
    named, found = options.get("account_name"), filesystem.service_client.account_name
    # A connection string from the environment counts before the name.
    if named and found and named != found:
        raise UsageError(
            f"the URL names the account {named!r}, but the credentials belong to {found!r}; nothing was "
            "changed; give the credentials of that account, or correct its name"
        )
    return filesystem


def _azure_store(filesystem: AbstractFileSystem, bucket: str) -> Store:
    from magicfs.stores.azure.store import AzureStore
    from magicfs.stores.retrying import RetryingStore

    return RetryingStore(AzureStore(filesystem, bucket))


AZURE = Backend(
    schemes=frozenset({"abfs", "abfss", "az"}),
    open=_azure_store,
    make=_azure_filesystem,
    split=_azure_split,
    extra="azure",
    secrets=frozenset({"account_key", "client_secret", "connection_string", "credential", "sas_token"}),
    advice="on Azure set AZURE_STORAGE_CONNECTION_STRING in the environment, or AZURE_STORAGE_ACCOUNT_NAME "
    "with AZURE_STORAGE_ACCOUNT_KEY, with AZURE_STORAGE_SAS_TOKEN, or with AZURE_STORAGE_CLIENT_ID, "
    "AZURE_STORAGE_CLIENT_SECRET and AZURE_STORAGE_TENANT_ID",
)


def _memory(scheme: str, options: Mapping[str, Any]) -> AbstractFileSystem:
    from magicfs.stores.memory.filesystem import MemoryFileSystem
    from magicfs.stores.object_settings import check_few

    check_few(scheme, options, {"world"})
    return MemoryFileSystem(**options)


def _own_store(filesystem: AbstractFileSystem, bucket: str) -> Store:
    store: Store = filesystem.store(bucket)
    return store


MEMORY = Backend(schemes=frozenset({"memory"}), open=_own_store, make=_memory)


def _files(scheme: str, options: Mapping[str, Any]) -> AbstractFileSystem:
    from fsspec.implementations.local import LocalFileSystem

    from magicfs.stores.object_settings import check_few

    check_few(scheme, options, {"auto_mkdir"})
    # As on a store: a directory is there when something is written below it.
    return LocalFileSystem(**{"auto_mkdir": True, **options})


def _local_store(_filesystem: AbstractFileSystem, bucket: str) -> Store:
    from magicfs.stores.local.store import LocalStore

    return LocalStore(bucket)


FILES = Backend(schemes=frozenset({"file", "local"}), open=_local_store, make=_files, has_buckets=False)

BACKENDS = (S3, GCS, AZURE, MEMORY, FILES)
_SECRETS = frozenset[str]().union(*(one.secrets for one in BACKENDS))
IRREPLACEABLE = frozenset[str]().union(*(one.irreplaceable for one in BACKENDS))


def is_secret(name: str, value: Any) -> bool:
    """Whether an option of some filesystem carries a secret: by its name, or by a password in its value."""
    if name in _SECRETS:
        return value is not None and not any(one.is_public(name, value) for one in BACKENDS)
    return _carries_secret(value)


def has_secret_name(name: str) -> bool:
    """Whether an option of this name carries a secret, whatever its value."""
    return name in _SECRETS


def without_password(value: Any) -> Any:
    """A URL without user and password; None for another value that carries a secret."""
    if isinstance(value, str) and not SIGNED.search(value):
        return redacted(value)
    return None


def _carries_secret(value: Any) -> bool:
    if isinstance(value, bytes | bytearray):
        value = value.decode("latin-1")
    if isinstance(value, str):
        return has_password(value) or SIGNED.search(value) is not None
    if isinstance(value, Mapping):
        return False  # its members are looked at one by one
    if isinstance(value, list | tuple | set | frozenset):
        return any(_carries_secret(one) or _has_secret(one) for one in value)
    return isinstance(getattr(value, "password", None), str)  # a URL of yarl or urllib


def _has_secret(value: Any) -> bool:
    return isinstance(value, Mapping) and any(
        is_secret(name, inner) or _has_secret(inner) for name, inner in value.items()
    )


def of_scheme(scheme: str) -> Backend | None:
    """The kind of store that a scheme names; None if there is none."""
    return next((one for one in BACKENDS if scheme in one.schemes), None)
