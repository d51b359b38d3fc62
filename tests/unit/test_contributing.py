"""What CONTRIBUTING.md says is there, and what it tells to run runs."""

from __future__ import annotations

import configparser
import importlib.util
import re
import shlex
from pathlib import Path

import pytest

from proofs.crash import classic
from proofs.crash.mutants import reproduced
from proofs.guarantees.main import reproduce
from proofs.job_model.main import broken

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
PATHS = re.findall(r"`((?:src|proofs|tests|docs)(?:/[\w./-]+)?|[\w./-]+\.(?:md|cfg|yaml|ini))`", PAGE)


def environments() -> set[str]:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    names = {section.removeprefix("testenv:") for section in tox.sections() if section.startswith("testenv:")}
    return {name for name in names if "{" not in name} | {"py311", "py314"}


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def commands() -> list[list[str]]:
    """The commands of the section about findings, without those that start servers or Spark."""
    lines = re.findall(r"^python (.*)$", section("Reproducing a finding"), flags=re.MULTILINE)
    return [shlex.split(line) for line in lines]


def test_paths_lead_somewhere() -> None:
    paths = [path for path in PATHS if "NAME" not in path]
    assert len(paths) > 50
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_environments_are_those_of_tox() -> None:
    assert set(re.findall(r"tox run -e ([\w-]+)", PAGE)) <= environments()
    named = {name for first, *_ in rows("Running the tests") for name in re.findall(r"`([\w-]+)`", first)}
    assert environments() == named


def test_proofs_that_are_run_are_programs() -> None:
    named = set(re.findall(r"python -m (proofs\.\w+)", PAGE))
    assert {name for name in named if importlib.util.find_spec(f"{name}.__main__") is None} == set()


def test_words_of_the_tests_are_in_use_where_the_table_says() -> None:
    table = rows("The words of the tests")
    assert len({word for word, _, _ in table}) == len(table) > 20
    for word, _, places in table:
        for place in re.findall(r"`([^`]+)`", places):
            path = ROOT / place
            files = [path] if path.is_file() else sorted(path.rglob("*.py"))
            said = " ".join([place, *(file.read_text() for file in files)]).lower()
            assert word.strip("*").split()[0] in said, f"{word} is not said in {place}"


@pytest.mark.parametrize(
    "text", [words[-1] for words in commands() if words[:3] == ["-m", "proofs.crash", "--reproduce"]]
)
def test_reproductions_of_the_crash_loops_run(text: str) -> None:
    if text.startswith("classic:"):
        assert classic.played(text) is not None
    else:
        assert bool(reproduced(text).violations) == ("|" in text), "only a mutant does wrong"


def test_reproduction_of_a_cell_runs() -> None:
    runs = [words[-1] for words in commands() if words[1] == "proofs.guarantees"]
    assert [reproduce(run) is None for run in runs] == [False]


def test_trace_of_the_model_is_shown() -> None:
    code = [words[-1] for words in commands() if words[0] == "-c"]
    assert [re.findall(r"broken\('(\w+)'\)", one) for one in code] == [["setup_fenced"]]
    assert "late request" in broken("setup_fenced").tell()


@pytest.mark.parametrize("words", [words for words in commands() if "--seed" in words], ids=" ".join)
def test_options_of_the_long_proofs_are_known(words: list[str]) -> None:
    module = words[1]
    names = [path.read_text() for path in (ROOT / module.replace(".", "/")).glob("*main*.py")]
    for option in (word for word in words[2:] if word.startswith("--")):
        assert any(f'"{option}"' in text for text in names), f"{module} has no {option}"
