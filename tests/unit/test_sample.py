"""What the gate leaves out of large products, that it is always the same, and that the night has it all."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import pytest
from hypothesis import settings

from tests.sample import Sample, covering, few, in_shard

ROOT = Path(__file__).parents[2]
GATE = ("-m", "not nightly")
NIGHT = ("-m", "nightly")
TESTS = """
import pytest
from hypothesis import given, settings, strategies
from tests.sample import examples

@pytest.mark.sample
@pytest.mark.parametrize("a", range(4))
@pytest.mark.parametrize("b", range(5))
def test_product(a, b): pass

@pytest.mark.sample
@pytest.mark.parametrize("a", range(6))
def test_values(a): pass

@pytest.mark.sample(most=2)
@pytest.mark.parametrize("a", range(9))
def test_at_most(a): pass

@pytest.mark.sample
def test_sampled_steps(some):
    some(range(9), 2)

@pytest.mark.sample
@pytest.mark.parametrize("name, how", [("moto", 1), ("ministack", 1), ("azurite", 2), ("gcs", 1)])
def test_servers(name, how): pass

@pytest.mark.sample
@pytest.mark.parametrize("name", ["moto", "seaweedfs"])
def test_dear_servers(name): pass

def test_plain(): pass

@pytest.mark.nightly
def test_long(): pass

class Exam:
    @pytest.mark.sample
    @pytest.mark.parametrize("a", range(3))
    def test_body(self, a): pass

class TestOne(Exam): pass
class TestTwo(Exam): pass

class Whole:
    def test_first(self): pass
    def test_second(self): pass
    def test_third(self): pass

@pytest.mark.sample(classes="one kind")
class TestThree(Whole): pass

@pytest.mark.sample(classes="one kind")
class TestFour(Whole): pass

@settings(database=None)
@given(strategies.booleans())
def test_by_hypothesis(one):
    pass

def test_steps(some):
    print("STEPS", len(some(range(100), 10)))
    print("EXAMPLES", settings.default.max_examples, examples(400), settings.default.derandomize)
"""


@pytest.fixture(autouse=True)
def _as_this_run_is() -> Iterator[None]:
    """The runs in here are of other kinds."""
    is_whole, profile = Sample.is_whole, settings.get_current_profile_name()
    yield
    Sample.is_whole = is_whole
    settings.load_profile(profile)


class Ran:
    """Notes the tests that are run."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.names = [item.nodeid.partition("::")[2] for item in session.items]

    def of(self, body: str) -> int:
        return sum(body in name for name in self.names)


def run(directory: Path, *arguments: str, only: str | None = "") -> Ran:
    file = directory / f"test_in_{directory.name}.py"  # modules are kept by their names
    file.write_text(TESTS)
    ran = Ran()
    given = [
        "-p",
        "tests.sample",
        "--import-mode=importlib",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        f"--rootdir={directory}",
        "-s",
    ]
    markers = ["-o", "markers=nightly: left out"]
    target = str(directory) if only is None else f"{file}{only}"
    nothing = pytest.ExitCode.NO_TESTS_COLLECTED if "--shard" in str(arguments) else 0
    assert pytest.main([target, *given, *markers, *arguments], plugins=[ran]) in (0, nothing)
    return ran


@pytest.mark.parametrize("strength", [1, 2, 3])
def test_covering_has_each_combination_and_is_small(strength: int) -> None:
    rows = [
        dict(zip("abcd", values, strict=True)) for values in product(range(5), range(4), range(3), range(2))
    ]
    chosen = covering(rows, strength, random.Random(7))
    assert chosen == sorted(set(chosen))
    every, seen = (
        {part for index in of for part in combinations(rows[index].items(), strength)}
        for of in (range(len(rows)), chosen)
    )
    assert seen == every
    assert len(chosen) <= {1: 5, 2: 30, 3: 90}[strength]
    assert covering(rows, strength, random.Random(7)) == chosen
    assert covering(rows, strength, random.Random(8)) != chosen


def test_covering_of_what_has_no_parameters_is_one() -> None:
    assert covering([{"": "Class"}], 2, random.Random(1)) == [0]


