"""Options of s3fs, looked at before the first request: botocore's words for a wrong one lead to no line."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from magicfs.errors import UsageError
from magicfs.protocol.paths import redacted
from magicfs.stores.object_settings import OF_EVERY_FILESYSTEM, named_by

if TYPE_CHECKING:
    from s3fs import S3FileSystem

__all__ = ["check", "endpoint_of", "without_userinfo"]

_MEANT = {
    "aws_access_key_id": "key",
    "aws_secret_access_key": "secret",
    "aws_session_token": "token",
    "access_key": "key",
    "secret_key": "secret",
    "profile_name": "profile",
    "region": "client_kwargs={'region_name': …}",
    "region_name": "client_kwargs={'region_name': …}",
    "endpoint": "endpoint_url",
    "endpoint_override": "endpoint_url",
}
"""How boto3, pyarrow, Polars and DuckDB call what s3fs calls otherwise."""


def check(options: Mapping[str, Any]) -> None:
    """Raise UsageError for an option that s3fs, or what it hands it on to, does not know, and for an endpoint
    that is no URL. ImportError if s3fs is missing.
    """
    from aiobotocore.config import AioConfig
    from aiobotocore.session import AioSession
    from botocore.session import Session
    from s3fs import S3FileSystem

    known = named_by(S3FileSystem.__init__) | named_by(AioSession.__init__) | OF_EVERY_FILESYSTEM
    _check_names("", options, known)
    of_client = options.get("client_kwargs")
    _check_names("client_kwargs", of_client, named_by(Session.create_client))
    of_config = named_by(AioConfig.__init__) | frozenset(AioConfig.OPTION_DEFAULTS)
    _check_names("config_kwargs", options.get("config_kwargs"), of_config)
    inner = of_client if isinstance(of_client, Mapping) else {}
    for endpoint in (options.get("endpoint_url"), inner.get("endpoint_url")):
        if not isinstance(endpoint, str | None):
            raise UsageError(f"endpoint_url is {type(endpoint).__name__}, not a string; write 'https://host'")
        if endpoint is not None and not endpoint.startswith(("http://", "https://")):
            shown = redacted(endpoint)
            raise UsageError(
                f"endpoint_url={shown!r} lacks a scheme; write 'http://{shown}' or 'https://{shown}'"
            )


def without_userinfo(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options whose endpoint has no user or password: S3 uses neither, and botocore logs endpoints."""
    made = dict(options)
    for name in ("endpoint_url", "client_kwargs"):
        if isinstance(value := made.get(name), str):
            made[name] = redacted(value)
        elif isinstance(value, Mapping):
            made[name] = without_userinfo(value)
    return made


def endpoint_of(filesystem: S3FileSystem) -> str:
    """Where requests go, however somebody said so: by an option, by the environment, or by a profile."""
    named = filesystem.endpoint_url or filesystem.client_kwargs.get("endpoint_url")
    if named:  # as it is for each file that is opened: the environment takes longer to be asked
        return redacted(str(named)).rstrip("/")
    chosen = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    profile = filesystem.kwargs.get("profile") or os.environ.get("AWS_PROFILE")
    return redacted(str(chosen or (f"profile {profile}" if profile else ""))).rstrip("/")


def _check_names(where: str, given: Any, known: Collection[str]) -> None:
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise UsageError(f"{where} is {type(given).__name__}, not a dict; write {where}={{'name': value}}")
    for name in given:
        if name not in known:
            near = (
                [_MEANT[name]]
                if not where and name in _MEANT
                else get_close_matches(str(name), known, 1, 0.7)
            )
            meant = f"write {near[0]}" if near else f"it knows {', '.join(sorted(known))}"
            raise UsageError(f"s3fs has no option {name!r}{f' in {where}' if where else ''}; {meant}")
