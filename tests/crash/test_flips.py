"""Jobs that flip, in the crash world: every cut, every pair of cuts, beside others; and mutants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal, get_args

import pytest

from magicfs.committers import flip as committer
from magicfs.datasets import flipped
from magicfs.stores import exchange_by_renames
from magicfs.stores.register import Register
from magicfs.transaction import flip, flip_checks, flip_remains
from proofs.crash.trees import KINDS, Tree
from proofs.flip.company import Other, beside_others
from proofs.flip.cuts import cut
from tests.sample import Some

SEEDS = 40
TURNS_OF_A_SLOW_REQUEST = 60


@pytest.mark.sample(most=1)
@pytest.mark.parametrize("conflict", ["replace", "fail"])
@pytest.mark.parametrize("model", KINDS)
def test_every_cut_and_pair_leaves_exactly_old_or_exactly_new(
    model: str, conflict: Literal["replace", "fail"]
) -> None:
    tally = cut(model, conflict)
    assert tally.cuts > 200
    assert tally.pairs > 20_000
    assert tally.findings == []


@pytest.mark.parametrize("conflict", ["replace", "fail"])
@pytest.mark.parametrize("model", KINDS)
def test_every_cut_leaves_exactly_old_or_exactly_new(
    model: str, conflict: Literal["replace", "fail"]
) -> None:
    tally = cut(model, conflict, pairs=False)
    assert tally.cuts > 200
    assert tally.findings == []


def test_destination_is_gone_for_a_request_only_where_renames_exchange_it() -> None:
    assert cut("local", "replace", pairs=False).windows == 0
    assert cut("gcs", "replace", pairs=False).windows == 1


@pytest.mark.sample
@pytest.mark.parametrize("other", get_args(Other))
@pytest.mark.parametrize("model", ["local", "gcs"])
def test_two_jobs_at_once_are_published_one_after_the_other_or_refused(
    model: str, other: Other, some: Some
) -> None:
    for seed in some(range(SEEDS), 20):
        found, _ = beside_others(model, other, seed)
        assert found == []


# -- mutants -------------------------------------------------------------------------------------------


async def nothing(*_args: Any, **_kwargs: Any) -> None:
    return None


async def exchange_whatever_is_there(self: Any, one: str, other: str, **_kwargs: str) -> bool:
    self._move({one: other, other: one})
    return True


async def exchange_without_looking(tree: Any, one: str, other: str, *_args: str) -> bool:
    aside = exchange_by_renames.aside_of(other)
    await tree.rename(one, aside)
    await tree.rename(other, one)
    await tree.rename(aside, other)
    return True


async def forbid_nothing_for_a_while(*_args: Any, **_kwargs: Any) -> bool:
    for _ in range(TURNS_OF_A_SLOW_REQUEST):
        await asyncio.sleep(0)
    return True


async def join_without_chain(*_args: Any) -> bool:
    return True


async def forget_the_file(engine: Any, context: Any, conditions: Any) -> tuple[int, list[str]]:
    return 0, []


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "an exchange that does not look for the file": (Tree, "exchange", exchange_whatever_is_there),
    "renames that do not look how far the last call came": (
        exchange_by_renames,
        "exchange",
        exchange_without_looking,
    ),
    "a chain that is not copied": (flip, "_copy_chain", join_without_chain),
    "hidden files that are not carried": (flip_checks, "carry", nothing),
    "an old dataset that is left": (flip_remains, "clear_old", forget_the_file),
    "a commit point without the flip record": (flip, "write_record", nothing),
}


@pytest.mark.turn(days=2)
@pytest.mark.parametrize("name", MUTANTS)
def test_cuts_catch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, wrong = MUTANTS[name]
    monkeypatch.setattr(place, attribute, wrong)
    model = "gcs" if "renames" in name else "local"
    assert cut(model, "replace").findings


def nobody(*_args: Any) -> Any:
    return []


async def never(*_args: Any) -> None:
    return None


LONELY: dict[str, tuple[Other, Any, str, Callable[..., Any]]] = {
    "a flip that sees no open job": ("append", flip_checks, "rivals", nobody),
    "a job that is set up during a flip": ("append", flip_checks, "denied_at_setup", never),
    "discarding where the exchange may have taken place": (
        "rollback",
        Tree,
        "forbid_exchange",
        forbid_nothing_for_a_while,
    ),
}


async def swap_at_the_next_number(self: Register, entry: Any, body: bytes, **_: int) -> Any:
    return await _SWAP(self, entry, body)


async def is_as_it_was(*_args: Any) -> bool:
    return False


_SWAP = Register.swap


def test_company_catches_a_pointer_whose_numbers_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Either guard would do: the next number is taken, and the one before is another."""
    monkeypatch.setattr(Register, "swap", swap_at_the_next_number)
    monkeypatch.setattr(Register, "_has_moved_on", is_as_it_was)
    assert any(beside_others("local", "compact", seed)[0] for seed in range(10 * SEEDS))


def test_company_catches_a_recovery_that_takes_an_open_job_for_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flipped, "inner_job", never)
    monkeypatch.setattr(flipped, "is_made", is_as_it_was)
    assert any(beside_others("local", "recover", seed)[0] for seed in range(10 * SEEDS))


@pytest.mark.parametrize("name", LONELY)
def test_company_catches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    other, place, attribute, wrong = LONELY[name]
    monkeypatch.setattr(place, attribute, wrong)
    assert any(beside_others("local", other, seed)[0] for seed in range(10 * SEEDS))


def test_a_job_whose_object_was_taken_away_sets_itself_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "_TRIES", 1)
    assert any("False" in beside_others("local", "flip", seed)[1] for seed in range(SEEDS))
