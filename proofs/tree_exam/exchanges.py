"""The exam of exchanging two directories, in one step or by renames."""

from __future__ import annotations

import asyncio

import pytest

from magicfs.errors import ObjectExists, ObjectNotFound, StoreError, Unsupported
from proofs.tree_exam.base import Examined, collected, outcomes

__all__ = ["ExchangeExam", "NoExchangeExam"]

ONE = "dir/sales"
OTHER = "dir/.sales new"
ASIDE = f"{OTHER}~old"
LEAVING = "work/flip.json"
BRINGING = "chain/new.json"
OLD = {LEAVING: b"old's", "a": b"1", "b/c": b"2"}
NEW = {BRINGING: b"new's", "a": b"3", "d": b"4"}
NEIGHBOURS = {
    "dir/sales0/a": b"n",
    "dir/sales.": b"n",
    "dir/.sales ne": b"n",
    f"{OTHER}~": b"n",
    "salesman": b"n",
}
_RACERS = 8
_RACES = 5


class ExchangeExam(Examined):
    """Two directories of one parent are exchanged once, or not at all."""

    def _poke_both(self) -> None:
        self.poke_all({f"{ONE}/{name}": body for name, body in OLD.items()})
        self.poke_all({f"{OTHER}/{name}": body for name, body in NEW.items()})

    async def _exchange(self) -> bool:
        return await self.make_tree().exchange(ONE, OTHER, leaving=LEAVING, bringing=BRINGING)

    async def _forbid(self) -> bool:
        return await self.make_tree().forbid_exchange(ONE, OTHER, leaving=LEAVING)

    async def _below(self, path: str) -> dict[str, bytes | None]:
        try:
            found = await self.files(path)
        except ObjectNotFound:
            return {}
        return {name.removeprefix(f"{path}/"): body for name, body in found.items()}

    async def _is_exchanged(self) -> bool:
        """Whether the directories have changed places; they must have done so wholly or not at all."""
        steps = await self.tree.how_exchanged(ONE)
        found = [await self._below(path) for path in (ONE, OTHER, ASIDE)]
        if found[0] == NEW:
            assert found[1:] == ([OLD, {}] if steps == "one step" else [{}, OLD])
            return True
        kept = {name: body for name, body in OLD.items() if name in found[0] or name != LEAVING}
        assert found == [kept, NEW, {}]
        return False

    async def test_directories_change_places_with_all_below_them(self) -> None:
        self._poke_both()
        self.poke_all(NEIGHBOURS)
        before = [await self.tree.look(f"{place}/a") for place in (ONE, OTHER)]
        assert await self._exchange() is True
        assert await self._is_exchanged()
        there = OTHER if await self.tree.how_exchanged(ONE) == "one step" else ASIDE
        after = [await self.tree.look(f"{place}/a") for place in (there, ONE)]
        assert [one and one.etag for one in before] == [one and one.etag for one in after]
        assert {name: self.peek(name) for name in NEIGHBOURS} == NEIGHBOURS

    async def test_second_exchange_does_nothing(self) -> None:
        self._poke_both()
        assert [await self._exchange() for _ in range(3)] == [True, False, False]
        assert await self._is_exchanged()

    async def test_without_the_file_that_leaves_nothing_is_exchanged(self) -> None:
        self._poke_both()
        assert await self.tree.delete(f"{ONE}/{LEAVING}")
        assert await self._exchange() is False
        assert not await self._is_exchanged()

    async def test_exchange_with_nothing_is_object_not_found_and_nothing_changes(self) -> None:
        self.poke_all({f"{ONE}/{name}": body for name, body in OLD.items()})
        with pytest.raises(ObjectNotFound):
            await self._exchange()
        assert await self._below(ONE) == OLD

    async def test_forbidden_exchange_never_takes_place(self) -> None:
        self._poke_both()
        assert await self._forbid() is True
        assert await self._forbid() is True
        assert await self._exchange() is False
        assert not await self._is_exchanged()
        assert self.peek(f"{ONE}/{LEAVING}") is None

    async def test_exchange_that_took_place_cannot_be_forbidden(self) -> None:
        self._poke_both()
        assert await self._exchange() is True
        assert await self._forbid() is False
        assert await self._is_exchanged()

    async def test_of_many_who_exchange_one_does_it(self) -> None:
        for race in range(_RACES):
            self._poke_both()
            answers = await asyncio.gather(*(self._exchange() for _ in range(_RACERS)))
            assert sorted(answers) == [False] * (_RACERS - 1) + [True], f"race {race}"
            assert await self._is_exchanged()
            for place in (ONE, OTHER, ASIDE):
                await self.tree.delete_tree(place)

    async def test_who_exchanges_and_who_forbids_agree(self) -> None:
        for race in range(_RACES):
            self._poke_both()
            calls = [self._exchange() if number % 2 else self._forbid() for number in range(_RACERS)]
            answers = await asyncio.gather(*calls)
            forbidden, exchanged = answers[::2], answers[1::2]
            assert len(set(forbidden)) == 1, f"race {race}: {answers}"
            assert exchanged.count(True) == (0 if forbidden[0] else 1), f"race {race}: {answers}"
            assert await self._is_exchanged() is not forbidden[0]
            for place in (ONE, OTHER, ASIDE):
                await self.tree.delete_tree(place)

    async def test_reader_who_lists_sees_old_or_new_and_between_renames_nothing(self) -> None:
        seen = []
        for _ in range(_RACES):
            self._poke_both()
            exchanging = asyncio.ensure_future(self._exchange())
            while not exchanging.done():
                try:
                    seen.append({one.path for one in await collected(self.make_tree().entries(ONE))})
                except ObjectNotFound:
                    seen.append(set())
            assert await exchanging
            for place in (ONE, OTHER, ASIDE):
                await self.tree.delete_tree(place)
        whole = [{f"{ONE}/{name.partition('/')[0]}" for name in each} for each in (OLD, NEW)]
        if await self.tree.how_exchanged(ONE) == "renames":
            whole.append(set())
        assert all(each in whole for each in seen), seen

    async def test_what_was_made_between_two_renames_stays_until_it_is_removed(self) -> None:
        if await self.tree.how_exchanged(ONE) == "one step":
            return  # there is nothing between
        self.poke_all({f"{ASIDE}/{name}": body for name, body in OLD.items()})
        self.poke_all({f"{OTHER}/{name}": body for name, body in NEW.items()})
        self.poke(f"{ONE}/made", b"anew")
        with pytest.raises(ObjectExists):
            await self._exchange()
        assert await self._below(ONE) == {"made": b"anew"}
        await self.tree.delete_tree(ONE)
        assert await self._exchange() is True
        assert await self._is_exchanged()

    async def test_directory_that_is_not_there_yet_can_be_exchanged_later(self) -> None:
        assert await self.tree.how_exchanged("no/such/directory") in {"one step", "renames"}
        assert await self.everything() == {}

    async def test_whole_bucket_cannot_be_exchanged(self) -> None:
        with pytest.raises(StoreError):
            await self.tree.how_exchanged("")


class NoExchangeExam(Examined):
    """A tree that renames by copying exchanges nothing, and says so."""

    async def test_exchange_is_refused_and_nothing_changes(self) -> None:
        files = {"one/leaving": b"1", "other/bringing": b"2"}
        self.poke_all(files)
        for error in await outcomes(
            self.tree.how_exchanged("one"),
            self.tree.exchange("one", "other", leaving="leaving", bringing="bringing"),
            self.tree.forbid_exchange("one", "other", leaving="leaving"),
        ):
            assert isinstance(error, Unsupported)
        assert await self.files() == files
