"""Every committer is exactly as safe as it says: each cell of its guarantees is tried, both ways."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from magicfs.committers.registry import committers
from proofs.guarantees import cost, document
from proofs.guarantees.cost import Cost
from proofs.guarantees.document import Cell
from proofs.guarantees.experiments import EXPERIMENTS
from proofs.guarantees.main import declared, differing, every_cell, main, reproduce, tried
from proofs.guarantees.subjects import OTHERS, SUBJECTS, Subject, subjects_on
from tests.sample import Some

DOCUMENT = Path(__file__).parents[2] / "docs" / "guarantees.md"
RENEW = "tox run -e guarantees -- --store all --write docs/guarantees.md"
BY_COLUMN = {one.column: one for one in SUBJECTS}
ZERO_RENAME = ("magic", "directory", "partitioned", "task-completing", "direct", "stocator")


@functools.cache
def cell(subject: str, attribute: str) -> Cell:
    return tried(BY_COLUMN[subject], attribute)


@functools.cache
def price(column: str) -> Cost:
    return cost.of(BY_COLUMN[column])


def test_the_table_has_every_committer_and_every_attribute() -> None:
    assert [one.column for one in SUBJECTS] == [
        *("magic", "directory", "partitioned", "manifest", "file-v1", "file-v2", "direct", "stocator"),
        "task-completing",
    ]
    assert {one.committer for one in SUBJECTS} == committers().keys()
    assert list(declared(SUBJECTS[0])) == list(EXPERIMENTS)


@pytest.mark.sample
@pytest.mark.parametrize("attribute", EXPERIMENTS)
@pytest.mark.parametrize("column", BY_COLUMN)
def test_a_committer_is_as_safe_as_it_says(column: str, attribute: str) -> None:
    found = cell(column, attribute)
    assert type(found.value) is bool  # for JSON
    assert found.value == declared(BY_COLUMN[column])[attribute], f"{found.run}: {found.seen}"
    if found.run:
        assert reproduce(found.run) is not None


@pytest.mark.sample(most=3)
@pytest.mark.parametrize("subject", SUBJECTS, ids=BY_COLUMN)
def test_only_committers_that_rename_by_copying_copy(subject: Subject) -> None:
    copied = price(subject.column).copied
    if subject.column in ZERO_RENAME or subject.place == "local":
        assert copied == 0
    else:
        assert copied >= cost.TASKS * cost.FILES * cost.BYTES


def test_the_document_has_what_committers_declare() -> None:
    """What they declare is what a run says: of each a sample is tried in the gate, and all at night."""
    heading, _, *rows = DOCUMENT.read_text().partition("\n\n|")[2].partition("\n\n")[0].split("\n")
    assert [one.strip() for one in heading.strip(" |").split("|")] == [*BY_COLUMN]
    said = {name: [declared(subject)[name] for subject in SUBJECTS] for name in EXPERIMENTS}
    shown = [
        f"| {name.replace('_', ' ')} | " + " | ".join("yes" if one else "no" for one in values) + " |"
        for name, values in said.items()
    ]
    assert rows == shown, f"run {RENEW}"


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_the_document_is_what_a_run_says() -> None:
    table = {column: {name: cell(column, name) for name in EXPERIMENTS} for column in BY_COLUMN}
    text = document.render(table, {column: price(column) for column in BY_COLUMN})
    beside, heading, others = DOCUMENT.read_text().partition("\n## On other stores\n")
    assert beside == text, f"run {RENEW}"
    assert heading, f"run {RENEW}"
    assert f"Every cell was tried there, too: {', '.join(OTHERS)};" in others


@pytest.mark.sample
@pytest.mark.parametrize(
    "attribute",
    ["speculative_tasks", "abortable_job", "atomic_job_commit_list", "atomic_job_commit_manifest"],
)
@pytest.mark.parametrize("store", OTHERS)
def test_a_committer_is_as_safe_as_it_says_on_other_stores(store: str, attribute: str, some: Some) -> None:
    for subject in some(subjects_on(store), 3):
        assert tried(subject, attribute).value == declared(subject)[attribute], subject


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("store", OTHERS)
def test_the_document_says_what_is_otherwise_on_other_stores(store: str) -> None:
    table = {column: {name: cell(column, name) for name in EXPERIMENTS} for column in BY_COLUMN}
    there, wrong = every_cell(subjects_on(store))
    assert not wrong
    section = document.elsewhere({store: differing(table, there)})
    rows = [line for line in section.splitlines() if line.startswith(f"| {store} ")]
    assert rows == [line for line in DOCUMENT.read_text().splitlines() if line.startswith(f"| {store} ")]


def test_a_run_on_another_store_can_be_made_again() -> None:
    assert reproduce("magic@gcs:recoverable_job:by a second attempt") is None
    assert reproduce("stocator@azure:uncommitted_output_observable:after the last close") is not None
    with pytest.raises(ValueError, match="no run"):
        reproduce("magic@tape:abortable_job:after its tasks")


def test_a_run_of_the_table_can_be_made_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--reproduce", "magic:atomic_job_commit_list:a LIST"]) == 1
    assert "a reader sees" in capsys.readouterr().err
    assert main(["--reproduce", "magic:recoverable_job:by a second attempt"]) == 0
    with pytest.raises(ValueError, match="COLUMN:ATTRIBUTE:VARIANT"):
        reproduce("magic:nothing")
