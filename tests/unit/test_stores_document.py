"""The tables of docs/stores.md are those of the code."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from magicfs.protocol.paths import parse_url
from magicfs.stores import resolve
from magicfs.stores.azure import AzureStore
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Capabilities
from magicfs.stores.retrying import RETRIES
from magicfs.testing.deviations import DEVIATIONS, HONOURED

PAGE = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()


def rows(first: str) -> list[list[str]]:
    """The rows of the table whose heading begins with a word."""
    lines = iter(PAGE.splitlines())
    heading = next(line for line in lines if line.startswith(f"| {first} |"))
    table = [heading]
    for line in lines:
        if not line.startswith("|"):
            break
        table.append(line)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table if "---" not in line]


def test_stores_can_do_what_their_capabilities_say() -> None:
    heading, *table = rows("store")
    stores = {scheme: capabilities_of(scheme) for scheme in heading[1:]}
    said = {
        "uploads that are delayed": ["yes" if one.multipart else "no" for one in stores.values()],
        "uploads live each for itself": [
            "yes" if one.multipart and one.uploads_apart else "no" for one in stores.values()
        ],
        "days that an upload lives": [str(one.upload_days or "any") for one in stores.values()],
        "another name for a file": [_RENAMES[one.rename] for one in stores.values()],
        "directories are exchanged in one step": [
            "yes" if one.exchanges else "no" for one in stores.values()
        ],
        "a completion only if nothing is there": [
            "yes" if one.completes_if_absent else "no" for one in stores.values()
        ],
        "user metadata": ["yes" if one.metadata else "no" for one in stores.values()],
        "names below names": ["no" if one.directories else "yes" for one in stores.values()],
    }
    (name, *urls), *table = table
    assert name == "URL"
    assert [parse_url(url.strip("`")).scheme for url in urls] == list(stores)
    assert {name: cells for name, *cells in table} == said


_RENAMES = {"copy": "copy and delete", "atomic": "one step", "by bucket": "by bucket"}


def capabilities_of(scheme: str) -> Capabilities:
    if scheme == AzureStore.name:
        return AzureStore.capabilities
    options = {"s3": {"anon": True}, "gs": {"token": "anon", "endpoint_url": "http://127.0.0.1:9"}}.get(
        scheme, {}
    )
    return resolve.open_store(resolve.filesystem(scheme, options), "").capabilities


@pytest.mark.parametrize("scheme", sorted(resolve.SCHEMES))
def test_every_scheme_stands_on_the_page(scheme: str) -> None:
    assert f"`{scheme}://" in PAGE or f"`{scheme}:///" in PAGE or scheme == "s3a" or f"`{scheme}://`" in PAGE


def test_conditions_are_those_that_the_exam_measures() -> None:
    heading, *table = rows("condition")
    assert heading[2:] == list(HONOURED) == ["memory", *DEVIATIONS]
    assert [row[0].strip("`") for row in table] == [field.name for field in fields(Conditions)]
    for name, _, *cells in table:
        honoured = [getattr(HONOURED[server], name.strip("`")) for server in heading[2:]]
        assert cells == ["yes" if each else "no" for each in honoured]


def test_deviations_are_those_that_the_exam_sees() -> None:
    _, *table = rows("server")
    assert table == [
        [one.server, one.what, one.test.removeprefix("test_").replace("_", " ")]
        for of in DEVIATIONS.values()
        for one in of
    ]


def test_servers_without_a_deviation_are_named() -> None:
    none = [server for server, of in DEVIATIONS.items() if not of]
    assert none == ["gcs", "gcs with folders", "local"]
    assert "The memory store, local files and the double of Google\nCloud Storage have no row." in PAGE


def test_retries_are_those_of_the_code() -> None:
    _, *table = rows("operation")
    expected = []
    for operation, row in RETRIES.items():
        shortest, longest = (
            sum(row.pause_s(failed, share) for failed in range(1, row.attempts)) for share in (0.0, 1.0)
        )
        pauses = f"{shortest:.1f} to {longest:.1f}"
        expected.append(
            [f"`{operation}`", str(row.attempts), f"{row.first_s:g}", f"{row.longest_s:g}", pauses]
        )
    assert table == expected