def test_covering_ends_early_with_the_rows_that_have_most() -> None:
    rows = [{"a": 1}, {"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 2}, {"b": 2, "c": 2, "d": 1}]
    assert covering(rows, 1, random.Random(7), most=2) == [1, 3]
    assert covering(rows, 1, random.Random(7), most=9) == [1, 3]


def test_the_selection_of_a_small_table_is_this_one() -> None:
    rows = [dict(zip("abc", values, strict=True)) for values in product(range(3), range(3), range(2))]
    assert covering(rows, 1, random.Random("test_some.py test_body")) == [3, 6, 17]
    assert covering(rows, 2, random.Random("test_some.py test_body")) == [0, 3, 4, 6, 9, 11, 13, 14, 17]
    assert few(range(100), 5, random.Random("test_some.py::test_steps")) == [0, 3, 71, 87, 99]


def test_few_keep_their_order_and_both_ends() -> None:
    for seed in range(50):
        found = few(range(100), 5, random.Random(seed))
        assert found == sorted(found)
        assert (len(set(found)), found[0], found[-1]) == (5, 0, 99)
    assert few(range(3), 5, random.Random(1)) == [0, 1, 2]
    assert few("abc", 2, random.Random(1)) == ["a", "c"]


def test_the_gate_has_each_value_and_says_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run(tmp_path, *GATE)
    assert {body: ran.of(body) for body in ("product", "values", "plain", "test_long", "body", "most")} == {
        "most": 2,
        "product": 5,
        "values": 6,
        "plain": 1,
        "test_long": 0,
        "body": 3,
    }
    assert {name.partition("::")[0] for name in ran.names if "body" in name} == {"TestOne", "TestTwo"}
    bodies = [name.partition("::") for name in ran.names if name.startswith(("TestThree", "TestFour"))]
    assert sorted(body for *_, body in bodies) == ["test_first", "test_second", "test_third"]
    assert {name for name, *_ in bodies} == {"TestThree", "TestFour"}
    servers = {name.partition("test_")[2] for name in ran.names if "servers" in name}
    assert servers == {
        *("servers[ministack-1]", "servers[gcs-1]", "dear_servers[moto]", "dear_servers[seaweedfs]")
    }
    told = capsys.readouterr().out
    assert "STEPS 10\n" in told
    assert "EXAMPLES 25 100 True\n" in told
    assert "30 of 54 tests of large products were left out" in told
    assert "97 of 109 steps of large products were left out" in told
    assert "tox run -e nightly has them all" in told


@pytest.mark.slow
def test_the_night_has_all_that_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    every = run(tmp_path, "-m", "").names
    gate = run(tmp_path, *GATE).names
    capsys.readouterr()
    night = run(tmp_path, *NIGHT).names
    told = capsys.readouterr().out
    again = {"test_by_hypothesis", "test_steps", "test_sampled_steps"}  # whole
    assert Counter(gate) + Counter(night) == Counter(every) + Counter(again)
    assert "STEPS 100\n" in told
    assert "EXAMPLES 100 400 False\n" in told
    assert "left out" not in told


@pytest.mark.slow
def test_shards_have_each_test_once_and_keep_classes_together(tmp_path: Path) -> None:
    every = run(tmp_path, *NIGHT).names
    shards = [run(tmp_path, *NIGHT, f"--shard={number}/3").names for number in (1, 2, 3)]
    assert Counter(name for shard in shards for name in shard) == Counter(every)
    for shard in shards:
        classes = {name.rpartition("::")[0] for name in shard}
        assert {name for name in every if name.rpartition("::")[0] in classes} == set(shard)


def test_shards_are_whole_disjoint_and_of_about_one_size() -> None:
    names = [
        f"tests/test_{number}.py::Test::test[a::b{one}-[]" for number in range(40) for one in range(number)
    ]
    for count in (1, 3, 8):
        shards = [in_shard(names, number, count) for number in range(1, count + 1)]
        assert Counter(name for shard in shards for name in shard) == Counter(names)
        assert max(map(len, shards)) - min(map(len, shards)) < 40
        modules = [{name.partition("::")[0] for name in shard} for shard in shards]
        assert sum(map(len, modules)) == 39, "each in one"
        assert shards == [in_shard(reversed(names), number, count) for number in range(1, count + 1)]


@pytest.mark.parametrize("text", ["0/8", "9/8", "3", "3/", "/8", "a/b", "-1/8"])
def test_what_is_no_shard_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError):
        run(tmp_path, *NIGHT, f"--shard={text}")
    assert "write 3/8 for the third of eight" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.process
def test_the_gate_is_the_same_whatever_the_seed_and_whatever_runs_beside() -> None:
    alone, other = "tests/unit/test_modes.py", "tests/unit/test_abort_races.py"
    beside = [name for name in collected(other, alone, seed=1, hash_seed=1) if name.startswith(alone)]
    assert len(beside) > 50
    assert sorted(beside) == sorted(collected(alone, seed=2, hash_seed=2))


def collected(*files: str, seed: int, hash_seed: int) -> list[str]:
    """The names of the tests that the gate has of some files."""
    line = [sys.executable, *["-m", "pytest", "-c", "tox.ini", "--collect-only", "-q"]]
    done = subprocess.run(
        [*line, f"--randomly-seed={seed}", *files],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in done.stdout.splitlines() if name.startswith("tests/")]


@pytest.mark.slow
def test_one_that_is_named_is_run_whatever_the_gate_leaves_out(tmp_path: Path) -> None:
    for a, b in ((0, 0), (0, 1), (3, 4)):
        ran = run(tmp_path, *GATE, only=f"::test_product[{b}-{a}]")
        assert len(ran.names) == 1


@pytest.mark.slow
def test_exams_leave_nothing_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGICFS_EXAMS", "all")
    assert run(tmp_path, *GATE).of("product") == 20


def test_a_quick_run_has_one_combination_of_each_body_unless_its_file_is_named(tmp_path: Path) -> None:
    quick = ("-m", "not nightly and not process and not slow")
    ran = run(tmp_path, *quick, only=None)
    bodies = ("test_product", "test_values", "test_at_most", "test_plain", "test_first")
    assert [ran.of(body) for body in bodies] == [1, 1, 1, 1, 1]
    assert run(tmp_path, *quick).of("test_values") == 6
