"""What is told of Google's credentials that cannot be renewed."""

from __future__ import annotations

import asyncio

import pytest
from gcsfs.core import GCSFileSystem
from google.auth import credentials, exceptions

from magicfs.errors import PermissionDenied, StoreError, Unavailable
from magicfs.stores.gcs import errors as gcs_errors
from magicfs.stores.gcs.client import GcsClient

SECRET = "canary-of-a-refresh-token"


class Expired(credentials.Credentials):  # type: ignore[misc]  # published without types
    """Credentials that are over, and whose renewal ends in an error."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def refresh(self, request: object) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (
            exceptions.RefreshError(f"invalid_grant: {SECRET}"),
            PermissionDenied,
            r"no usable credentials: they could not be renewed: .*set GOOGLE_APPLICATION_CREDENTIALS",
        ),
        (
            exceptions.TransportError(f"no answer to {SECRET}"),
            Unavailable,
            r"credentials could not be renewed: TransportError.*endpoint is right and up, then try again",
        ),
    ],
    ids=["refused", "unreachable"],
)
def test_credentials_that_are_not_renewed_are_told_from_a_service_that_is_silent(
    error: Exception, kind: type[StoreError], told: str
) -> None:
    with (
        pytest.raises(kind, match=told) as caught,
        gcs_errors.translated("put", "b/k"),
        gcs_errors.renewing(),
    ):
        raise error
    assert type(caught.value) is kind
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None or SECRET not in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(exceptions.RefreshError(SECRET), PermissionDenied), (exceptions.TransportError(SECRET), Unavailable)],
)
def test_request_with_credentials_that_have_expired_is_not_sent(
    error: Exception, kind: type[StoreError]
) -> None:
    filesystem = GCSFileSystem(
        token=Expired(error), endpoint_url="http://127.0.0.1:1", asynchronous=True, skip_instance_cache=True
    )
    client = GcsClient(filesystem)

    async def ask() -> None:
        try:
            await client.ask("head", "bucket/key", "GET", "/storage/v1/b/bucket/o/key")
        finally:
            await (await client._session()).close()

    with pytest.raises(kind, match="could not be renewed") as caught:
        asyncio.run(ask())
    assert SECRET not in str(caught.value)
