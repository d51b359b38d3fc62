"""The tables of docs/stores.md are those of the code."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from magicfs.stores.conditions import Conditions
from magicfs.stores.retrying import RETRIES
from magicfs.testing.deviations import DEVIATIONS, HONOURED

PAGE = (Path(__file__).parents[2] / "docs" / "stores.md").read_text()


def rows(first: str) -> list[list[str]]:
    """The rows of the table whose heading begins with a word."""
    lines = iter(PAGE.splitlines())
    heading = next(line for line in lines if line.startswith(f"| {first} |"))
    table = [heading]
    for line in lines:
        if not line.startswith("|"):
            break
        table.append(line)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table if "---" not in line]


def test_conditions_are_those_that_the_exam_measures() -> None:
    heading, *table = rows("condition")
    assert heading[2:] == list(HONOURED) == ["memory", *DEVIATIONS]
    assert [row[0].strip("`") for row in table] == [field.name for field in fields(Conditions)]
    for name, _, *cells in table:
        honoured = [getattr(HONOURED[server], name.strip("`")) for server in heading[2:]]
        assert cells == ["yes" if each else "no" for each in honoured]


def test_retries_are_those_of_the_code() -> None:
    _, *table = rows("operation")
    expected = []
    for operation, row in RETRIES.items():
        shortest, longest = (
            sum(row.pause_s(failed, share) for failed in range(1, row.attempts)) for share in (0.0, 1.0)
        )
        pauses = f"{shortest:.1f} to {longest:.1f}"
        expected.append(
            [f"`{operation}`", str(row.attempts), f"{row.first_s:g}", f"{row.longest_s:g}", pauses]
        )
    assert table == expected
