"""Our signatures are those of botocore, whatever the request is called and whoever asks."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from hypothesis import example, given, settings
from hypothesis import strategies as st

from magicfs.stores.s3.requests.signature import UNSIGNED_PAYLOAD, Scope, Signer, canonical
from tests.sample import examples

EXAMPLES = examples(2_000)

_HOSTILE = [
    *"aB9 /+%#?&=~.-_*:@!$'(),;\\|<>\"`^{}[]\n\r\t\x01\x7f",
    *("..", "//", "ü", "日", "🦊", "%2F", "a-", "\u00a0"),
]
_TEXT = st.lists(st.sampled_from(_HOSTILE), max_size=8).map("".join)
_KEYS = _TEXT.filter(bool)
_TOKENS = st.binary(max_size=12).map(lambda token: base64.b64encode(token).decode())
_NAMES = st.sampled_from(
    [
        "Cache-Control",
        "Content-MD5",
        "If-None-Match",
        "If-Match",
        "Range",
        "x-amz-meta-A",
        "x-amz-meta-b_c",
        "X-Amz-Tagging",
        "x-amz-copy-source",
        "x-amz-checksum-crc32",
        "Content-Type",
        "x-amz-acl",
    ]
)
_VALUES = st.lists(st.sampled_from([*'aZ0 \t,;="*%/', "  ", "ü", "🦊", "\u00a0"]), max_size=8).map("".join)
_CREDENTIALS = st.builds(ReadOnlyCredentials, _TOKENS.filter(bool), _TEXT, st.one_of(st.none(), _TOKENS))
_CLOCKS = st.floats(0, dt.datetime(2200, 1, 1, tzinfo=dt.UTC).timestamp(), allow_nan=False)


@pytest.mark.slow
@settings(max_examples=EXAMPLES)
@given(
    secure=st.booleans(),
    host=st.sampled_from(["b.s3.eu-central-1.amazonaws.com", "[::1]:9000", "127.0.0.1:8333", "store"]),
    method=st.sampled_from(["GET", "PUT", "POST", "HEAD", "DELETE"]),
    key=_KEYS,
    query=st.dictionaries(_TEXT, _TEXT, max_size=4),
    headers=st.dictionaries(_NAMES, _VALUES, max_size=4),
    body=st.sampled_from([None, b"", b"content"]),
    credentials=_CREDENTIALS,
    scope=st.builds(Scope, st.sampled_from(["us-east-1", "eu-central-1", "auto"]), st.just("s3")),
    now=_CLOCKS,
)
@example(
    secure=False,
    host="store",
    method="PUT",
    key="../a//./b c+d%20#?é",
    query={"b": "1", "a": "&= +", "": "", "ü": "\n"},
    headers={"x-amz-meta-A": "  two   words ", "Cache-Control": "\ta\t"},
    body=b"",
    credentials=ReadOnlyCredentials("AKIA", "geheim/ü", "token=="),
    scope=Scope("us-east-1", "s3"),
    now=0.999,
)
def test_signatures_are_those_of_botocore(
    *,
    secure: bool,
    host: str,
    method: str,
    key: str,
    query: dict[str, str],
    headers: dict[str, str],
    body: bytes | None,
    credentials: ReadOnlyCredentials,
    scope: Scope,
    now: float,
) -> None:
    path = "/bucket/" + quote(key, safe="/~")
    pairs = [f"{quote(n, safe='-._~')}={quote(v, safe='-._~')}" for n, v in query.items()]
    url = f"http{'s' if secure else ''}://{host}{path}" + ("?" + "&".join(pairs) if pairs else "")
    theirs = _signed_by_botocore(method, url, headers, body, credentials, scope, now)
    payload = UNSIGNED_PAYLOAD if body is None else hashlib.sha256(body).hexdigest()

    made = Signer().signed(
        credentials, scope, now, method, path, canonical(pairs), [("Host", host), *headers.items()], payload
    )

    ours = dict(made)
    assert ours.pop("Host") == host
    assert ours == theirs


def _signed_by_botocore(
    method: str,
    url: str,
    headers: dict[str, str],
    body: bytes | None,
    credentials: ReadOnlyCredentials,
    scope: Scope,
    now: float,
) -> dict[str, str]:
    """What ``add_auth`` does, with a clock of ours."""
    auth = S3SigV4Auth(credentials, scope.service, scope.region)
    request = AWSRequest(method, url, headers, data=body)
    request.context["client_config"] = SimpleNamespace(s3={"payload_signing_enabled": body is not None})
    moment = dt.datetime.fromtimestamp(int(now), dt.UTC)
    request.context["timestamp"] = moment.strftime("%Y%m%dT%H%M%SZ")
    auth._modify_request_before_signing(request)
    canonical = auth.canonical_request(request)
    text = auth.string_to_sign(request, canonical)
    auth._inject_signature_to_request(request, auth.signature(text, request))
    return dict(request.headers.items())


def test_a_key_is_derived_anew_for_another_day_secret_or_region() -> None:
    one, other = ReadOnlyCredentials("A", "a", None), ReadOnlyCredentials("A", "b", None)
    signer = Signer()
    day = 86_400.0
    asked = [
        (credentials, Scope(region, "s3"), now)
        for credentials in (one, other)
        for region in ("us-east-1", "eu-west-1")
        for now in (0.0, 10 * day, 0.0)
    ]

    for credentials, scope, now in asked:
        args = (credentials, scope, now, "GET", "/b/k", "", [("Host", "h")], UNSIGNED_PAYLOAD)
        assert signer.signed(*args) == Signer().signed(*args)
