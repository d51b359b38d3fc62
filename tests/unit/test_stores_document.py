"""The tables of docs/stores.md, and of its note about test servers, are those of the code."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from magicfs.protocol.paths import parse_url
from magicfs.stores import resolve
from magicfs.stores.azure.store import AzureStore
from magicfs.stores.conditions import Conditions
from magicfs.stores.port import Capabilities
from magicfs.stores.retrying import RETRIES
from proofs.doubles.deviations import DEVIATIONS, HONOURED, LEFT_OUT, OTHERWISE

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "stores.md").read_text()
SERVERS = (DOCS / "design" / "031-test-servers.md").read_text()


def rows(first: str, page: str = PAGE) -> list[list[str]]:
    """The rows of the table whose heading begins with a word."""
    lines = iter(page.splitlines())
    heading = next(line for line in lines if line.startswith(f"| {first} |"))
    table = [heading]
    for line in lines:
        if not line.startswith("|"):
            break
        table.append(line)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table if "---" not in line]


REFERENCE = re.compile(r" \[([ACGLM]\d)\]")
COLUMNS = {
    "memory": ("memory", "memory", False),
    "s3": ("s3", "ministack", False),
    "ceph": ("s3", "ceph", False),
    "gs": ("gs", "gcs", False),
    "gs with folders": ("gs", "gcs with folders", True),
    "abfs": ("abfs", "azurite", False),
    "abfs with directories": ("abfs", "adls", True),
    "file": ("file", "local", False),
}
"""For each column the scheme, the subject of the exam, and whether buckets have folders."""


def said_of(column: str) -> dict[str, str]:
    """What the table has to say of one store, by row."""
    scheme, subject, has_folders = COLUMNS[column]
    store, honoured = capabilities_of(scheme), HONOURED[subject]
    parts, nested = store.parts, "test_object_and_objects_below_its_name_live_side_by_side"
    is_nested = not any(one.test == nested for one in DEVIATIONS.get(subject, ()))
    rename = store.rename if store.rename != "by bucket" else "atomic" if has_folders else "copy"
    most = f"{store.bulk_delete_max:,}"
    return {
        "delayed uploads": yes(store.uploads.delayed),
        "several uploads of one name": yes(store.uploads.delayed and store.uploads.apart),
        "upload lifetime, days": str(store.uploads.days or "any"),
        "rename": "one step" if rename == "atomic" else "copy and delete",
        "user metadata": yes(store.metadata),
        "objects below an object's name": yes(not store.directories and is_nested),
        "largest file, most parts": f"{parts.object_max / 2**40:.1f} TiB, {parts.count_max:,}",
        "part size, except the last": f"{size(parts.size_min)} to {size(parts.size_max)}",
        "files per bulk delete": f"1, in groups of {most}" if scheme == "abfs" else most,
        "write only if absent": yes(honoured.put_if_absent),
        "write only if unchanged": yes(honoured.put_if_match),
        "delete only if unchanged": yes(honoured.delete),
        "versions of deleted files, in versioned buckets": yes(store.versions),
        "complete only if absent": yes(honoured.complete_if_absent),
    }


def yes(value: bool) -> str:
    return "yes" if value else "no"


def size(value: int) -> str:
    units = ((2**30, "GiB"), (2**20, "MiB"), (1, "B"))
    unit, name = next(one for one in units if value >= one[0])
    return f"{value / unit:.1f}".removesuffix(".0") + f" {name}"


def test_stores_can_do_what_their_capabilities_say() -> None:
    heading, (name, *urls), *table = rows("store")
    assert heading[1:] == list(COLUMNS)
    assert name == "URL"
    schemes = [scheme for scheme, _, _ in COLUMNS.values()]
    assert [parse_url(url.strip("`")).scheme for url in urls] == schemes
    found = {name: [REFERENCE.sub("", cell) for cell in cells] for name, *cells in table}
    said = [said_of(column) for column in COLUMNS]
    assert {name: found[name] for name in said[0]} == {name: [one[name] for one in said] for name in said[0]}
    told = [name for name in found if name not in said[0]]
    assert told == [
        *("reads and listings show a write", "paid as writes", "paid as reads", "free"),
        "cost of an abandoned upload",
    ]


def test_what_a_service_is_said_to_promise_or_bill_has_a_source() -> None:
    _, _, *table = rows("store")
    told = [
        (name, column, cell) for name, *cells in table for column, cell in zip(COLUMNS, cells, strict=True)
    ]
    without = {"memory", "ceph", "file"}
    unsaid = [
        (name, column)
        for name, column, cell in told
        if name not in said_of(column) and column not in without and not REFERENCE.search(cell)
    ]
    assert unsaid == []
    named = {name for _, _, cell in told for name in REFERENCE.findall(cell)} | {"C1"}
    links = dict(re.findall(r"^\[([ACGLM]\d)\]: (https://\S+)$", PAGE, flags=re.MULTILINE))
    assert named == links.keys()
    assert len(set(links.values())) == len(links)
    for name in links:
        assert re.search(rf"[:;]\s+\[{name}\] ", PAGE), f"the list of sources does not say what {name} is"


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
    _, *table = rows("server", SERVERS)
    seen = dict.fromkeys((one.server, one.what) for of in DEVIATIONS.values() for one in of)
    assert table == [list(row) for row in seen]


def test_differences_from_the_doubles_are_those_that_their_tests_see() -> None:
    _, *table = rows("other server", SERVERS)
    assert table == [
        [other, double, asked, what]
        for (other, double), differences in OTHERWISE.items()
        for asked, what in differences.items()
    ]


@pytest.mark.parametrize("double", LEFT_OUT)
def test_what_a_double_does_not_do_is_listed(double: str) -> None:
    section = (
        SERVERS.partition(f"\n`{double}`, the double of ")[2].partition("\n\n`")[0].partition("\n## ")[0]
    )
    assert re.findall(r"^- (.+)$", section, flags=re.MULTILINE) == list(LEFT_OUT[double])


def test_servers_without_a_deviation_are_named() -> None:
    none = [server for server, of in DEVIATIONS.items() if not of]
    assert none == ["gcs", "gcs with folders", "local"]
    assert "The memory store, local files and the double of Google\nCloud Storage have no row." in SERVERS


def test_retries_are_those_of_the_code() -> None:
    _, *table = rows("operation")
    *named, (others, *usual) = [(cell.split(", "), *cells) for cell, *cells in table]
    assert others == ["all others"]
    said = {operation.strip("`"): cells for operations, *cells in named for operation in operations}
    assert said.keys() < RETRIES.keys()
    for operation, row in RETRIES.items():
        shortest, longest = (
            sum(row.pause_s(failed, share) for failed in range(1, row.attempts)) for share in (0.0, 1.0)
        )
        pauses = f"{shortest:.1f} to {longest:.1f}"
        expected = [str(row.attempts), f"{row.first_s:g}", f"{row.longest_s:g}", pauses]
        assert said.get(operation, usual) == expected, operation
