"""What a run leaves out of large products, and that nothing is left out of a long one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import pytest
from hypothesis import settings

from tests.sample import Sample, covering, few, may_leave_out

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

def test_plain(): pass

@pytest.mark.turn(days=3)
class TestTurn:
    def test_dear_0(self): pass
    @pytest.mark.parametrize("a", range(2))
    def test_dear_1(self, a): pass
    def test_dear_2(self): pass
    def test_dear_3(self): pass
    def test_dear_4(self): pass
    def test_dear_5(self): pass

@pytest.mark.long
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
    assert examples(400) == 4 * settings.default.max_examples

def test_steps(some):
    print("STEPS", len(some(range(100), 10)))
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
    markers = ["-o", "markers=long: too long"]
    target = str(directory) if only is None else f"{file}{only}"
    assert pytest.main([target, *given, *markers, *arguments], plugins=[ran]) == 0
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


def test_long_run_knows_what_any_day_may_leave_out() -> None:
    draw = random.Random(7)
    for _ in range(100):
        rows = [{name: draw.randrange(3) for name in "abc"} for _ in range(draw.randrange(1, 7))]
        for strength in (1, 2):
            days = [covering(rows, strength, random.Random(day)) for day in range(40)]
            assert any(len(day) < len(rows) for day in days) == may_leave_out(rows, strength), rows


def test_few_keep_their_order_and_both_ends() -> None:
    for seed in range(50):
        found = few(range(100), 5, random.Random(seed))
        assert found == sorted(found)
        assert (len(set(found)), found[0], found[-1]) == (5, 0, 99)
    assert few(range(3), 5, random.Random(1)) == [0, 1, 2]
    assert few("abc", 2, random.Random(1)) == ["a", "c"]


def test_default_run_has_each_value_and_says_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run(tmp_path, "-m", "not long", "-p", "randomly", "--randomly-seed=7")
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
    told = capsys.readouterr().out
    assert "STEPS 10\n" in told
    assert "34 of 55 tests of large products were left out, drawn by --randomly-seed=7" in told
    assert "97 of 109 steps of large products were left out" in told
    assert "tox run -e long has them all" in told


@pytest.mark.slow
def test_long_run_has_all_of_what_is_ever_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run(tmp_path, "-m", "long")
    assert (ran.of("product"), ran.of("body"), ran.of("test_long")) == (20, 6, 1)
    assert (ran.of("TestThree"), ran.of("TestFour")) == (3, 3)
    assert (ran.of("by_hypothesis"), ran.of("test_steps"), ran.of("sampled_steps")) == (1, 1, 1)
    assert ran.of("at_most") == 9
    assert (ran.of("values"), ran.of("plain")) == (0, 0)
    told = capsys.readouterr().out
    assert "STEPS 100\n" in told
    assert "left out" not in told


@pytest.mark.slow
def test_dear_ones_take_turns(tmp_path: Path) -> None:
    days = [run(tmp_path, "-m", "not long", "-p", "randomly", f"--randomly-seed={day}") for day in range(6)]
    turns = {body: [day.of(f"test_dear_{body}") for day in days] for body in range(6)}
    assert all(set(turns[body]) <= {0, 1, 1 + (body == 1)} for body in turns)
    assert 6 <= sum(bool(ran) for turn in turns.values() for ran in turn) <= 18
    assert len({tuple(turn) for turn in turns.values()}) > 1
    (whole := tmp_path / "dear_ones_whole").mkdir()
    assert run(whole, "-m", "long").of("test_dear_") == 7


@pytest.mark.slow
def test_one_that_is_named_is_run_whatever_is_drawn(tmp_path: Path) -> None:
    for a, b in ((0, 0), (0, 1), (3, 4)):
        ran = run(tmp_path, "-m", "not long", only=f"::test_product[{b}-{a}]")
        assert len(ran.names) == 1


@pytest.mark.slow
def test_exams_leave_nothing_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGICFS_EXAMS", "all")
    assert run(tmp_path, "-m", "not long").of("product") == 20


def test_a_quick_run_draws_one_combination_of_each_body_unless_its_file_is_named(tmp_path: Path) -> None:
    quick = ("-m", "not long and not process and not slow")
    ran = run(tmp_path, *quick, only=None)
    bodies = ("test_product", "test_values", "test_at_most", "test_plain", "test_first")
    assert [ran.of(body) for body in bodies] == [1, 1, 1, 1, 1]
    assert run(tmp_path, *quick).of("test_values") == 6
