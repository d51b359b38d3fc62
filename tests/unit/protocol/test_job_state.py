from __future__ import annotations

import re
from pathlib import Path

import pytest

from magicfs.errors import ProtocolViolation
from magicfs.protocol import job_state
from magicfs.protocol.job_state import (
    BEFORE_COMMIT,
    CHANGES_FILES,
    ENDS,
    MEANING,
    NEXT,
    PUBLISHES,
    SHOWS_NOTHING,
    Decision,
    JobState,
    Wish,
    check_move,
    decide,
    end_of,
    no_way_back,
)
from tests.job_states import diagram

DOCUMENT = Path(__file__).parents[3] / "docs" / "recovery.md"
# Written out once more, by hand: old state, and every new one.
TABLE = {
    "open": {"open", "prepared", "committing", "aborting"},
    "prepared": {"open", "committing", "aborting"},
    "committing": {"committing", "completed", "reverting"},
    "completed": set(),
    "aborting": set(),
    "reverting": {"reverting"},
}
DECISIONS = {
    ("open", "finish"): "leave",
    ("open", "rollback"): "aborting",
    ("open", "abort"): "aborting",
    ("open", "supersede"): "aborting",
    ("prepared", "finish"): "leave",
    ("prepared", "rollback"): "aborting",
    ("prepared", "abort"): "aborting",
    ("prepared", "supersede"): "aborting",
    ("committing", "finish"): "execute",
    ("committing", "rollback"): "reverting",
    ("committing", "abort"): "refuse",
    ("committing", "supersede"): "execute",
    ("completed", "finish"): "execute",
    ("completed", "rollback"): "refuse",
    ("completed", "abort"): "refuse",
    ("completed", "supersede"): "execute",
    ("aborting", "finish"): "execute",
    ("aborting", "rollback"): "execute",
    ("aborting", "abort"): "execute",
    ("aborting", "supersede"): "execute",
    ("reverting", "supersede"): "execute",
    ("reverting", "finish"): "execute",
    ("reverting", "rollback"): "execute",
    ("reverting", "abort"): "execute",
}


def test_every_state_has_moves_and_a_meaning() -> None:
    assert {old.value: {new.value for new in news} for old, news in NEXT.items()} == TABLE
    assert set(MEANING) == set(JobState)
    assert all(MEANING.values())


@pytest.mark.parametrize("new", JobState)
@pytest.mark.parametrize("old", JobState)
def test_move_is_allowed_or_refused_by_name(old: JobState, new: JobState) -> None:
    if new.value in TABLE[old.value]:
        check_move(old, new)
        return
    with pytest.raises(ProtocolViolation, match=f"a job that is {old.value} cannot become {new.value}"):
        check_move(old, new)


@pytest.mark.parametrize("wish", Wish)
@pytest.mark.parametrize("state", JobState)
def test_decision_for_every_state_and_wish(state: JobState, wish: Wish) -> None:
    assert decide(state, wish).value == DECISIONS[state.value, wish.value]


@pytest.mark.parametrize("wish", Wish)
@pytest.mark.parametrize("state", JobState)
def test_decision_to_move_is_a_move_of_the_table(state: JobState, wish: Wish) -> None:
    match decide(state, wish):
        case Decision.MOVE_TO_ABORTING:
            check_move(state, JobState.ABORTING)
        case Decision.MOVE_TO_REVERTING:
            check_move(state, JobState.REVERTING)
        case Decision.EXECUTE:
            assert state in ENDS or JobState.COMPLETED in NEXT[state]


def test_what_follows_from_a_state_is_said_once() -> None:
    """The sets that other rooms ask for, written out once more by hand."""
    assert {"open", "prepared"} == BEFORE_COMMIT
    assert {"committing", "completed"} == PUBLISHES
    assert {"open", "prepared", "aborting"} == SHOWS_NOTHING
    assert {"prepared", "committing", "completed", "reverting"} == CHANGES_FILES
    for path in (Path(job_state.__file__).parents[1]).rglob("*.py"):
        if path.name != "job_state.py":
            # Two states side by side are a set, made anew.
            assert not re.search(r"JobState\.[A-Z]+\s*[,|]\s*JobState\.", path.read_text()), path


@pytest.mark.parametrize("wish", Wish)
@pytest.mark.parametrize("state", JobState)
def test_end_is_the_one_that_the_moves_lead_to(state: JobState, wish: Wish) -> None:
    decision = decide(state, wish)
    if decision in {Decision.LEAVE, Decision.REFUSE}:
        return
    ends = {"finish": JobState.COMPLETED, "abort": JobState.ABORTING, "revert": JobState.REVERTING}
    moved = JobState(decision.value) if decision is not Decision.EXECUTE else state
    assert ends[end_of(state, decision)] in {moved, *NEXT[moved]}


def test_way_back_ends_with_the_first_replaced_file_and_needs_write_ids() -> None:
    assert no_way_back(irreversible=False, write_ids=True) is None
    assert "content is gone" in str(no_way_back(irreversible=True, write_ids=True))
    assert "no write id" in str(no_way_back(irreversible=False, write_ids=False))


def reachable(start: JobState) -> set[JobState]:
    found, left = {start}, [start]
    while left:
        for new in NEXT[left.pop()] - found:
            found.add(new)
            left.append(new)
    return found


def test_every_state_is_reached_and_leads_to_an_end() -> None:
    assert reachable(JobState.OPEN) == set(JobState)
    for state in JobState:
        assert reachable(state) & ENDS


def test_no_way_leads_back_from_visible_files_to_before() -> None:
    for state in (JobState.COMMITTING, JobState.COMPLETED, JobState.REVERTING):
        assert not reachable(state) & {JobState.OPEN, JobState.PREPARED, JobState.ABORTING}
    assert reachable(JobState.COMPLETED) == {JobState.COMPLETED}, "the point of no return"
    assert JobState.COMPLETED not in reachable(JobState.REVERTING)
    assert JobState.COMMITTING not in reachable(JobState.ABORTING)


def test_diagram_draws_the_table() -> None:
    lines = [line.strip() for line in diagram().splitlines()]
    assert lines[0] == "stateDiagram-v2"
    moves = {(old, new) for old, news in TABLE.items() for new in news}
    drawn = [tuple(line.partition(":")[0].strip().split(" --> ")) for line in lines[1:]]
    assert len(set(drawn)) == len(drawn)
    assert set(drawn) == moves | {("[*]", "open")} | {(end.value, "[*]") for end in ENDS}


def test_document_holds_exactly_this_diagram() -> None:
    assert f"```mermaid\n{diagram()}\n```\n" in DOCUMENT.read_text()
