"""What the documents say of a job's states, fields and commands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from magicfs.cli import main as cli
from magicfs.cli.statuses import Status
from magicfs.formats import deletions
from magicfs.formats.audit import Audit, Verdict
from magicfs.formats.deletions import OldObject
from magicfs.formats.job_object import Chunk, JobObject, OldSuccess, SeenPointer
from magicfs.formats.job_options import Audits, Collected, Hadoop, JobOptions, Keep, Places, Rollback
from magicfs.formats.plain_pending import Body
from magicfs.protocol.ids import job_id
from magicfs.protocol.job_state import JobState
from tests.job_states import diagram

DOCS = Path(__file__).parents[2] / "docs"
RECOVERY = (DOCS / "recovery.md").read_text()
JOB_OBJECT = (DOCS / "job-object.md").read_text()

CHUNK = Chunk("k", "0" * 64, 1, 1)
FULL = JobObject(
    job_id=job_id("j"),
    bucket="b",
    destination="d",
    state=JobState.PREPARED,
    nonce="n",
    driver="d",
    options=JobOptions(
        committer="magic",
        mode="append",
        run_id="r",
        rerun="overwrite",
        label="l",
        warn_below=1,
        alias="a",
        success_marker=False,
        unique_names=False,
        tracking="memory",
        part_size=1,
        small_files=1,
        allow_empty=True,
        single_driver=True,
        inline_limit=1,
        keep=Keep(ms=1, rule="within=1d", in_place=True),
        collect=Collected(footers=True, checksums=True, sealed=True),
        audit=Audits(rules=("rule",)),
        places=Places(extra=("d",), also_overwrite=("c",), own_path="d/__magic/mine"),
        rollback=Rollback(job="j", partitions=("p=1",)),
        hadoop=Hadoop(layout="__magic", etag_format="object", sets=True, begun_by="hadoop-magic"),
    ),
    chunks=(CHUNK,),
    deletions=(CHUNK,),
    partitions=("p=1",),
    pointer=SeenPointer("j", "e"),
    old_success=OldSuccess("k", "0" * 64, "e"),
    equal_keys=("k",),
    object_settings={"ACL": "private"},
    older_extra=("d",),
    numbered_versions=True,
    audit=Audit(
        verdicts=(Verdict(rule="r", passed=False, told="t"),), against="5f1e", audited_ms=1, accepted="why"
    ),
    restored=(CHUNK,),
    hidden=(CHUNK,),
)
DOCUMENTS = (
    FULL.to_bytes(),
    deletions.write([OldObject("k", "e", 1, "v"), OldObject("l", "e", 1, aside=True)]),
)
BODY = json.dumps(Body("k", 0, "0" * 64).to_document()).encode()


def names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names(inner)


def told() -> set[str]:
    """What the tables name: the first column, and names in the meaning of an object."""
    rows = re.findall(r"^\| (`.*) \|$", JOB_OBJECT, flags=re.MULTILINE)
    return {name for row in rows for one in re.findall(r"`([\w.]+)`", row) for name in one.split(".")}


def test_no_option_is_left_out_here() -> None:
    def defaults(record: Any, name: str) -> Iterator[str]:
        plain = type(record)(**{one.name: getattr(record, one.name) for one in fields(record) if needed(one)})
        for one in fields(record):
            value = getattr(record, one.name)
            if is_dataclass(value):
                yield from defaults(value, f"{name}.{one.name}")
            elif one.name != "unknown" and value == getattr(plain, one.name) and not needed(one):
                yield f"{name}.{one.name}"

    assert [*defaults(FULL.options, "options")] == [], "give FULL another value than the default"


def needed(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


@pytest.mark.parametrize("raw", [*DOCUMENTS, BODY])
def test_every_field_that_is_written_is_described(raw: bytes) -> None:
    written = set(names(json.loads(raw)))
    assert written
    assert not written - told()


def test_every_field_that_is_described_is_written() -> None:
    written = {name for raw in (*DOCUMENTS, BODY) for name in names(json.loads(raw))}
    described = set(re.findall(r"^\| `(\w+)` \|", JOB_OBJECT, flags=re.MULTILINE))
    assert described
    assert not described - written


def test_the_formats_are_named() -> None:
    for raw in DOCUMENTS:
        assert f"`{json.loads(raw)['format']}`" in JOB_OBJECT


def test_the_diagram_is_the_table_of_states() -> None:
    assert re.findall(r"```mermaid\n(.*?)\n```", RECOVERY, flags=re.DOTALL) == [diagram()]


@pytest.mark.parametrize("state", JobState)
def test_every_state_is_explained_to_readers(state: JobState) -> None:
    assert re.search(rf"^\| .*`{state}`.*\|", RECOVERY, flags=re.MULTILINE)


def test_the_commands_of_the_document_are_understood(capsys: pytest.CaptureFixture[str]) -> None:
    """Each is run against a scheme that no store has: the arguments are read, and nothing is touched."""
    found = re.findall(r"magicfs recover ((?:URL|s3:)[^`\n]*)", RECOVERY)
    assert len(found) > 8
    for line in found:
        words = ["none://bucket" if word in {"URL", "s3://bucket/sales"} else word for word in line.split()]
        assert cli.main(["recover", *words]) == 2
        assert "has no store for none://" in capsys.readouterr().err


def test_the_exit_statuses_of_the_document_are_those_of_the_program() -> None:
    page = (DOCS / "commands.md").read_text()
    described = dict(re.findall(r"^\| ([0-9]+) \| (.*?) \|", page, flags=re.MULTILINE))
    assert described == {str(one.value): one.meaning for one in Status}
