"""Which calls of the system are made on the loop, and which in threads."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import magicfs
from magicfs.runtime import interrupt
from magicfs.stores.local import files as local_files
from magicfs.stores.local import listing as local_calls
from magicfs.stores.local.listing import FEW, Calls, TooManyError, directories, walk
from magicfs.stores.local.store import LocalStore


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is."""
    monkeypatch.setattr(local_calls, "QUICK_S", 0.2)


class TestCalls:
    def test_first_one_is_made_in_a_thread_and_those_after_a_quick_one_on_the_loop(self):
        async def where() -> list[bool]:
            calls = Calls()
            loop = threading.get_ident()
            return [await calls.brief(threading.get_ident) == loop for _ in range(3)]

        assert asyncio.run(where()) == [False, True, True]

    def test_those_after_a_slow_one_are_made_in_threads_until_one_is_quick(self):
        def look(seconds: float) -> int:
            time.sleep(seconds)
            return threading.get_ident()

        async def where() -> list[bool]:
            calls = Calls()
            loop = threading.get_ident()
            return [await calls.brief(look, seconds) == loop for seconds in (0, 0.3, 0.3, 0.3, 0, 0)]

        assert asyncio.run(where()) == [False, True, False, False, False, True]

    def test_one_that_fails_says_so_and_counts_as_others(self):
        async def failed() -> bool:
            calls = Calls()
            for _ in range(2):
                with pytest.raises(ZeroDivisionError):
                    await calls.brief(lambda: 1 // 0)
            return await calls.brief(threading.get_ident) == threading.get_ident()

        assert asyncio.run(failed())

    def test_long_ones_never_hold_up_the_loop(self):
        async def where() -> bool:
            calls = Calls()
            await calls.brief(int)
            return await calls.long(threading.get_ident) == threading.get_ident()

        assert not asyncio.run(where())


class TestStore:
    @pytest.mark.parametrize("size", [0, 2**16, 2**16 + 1])
    @pytest.mark.parametrize("size_max", [None, 10, 2**16 + 1])
    def test_large_files_are_read_in_threads(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, size_max: int | None
    ):
        (tmp_path / "a").write_bytes(b"x" * size)
        here, read = set[bool](), local_files.read_from

        def noted(*args: Any) -> bytes:
            here.add(threading.get_ident() == loop)
            return read(*args)

        monkeypatch.setattr(local_files, "read_from", noted)
        loop = threading.get_ident()

        async def got() -> bytes:
            store = LocalStore(str(tmp_path))
            await store.head("a")
            return await store.get("a", size_max=size_max)

        expected = size if size_max is None else min(size, size_max)
        assert asyncio.run(got()) == b"x" * expected
        assert here == {expected <= 2**16}

    @pytest.mark.parametrize("count", [0, 1, 62, 63, 64, 65, 200])
    @pytest.mark.parametrize("limit", [None, 0, 1, 64, 1000])
    def test_few_and_many_names_are_listed_alike(self, tmp_path: Path, count: int, limit: int | None):
        names = sorted(
            [*(f"d {n:03} %+#/ü.txt" for n in range(count // 2)), *(f"f{n:03}" for n in range(count // 2))]
        )
        for name in names:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_bytes(b"")

        async def found() -> tuple[list[str], list[str]]:
            store = LocalStore(str(tmp_path))
            files = [info.key async for info in store.list("", limit=limit)]
            return files, [one async for one in store.list_directories("d")]

        files, directories = asyncio.run(found())
        assert files == names[:limit]
        assert directories == [f"d {n:03} %+#/" for n in range(count // 2)]

    @pytest.mark.parametrize("left", [1, 2, FEW, FEW + 5])
    @pytest.mark.parametrize("count", [1, FEW - 1, FEW, FEW + 1, FEW + 2, 3 * FEW])
    def test_what_dead_writers_have_left_hides_no_file(self, tmp_path: Path, count: int, left: int):
        for n in range(max(count, left)):
            if n < left:
                (tmp_path / f".magicfs-{n:016x}.tmp").write_bytes(b"")
            if n < count:
                (tmp_path / f"{n:03}").write_bytes(b"")
                (tmp_path / "below" / f"{n:03}").mkdir(parents=True)

        async def found() -> tuple[list[str], list[str]]:
            store = LocalStore(str(tmp_path))
            files = [info.key async for info in store.list("0")] + [
                info.key async for info in store.list("1")
            ]
            return files, [one async for one in store.list_directories("below/")]

        files, directories = asyncio.run(found())
        assert files == [f"{n:03}" for n in range(count)]
        assert directories == [f"below/{n:03}/" for n in range(count)]

    def test_no_more_names_are_read_than_are_looked_at(self, tmp_path: Path):
        for n in range(FEW + 1):
            (tmp_path / f"{n}").write_bytes(b"")
        with pytest.raises(TooManyError):
            list(walk(tmp_path, "", FEW))
        with pytest.raises(TooManyError):
            directories(tmp_path, "", FEW)
        assert len(list(walk(tmp_path, "", FEW + 1))) == FEW + 1


class TestJob:
    @pytest.fixture
    def hops(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
        """Counts changes of threads: of calls to threads of the pool, and of callers to the loop."""
        counted = {"pool": 0, "loop": 0}
        to_thread, start = asyncio.to_thread, interrupt.Call._start

        async def to_pool(*args: Any, **kwargs: Any) -> Any:
            counted["pool"] += 1
            return await to_thread(*args, **kwargs)

        def to_loop(call: Any) -> None:
            counted["loop"] += 1
            start(call)

        monkeypatch.setattr(asyncio, "to_thread", to_pool)
        monkeypatch.setattr(interrupt.Call, "_start", to_loop)
        monkeypatch.setattr(local_calls, "QUICK_S", float("inf"))  # every call counts as quick
        return counted

    def test_job_of_one_file_changes_threads_where_it_waits_for_the_disk(
        self, tmp_path: Path, hops: dict[str, int]
    ):
        table = pa.table({"day": [1, 2], "n": [3, 4]})
        for number in range(2):
            hops.update(pool=0, loop=0)
            magicfs.write(table, str(tmp_path / f"a {number}"))
        # Nine documents and the file are synchronised; two looks for uploads; the first call of all.
        assert hops["pool"] <= 20
        assert hops["loop"] <= 7

    def test_further_file_goes_to_the_loop_twice_and_to_the_disk_once(
        self, tmp_path: Path, hops: dict[str, int]
    ):
        counts = []
        for days in (1, 11):
            magicfs.write(pa.table({"day": range(days), "n": range(days)}), str(tmp_path / f"warm {days}"))
            hops.update(pool=0, loop=0)
            magicfs.write(
                pa.table({"day": range(days), "n": range(days)}),
                str(tmp_path / f"{days}"),
                partition_by="day",
            )
            counts.append(dict(hops))
        one, eleven = counts
        assert eleven["loop"] - one["loop"] == 20
        assert eleven["pool"] - one["pool"] == 10
