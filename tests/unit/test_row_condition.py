"""Conditions on rows, asked of whole files."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal

import pytest

from magicfs.errors import UsageError
from magicfs.past.row_condition import Values, parse_condition

DAY = {"day": Values.one("2026-01-01"), "n": Values(3, 9, nulls=False), "who": Values.one(None)}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("day = '2026-01-01'", "all"),
        ("day == '2026-01-01' and n >= 3", "all"),
        ("day <> '2026-01-01'", "none"),
        ("day < '2026-01-01'", "none"),
        ("day <= '2026-01-01'", "all"),
        ("day > '2025-12-31' AND NOT day >= '2026-01-02'", "all"),
        ("n < 10", "all"),
        ("n < 9", "unknown"),
        ("n < 3", "none"),
        ("n > 2.5", "all"),
        ("n = 5", "unknown"),
        ("n != 10", "all"),
        ("n in (1, 2, 10)", "none"),
        ("n not in (1, 2, 10)", "all"),
        ("n = 5 or day = '2026-01-01'", "all"),
        ("who is null", "all"),
        ("who is not null or who = 'x'", "none"),
        ("not who = 'x'", "none"),
        ("n is not null", "all"),
        ("other = 1", "unknown"),
        ("other = 1 and n > 9", "none"),
        ("\"day\" in ('2026-01-01', 'it''s')", "all"),
        ("n = 5 or not (n = 5)", "unknown"),
    ],
)
def test_answers(text: str, answer: str) -> None:
    assert parse_condition(text).of_file(DAY) == answer


@pytest.mark.parametrize(
    "value", ["NaN", "sNaN", "-nan", "Infinity", "1e9999999999999999999", Decimal("NaN")]
)
@pytest.mark.parametrize("text", ["x < 7", "x = 5", "x in (1, 2.5)", "not x >= 7"])
def test_what_has_no_place_among_numbers_is_unknown(text: str, value: object) -> None:
    assert parse_condition(text).of_file({"x": Values.one(value)}) == "unknown"
    assert parse_condition("x = 'NaN'").of_file({"x": Values.one("NaN")}) == "all"


@pytest.mark.parametrize("number", ["9" * 5000, "1e999999999999999999999", "0." + "1" * 5000])
def test_numbers_that_are_too_large_are_refused(number: str) -> None:
    with pytest.raises(UsageError, match="which is too large; nothing was changed"):
        parse_condition(f"x < {number}")


def test_values_of_partitions_are_text_and_are_compared_as_what_is_asked_for() -> None:
    columns = {"month": Values.one("10"), "flag": Values.one("true")}
    assert parse_condition("month > 9").of_file(columns) == "all"
    assert parse_condition("month > '9'").of_file(columns) == "none"
    assert parse_condition("flag = true").of_file(columns) == "all"
    with pytest.raises(UsageError, match="cannot be compared"):
        parse_condition("day > 9").of_file(DAY)
    with pytest.raises(UsageError, match="cannot be compared"):
        parse_condition("n > 'x'").of_file(DAY)


@pytest.mark.parametrize(
    "text",
    [
        *("", "day", "day =", "day = x", "= 1", "day = '1", "day = 1 or", "(day = 1", "day = 1)"),
        *("day in ()", "day is 1", "day not 1", "day ; 1", "1 = 1", "day = 1 day = 2", "day = 1e"),
        *("a = 'x' and and b = 1", "(" * 60 + "a = 1" + ")" * 60, "not " * 60 + "a = 1"),
    ],
)
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="condition"):
        parse_condition(text)


def test_names_and_text() -> None:
    found = parse_condition('a.b = 1 and "x y" is null and a.b < 3')
    assert found.names == ("a.b", "x y")


def test_an_answer_holds_for_every_row() -> None:
    """Files of random rows: ``all`` and ``none`` are true of every single one of them."""
    chance = random.Random(7)
    answers = set()
    for _ in range(3000):
        rows = [
            {name: chance.choice([None, 1, 2, 3, 4]) for name in ("a", "b")}
            for _ in range(chance.randrange(1, 4))
        ]
        columns = {name: _values([row[name] for row in rows]) for name in ("a", "b")}
        text = _condition(chance, 3)
        condition = parse_condition(text)
        met = [condition.of_file({k: Values.one(v) for k, v in row.items()}) == "all" for row in rows]
        answer = condition.of_file(columns)
        answers.add(answer)
        assert answer != "all" or all(met), (text, rows)
        assert answer != "none" or not any(met), (text, rows)
    assert answers == {"all", "none", "unknown"}


def test_one_row_is_always_told_as_sql_tells_it() -> None:
    for a, b in itertools.product([None, 1, 2], repeat=2):
        columns = {"a": Values.one(a), "b": Values.one(b)}
        for text, met in (
            ("a = 1 and b = 1", a == 1 and b == 1),
            ("a = 1 or b = 1", a == 1 or b == 1),
            ("not (a = 1 and b = 1)", (a not in (1, None)) or (b not in (1, None))),
            ("a is null and not b is null", a is None and b is not None),
        ):
            assert (parse_condition(text).of_file(columns) == "all") == met, (text, a, b)


def test_numbers_are_exact() -> None:
    assert parse_condition("n = 0.1").of_file({"n": Values.one("0.1")}) == "all"
    assert parse_condition("n = 0.1").of_file({"n": Values.one(Decimal("0.10"))}) == "all"


def _values(column: list[int | None]) -> Values:
    there = [one for one in column if one is not None]
    return Values(min(there, default=None), max(there, default=None), None in column, bool(there))


def _condition(chance: random.Random, depth: int) -> str:
    kind = chance.randrange(6 if depth else 3)
    name = chance.choice("ab")
    match kind:
        case 0 | 1:
            return f"{name} {chance.choice(['=', '!=', '<', '<=', '>', '>='])} {chance.randrange(6)}"
        case 2:
            return chance.choice([f"{name} is null", f"{name} is not null", f"{name} in (1, 3)"])
        case 3:
            return f"not ({_condition(chance, depth - 1)})"
    join = chance.choice(["and", "or"])
    return f"({_condition(chance, depth - 1)}) {join} ({_condition(chance, depth - 1)})"


def test_a_date_without_quotes_is_refused_with_the_advice_to_quote_it() -> None:
    with pytest.raises(UsageError, match=r"quote text, as '2026-01-31'; nothing was changed"):
        parse_condition("day < 2026-11-24")
