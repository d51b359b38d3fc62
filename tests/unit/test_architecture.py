"""The page about the architecture, held against the tree, the import contract and the way of a real file."""

from __future__ import annotations

import configparser
import re
from collections import Counter
from pathlib import Path

import pytest

from proofs.scenes.one_file import PHASES, rooms_of, spine_of, walk

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
FILES_AT_THE_TOP = 5
STEPS = {"set up": "1", "open to close": "2 to 4", "task commit": "5", "job commit": "6 to 10"}


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def listed() -> list[tuple[str, str]]:
    """Paths and their sentences, from all tables about rooms."""
    tables = section("The rooms") + (ROOT / "proofs" / "README.md").read_text()
    return re.findall(r"^\| `([\w/.]+)` \| (.+) \|$", tables, flags=re.MULTILINE)


def files_at_the_top() -> set[str]:
    return {path.relative_to(SOURCES).as_posix() for path in (SOURCES / "magicfs").glob("*.py")}


def rooms() -> set[str]:
    """Every directory that holds modules, but the two at the root."""
    every = [*SOURCES.rglob("*.py"), *(ROOT / "proofs").rglob("*.py")]
    return {
        path.parent.relative_to(SOURCES if path.is_relative_to(SOURCES) else ROOT).as_posix()
        for path in every
    } - {"magicfs", "proofs"}


def floors() -> str:
    """The import contract as a picture; the page holds exactly this text."""
    contract = configparser.ConfigParser()
    contract.read(ROOT / "setup.cfg")
    return contract["importlinter:contract:floors"]["layers"].strip()


def test_every_room_has_one_line_and_no_other_is_named() -> None:
    named = Counter(path for path, _ in listed())
    assert set(named) == rooms() | files_at_the_top()
    assert [path for path, times in named.items() if times > 1] == []


def test_every_line_is_one_sentence() -> None:
    for path, text in listed():
        assert re.fullmatch(r"[A-Z`][^.]*\.", re.sub(r"`[^`]*`", "`", text)), f"{path}: {text}"


def test_five_files_at_the_top_and_no_more() -> None:
    assert len(files_at_the_top()) <= FILES_AT_THE_TOP, "a new module needs a room"
    assert not list((ROOT / "proofs").glob("[!_]*.py")), "a new module needs a room"


def test_every_room_of_magicfs_has_a_floor() -> None:
    top = {path.split("/")[1] for path in rooms() | files_at_the_top() if path.startswith("magicfs/")}
    assert set(re.findall(r"\w+", floors())) == {name.removesuffix(".py") for name in top} - {"__init__"}


def test_picture_of_the_floors_is_the_import_contract() -> None:
    assert f"```\n{floors()}\n```\n" in PAGE, f"docs/architecture.md must hold:\n{floors()}"


def test_modules_that_the_page_names_exist() -> None:
    for name in re.findall(r"`([\w/]+\.(?:py|cfg|md))`", PAGE):
        assert any((base / name).is_file() for base in (ROOT, SOURCES, SOURCES / "magicfs")), name


@pytest.fixture(scope="module")
def walked() -> dict[str, list[str]]:
    return walk()


def test_rooms_of_each_phase_are_those_that_a_real_file_passes(walked: dict[str, list[str]]) -> None:
    lines = ["| phase | steps | rooms |", "| --- | --- | --- |"]
    for phase in PHASES:
        passed = ", ".join(f"`{room}`" for room in rooms_of(walked[phase]))
        lines.append(f"| {phase} | {STEPS[phase]} | {passed} |")
    table = "\n".join(lines)
    assert table in section("The way of one file"), f"docs/architecture.md must hold:\n{table}"


def test_a_walk_is_the_same_each_time(walked: dict[str, list[str]]) -> None:
    assert walk() == walked


def test_the_spine_leaves_values_and_rules_out(walked: dict[str, list[str]]) -> None:
    spine = spine_of(walked)
    assert "job.job" in spine
    assert "transaction.publish" in spine
    assert not set(spine) & {"formats.pending", "protocol.magic", "errors", "stores.memory.store"}
