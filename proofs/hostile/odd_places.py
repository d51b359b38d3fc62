"""Every place in which a store's options can hold a secret, odd ones too, each with a canary."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from proofs.doubles.gcs_server import GcsDouble
from proofs.hostile.searching import canary, in_url

__all__ = ["NOWHERE", "PLACES", "Place", "everywhere"]

NOWHERE: Final = "http://127.0.0.1:1"
"""Where nothing answers."""


@dataclass
class Place:
    """Options with canaries.

    Attributes:
        name: What is odd about them.
        scheme: Of URLs of the store.
        options: Of its filesystem.
        secrets: The canaries, by where they stand.
        travels: Whether a pickle of a job can do without the secrets.
        on_command_line: Whether the options are plain values, so that a command line could hold them.
    """

    name: str
    scheme: str
    options: dict[str, Any]
    secrets: dict[str, str]
    travels: bool = True
    on_command_line: bool = True


@dataclass
class _Making:
    """Hands out canaries, and remembers where they went."""

    numbers: Any = field(default_factory=itertools.count)
    secrets: dict[str, str] = field(default_factory=dict)

    def __call__(self, place: str, known: str = "") -> str:
        made = self.secrets[place] = known or canary(next(self.numbers))
        return made

    def url(self, place: str, host: str) -> str:
        return f"http://user:{in_url(self(place))}@{host}"


def _s3(new: _Making, endpoint: str) -> dict[str, Any]:
    host = endpoint.removeprefix("http://")
    return {
        "key": new("key"),
        "secret": new("secret"),
        "token": new("token"),
        "endpoint_url": new.url("userinfo of the endpoint", host),
        "client_kwargs": {"region_name": "us-east-1"},
        "config_kwargs": {
            "retries": {"total_max_attempts": 1},
            "proxies": {"https": new.url("proxy's password", "127.0.0.1:1")},
        },
    }


def _s3_nested(new: _Making, endpoint: str) -> dict[str, Any]:
    return {
        "endpoint_url": endpoint,
        "client_kwargs": {
            "region_name": "us-east-1",
            "aws_access_key_id": new("client's key"),
            "aws_secret_access_key": new("client's secret"),
            "aws_session_token": new("client's session token"),
        },
        "config_kwargs": {
            "retries": {"total_max_attempts": 1},
            "proxies": {"https": f"user:{in_url(new('password of a proxy without a scheme'))}@127.0.0.1:1"},
        },
    }


def _s3_customer(new: _Making, endpoint: str) -> dict[str, Any]:
    key = new("customer's key")
    return {
        "endpoint_url": endpoint,
        "key": new("key"),
        "secret": new("secret"),
        "config_kwargs": {"retries": {"total_max_attempts": 1}},
        "s3_additional_kwargs": {
            "SSECustomerAlgorithm": "AES256",
            "SSECustomerKey": key.ljust(32, "0")[:32],
        },
    }


def _gcs(new: _Making, endpoint: str) -> dict[str, Any]:
    from google.oauth2.credentials import Credentials

    return {
        "endpoint_url": endpoint,
        "token": Credentials(new("access token", GcsDouble.token)),
        "session_kwargs": {
            "headers": {"X-Secret": new("header")},
            "cookies": {"session": in_url(new("cookie"))},
        },
    }


def _gcs_refreshed(new: _Making, endpoint: str) -> dict[str, Any]:
    return {
        "endpoint_url": endpoint,
        "token": {
            "type": "authorized_user",
            "client_id": "client",
            "client_secret": new("client's secret"),
            "refresh_token": new("refresh token"),
            "token_uri": f"{NOWHERE}/token",
        },
    }


def _azure(new: _Making, endpoint: str) -> dict[str, Any]:
    key = base64.b64encode(new("account key").encode()).decode()
    return {
        "connection_string": f"BlobEndpoint={endpoint}/magicfslake;AccountName=magicfslake;AccountKey={key}"
    }


def _azure_sas(new: _Making, endpoint: str) -> dict[str, Any]:
    sas = f"sv=2024-01-01&ss=b&srt=sco&sp=rwdlacuptf&se=2099-01-01&sig={in_url(new('signature'))}"
    return {"connection_string": f"BlobEndpoint={endpoint}/magicfslake;SharedAccessSignature={sas}"}


def _azure_parts(new: _Making, endpoint: str) -> dict[str, Any]:
    host = endpoint.removeprefix("http://")
    return {
        "account_name": "magicfslake",
        "account_host": f"{host}/magicfslake",
        "account_key": base64.b64encode(new("account key").encode()).decode(),
        "sas_token": f"sv=2024-01-01&sig={in_url(new('signature'))}",
        "client_secret": new("client's secret"),
    }


_MAKERS: Final[Mapping[str, tuple[str, Callable[[_Making, str], dict[str, Any]]]]] = {
    "S3": ("s3", _s3),
    "S3, nested": ("s3", _s3_nested),
    "S3, a customer's key": ("s3", _s3_customer),
    "GCS": ("gs", _gcs),
    "GCS, a token to refresh": ("gs", _gcs_refreshed),
    "Azure": ("abfs", _azure),
    "Azure, SAS": ("abfs", _azure_sas),
    "Azure, parts": ("abfs", _azure_parts),
}
PLACES: Final = tuple(_MAKERS)


def everywhere(name: str, endpoint: str = NOWHERE) -> Place:
    """The options of one kind, with a canary in each of its places, for a server at an endpoint."""
    scheme, make = _MAKERS[name]
    new = _Making()
    options = make(new, endpoint)
    if "customer's key" in new.secrets:
        new.secrets["customer's key"] = options["s3_additional_kwargs"]["SSECustomerKey"]
    return Place(
        name,
        scheme,
        {**options, "skip_instance_cache": True},
        new.secrets,
        travels="customer" not in name,
        on_command_line=name != "GCS",
    )
