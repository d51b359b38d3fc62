"""What a job commit keeps of its files: packed, by number, on disk where they are many."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import CommitFailed
from magicfs.formats.footer import FOOTER, Footer, carried_by, footers_in
from magicfs.formats.pending import Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.plain_pending import Body, UploadedPart
from magicfs.formats.plain_set import pending_of, text_of
from magicfs.formats.statistics import Statistics
from magicfs.protocol import winners
from magicfs.protocol.readback import WRITE_ID
from magicfs.protocol.steps import Complete, Rename
from magicfs.protocol.winners import KeyCheck
from magicfs.runtime.parallel import in_order
from magicfs.transaction import spool
from magicfs.transaction.output import JobOutput
from magicfs.transaction.spool import ETags, Spool, of_set

TEXTS = st.text(min_size=1, max_size=5)
PARTS = st.builds(
    UploadedPart,
    TEXTS,
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.dictionaries(TEXTS, st.integers(), max_size=1),
)
FOOTERS = st.integers(0, 9).map(lambda rows: {WRITE_ID: "w", **carried_by(Footer(rows=rows, format="csv"))})
OTHERS: dict[str, Any] = {
    "bucket": st.sampled_from(["b", "other"]),
    "destination_key": TEXTS.filter(lambda key: not key.startswith("/")),
    "length": st.integers(0, 2**63 - 1),
    "filename": st.none() | TEXTS,
    "created_ms": st.integers(0, 3),
    "task_id": TEXTS,
    "extra_data": st.just({}) | TEXTS.map(lambda text: {WRITE_ID: text}) | FOOTERS,
    "statistics": st.just(Statistics()) | st.just(Statistics(counters={"a": 1})),
    "unknown": st.just({}) | st.just({"new": [1]}),
}
UPLOADS: dict[str, Any] = {"upload_id": TEXTS, "parts": st.lists(PARTS, min_size=1, max_size=3).map(tuple)}
BODIES: dict[str, Any] = {
    "body": st.builds(Body, TEXTS, st.integers(0, 9), st.just("0" * 64)),
    "extra_data": TEXTS.map(lambda text: {WRITE_ID: text}),
}
PENDINGS = st.one_of(*[st.builds(Pending, **{**OTHERS, **how}) for how in (UPLOADS, BODIES)])


@given(st.lists(PENDINGS, max_size=4))
def test_what_is_packed_comes_back(files: list[Pending]) -> None:
    texts = [text_of(one) for one in files]
    assert spool.unpack_texts(spool.pack_texts(texts)) == texts
    assert [pending_of(text) for text in texts] == files
    steps = [spool.step_of(one) for one in files]
    raw = spool.pack_steps(steps)
    assert list(spool.unpack_keys(raw)) == [one.key for one in steps]
    for if_absent in (False, True):
        expected = [one._replace(if_absent=if_absent) if isinstance(one, Complete) else one for one in steps]
        assert spool.unpack_steps(raw, if_absent=if_absent) == expected


@given(st.lists(st.builds(Rename, TEXTS, TEXTS, st.integers(0, 9)), max_size=3))
def test_keys_of_packed_renames_are_the_final_ones(steps: list[Rename]) -> None:
    assert list(spool.unpack_keys(spool.pack_steps(steps))) == [one.key for one in steps]


@pytest.mark.parametrize("held", [0, 3, 1000])
@given(st.lists(st.lists(PENDINGS, max_size=3), max_size=4))
def test_an_output_tells_what_its_files_tell(held: int, sets: list[list[Pending]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "FILES_HELD", held)
        check_output(sets)


def check_output(sets: list[list[Pending]]) -> None:
    output = JobOutput()
    for number, files in enumerate(sets):
        unique = {one.destination_key: one for one in files}
        sets[number] = list(unique.values())
        output.add(f"set {number}", of_set(PendingSet(commits=tuple(sets[number])), "set"))
    everything = [one for files in sets for one in files]
    assert list(output.pendings()) == everything
    steps = [spool.step_of(one) for one in everything]
    assert list(output.steps()) == steps
    absent = [one._replace(if_absent=True) if isinstance(one, Complete) else one for one in steps]
    assert list(output.steps(if_absent=True)) == absent
    assert output.attempts == {one.task_id for one in everything}
    assert list(output.final_keys()) == [one.destination_key for one in everything]
    assert (output.files, output.bytes) == (len(everything), sum(one.length for one in everything))
    ours = [one for one in everything if WRITE_ID in one.extra_data]
    assert output.without_write_id == len(everything) - len(ours)
    assert output.with_footer == sum(FOOTER in one.extra_data for one in everything)
    assert list(output.footers()) == list(footers_in(one.extra_data for one in everything))
    uploads = [one for one in ours if one.body is None]
    assert output.oldest_ms == min((one.created_ms for one in uploads if one.created_ms), default=None)


@given(st.lists(st.binary(max_size=30), max_size=30), st.integers(0, 60))
def test_a_spool_gives_back_what_it_was_given(given_bytes: list[bytes], memory_max: int) -> None:
    spool = Spool(memory_max)
    for number, raw in enumerate(given_bytes):
        assert spool.append(raw) == number
        assert spool.read(number) == raw
    assert len(spool) == len(given_bytes)
    assert [spool.read(number) for number in range(len(spool))] == given_bytes


def test_a_spool_keeps_no_more_in_memory_than_it_may() -> None:
    spool = Spool(1000)
    for _ in range(50):
        spool.append(bytes(300))
    assert sum(map(len, spool._memory)) <= 1000


def test_a_spool_without_room_on_disk_keeps_all_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    spool = Spool(10)
    for number in range(20):
        spool.append(b"%d" % number * 10)
    assert [spool.read(number) for number in range(20)] == [b"%d" % number * 10 for number in range(20)]


@given(st.data(), st.integers(0, 2500))
def test_etags_stand_at_the_places_of_their_files(data: st.DataObject, files: int) -> None:
    expected: list[str | None] = [None] * files
    etags = ETags(files)
    places = data.draw(st.permutations(range(files)) if files < 20 else st.just(range(files)))
    for place in places[: data.draw(st.integers(0, files))]:
        etag = data.draw(st.sampled_from(["", "x"])) if files < 20 else f"etag {place}"
        etags.put(place, etag)
        expected[place] = etag
    assert list(etags) == expected


@given(st.lists(st.text("ab", min_size=1, max_size=3), max_size=30), st.integers(1, 3))
def test_two_equal_keys_are_found_whatever_their_hashes(keys: list[str], hashes: int) -> None:
    hashed = (lambda key: len(key) % hashes) if hashes < 3 else hash
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winners, "hash", hashed, raising=False)
        check_twice(keys)


def check_twice(keys: list[str]) -> None:
    check = KeyCheck("bucket", "")
    named = [(f"set {number}", f"d/{key}") for number, key in enumerate(keys)]
    for source, key in named:
        check.add([("bucket", key)], source)
    twice = [(source, key) for n, (source, key) in enumerate(named) if key in [k for _, k in named[:n]]]
    if not twice:
        check.finish(lambda: named)
        return
    source, key = twice[0]
    with pytest.raises(CommitFailed) as caught:
        check.finish(lambda: named)
    assert str(caught.value).startswith(f"{key} is written by two tasks ({source} is the second)")
    assert caught.value.failed == (key,)


@pytest.mark.parametrize(
    ("bucket", "key"),
    [("bucket", "dataset10/a"), ("bucket", "dataset1/"), ("other", "dataset1/a"), ("bucket", "")],
)
def test_key_outside_the_destination_is_refused_at_once(bucket: str, key: str) -> None:
    with pytest.raises(
        CommitFailed, match=r"set of task 7 names .* outside bucket/dataset1 and bucket/extra"
    ):
        KeyCheck("bucket", "dataset1", ("extra",)).add([(bucket, key)], "set of task 7")


def test_results_come_in_order_and_no_more_than_a_few_are_held() -> None:
    async def check() -> None:
        begun, drawn = list[int](), list[int]()

        async def work(number: int) -> int:
            begun.append(number)
            await asyncio.sleep(0.001 * (7 - number % 7))
            return number

        async with aclosing(in_order(range(20), work, 4)) as results:
            async for number in results:
                assert len(begun) - len(drawn) <= 4
                drawn.append(number)
        assert drawn == list(range(20))

    asyncio.run(check())


def test_a_failure_comes_in_its_place_once_all_else_has_ended() -> None:
    async def check() -> None:
        ended, drawn = list[int](), list[int]()

        async def work(number: int) -> int:
            await asyncio.sleep(0.001 if number == 2 else 0.01)
            ended.append(number)
            if number == 2:
                raise ValueError("the third")
            return number

        with pytest.raises(ValueError, match="the third"):
            async with aclosing(in_order(range(20), work, 4)) as results:
                async for number in results:
                    drawn.append(number)
        assert drawn == [0, 1]
        assert sorted(ended) == [0, 1, 2, 3]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(check())


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_nothing_runs_on_behind_who_leaves(is_cancelled: bool) -> None:
    async def check() -> None:
        ended = list[int]()

        async def work(number: int) -> int:
            await asyncio.sleep(0 if number == 0 else 0.01)
            ended.append(number)
            return number

        async def leave() -> None:
            async with aclosing(in_order(range(20), work, 4)) as results:
                async for _ in results:
                    if not is_cancelled:
                        return

        task = asyncio.ensure_future(leave())
        await asyncio.sleep(0.001)
        if is_cancelled:
            task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() is is_cancelled
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert len(ended) < 20

    asyncio.run(check())
