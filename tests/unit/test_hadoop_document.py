"""What the page about Hadoop says holds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from magicfs.hadoop.known import defaults_of, is_known
from magicfs.protocol.hadoop_release import CHECKSUMS, HadoopRelease
from tests.hadoop_behaviours import BEHAVIOURS

PAGE = (Path(__file__).parents[2] / "docs" / "hadoop.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def rows(heading: str, title: str) -> list[list[str]]:
    """The cells of the table below a heading whose first column has this title."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    _, _, table = section.partition(f"\n| {title} |")
    lines = table.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_runs(example: str) -> None:
    exec(compile(example, "docs/hadoop.md", "exec"), {})


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 3


def test_releases_are_those_of_the_code() -> None:
    found = rows("A job that Hadoop may join, commit or abort", "`hadoop`")
    told = {
        text: (element.strip("`").removesuffix("-<id>"), {"text": "string", "objects": "object"}[etags])
        for names, element, etags in found
        for text in re.findall(r'"([\d.]+)"', names)
    }
    assert set(told) == {"3.3", "3.4.0", "3.4.1", "3.4", "3.5"}
    for text, expected in told.items():
        release = HadoopRelease.of(text)
        assert (release.layout, release.etag_format) == expected


def test_defaults_are_those_of_the_code() -> None:
    told = {
        name.strip("`"): re.findall(r"`([^`]+)`", value)
        for name, value in rows("Take over a configuration", "option")
    }
    for text in ("3.3", "3.4.1", "3.5"):
        for is_spark in (False, True):
            found = defaults_of(HadoopRelease.of(text), is_spark=is_spark)
            for name, values in told.items():
                assert found[name] == values[-1 if is_spark else 0], name


def test_checksums_and_number_of_behaviours_are_those_of_the_code() -> None:
    assert all(one in PAGE for one in CHECKSUMS)
    assert f"{len(BEHAVIOURS)} of them" in PAGE


def test_options_that_are_named_exist() -> None:
    named = set(re.findall(r"`((?:fs\.s3a\.committer|mapreduce)\.[a-z.-]+[a-z])[`=]", PAGE))
    assert len(named) > 8
    assert not [name for name in named if not is_known(name)]
