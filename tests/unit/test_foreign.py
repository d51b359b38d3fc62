"""The comparison of other libraries' suites, plain and through a task; the suites themselves are tox's."""

from __future__ import annotations

from pathlib import Path

import pytest

from proofs.foreign.comparison import Difference, compare, counted
from proofs.foreign.differences import DIFFERENCES
from proofs.foreign.main import run
from proofs.foreign.suites import LANES, SUITES, Suites

PLAIN = {"io/test_csv.py::test_one": "passed", "io/test_csv.py::test_two[a]": "passed"}
APPENDS = Difference("lib", ("test_csv.py::test_two",), "passed", "failed", "it appends")

SUITE = """
import fsspec
import pytest

NAME = "a b/ä%41+#.txt"


def test_memory():
    with fsspec.open(f"memory://{NAME}", "wt", encoding="utf-8") as file:
        file.write("ü")
    filesystem = fsspec.filesystem("memory")
    assert filesystem.cat(NAME) == "ü".encode()
    filesystem.pipe({NAME: b"2", "second.txt": b"3"})
    assert filesystem.cat(NAME) + filesystem.cat("second.txt") == b"23"


def test_local(tmp_path):
    with fsspec.open(f"file://{tmp_path}/ß 1.gz", "wb", compression="infer") as file:
        file.write(b"rows")
    with fsspec.open(f"file://{tmp_path}/ß 1.gz", "rb", compression="infer") as file:
        assert file.read() == b"rows"


def test_no_directory(tmp_path):
    with pytest.raises(FileNotFoundError):
        fsspec.filesystem("file").open(tmp_path / "none" / "file", "wb")


def test_appending(tmp_path):
    with fsspec.open(f"file://{tmp_path}/one.txt", "ab") as file:
        file.write(b"more")


@pytest.mark.skip
def test_skipped():
    pass
"""


def test_equal_outcomes_are_no_trouble() -> None:
    found = compare(PLAIN, PLAIN, [])
    assert (found.troubles, dict(found.differing)) == ((), {})


def test_a_difference_without_a_name_is_a_trouble() -> None:
    found = compare(PLAIN, {**PLAIN, "io/test_csv.py::test_one": "skipped"}, [])
    assert found.troubles == ("io/test_csv.py::test_one passed plain and skipped through a task",)


def test_a_named_difference_covers_all_parameters() -> None:
    found = compare(PLAIN, {**PLAIN, "io/test_csv.py::test_two[a]": "failed"}, [APPENDS])
    assert (found.troubles, found.differing) == ((), {"io/test_csv.py::test_two[a]": "it appends"})


def test_a_named_difference_that_is_gone_is_a_trouble() -> None:
    (trouble,) = compare(PLAIN, PLAIN, [APPENDS]).troubles
    assert trouble.startswith("io/test_csv.py::test_two[a] was passed and passed")


def test_a_named_difference_that_was_not_run_is_a_trouble() -> None:
    other = Difference("lib", ("test_csv.py::test_three",), "passed", "failed", "renamed since")
    assert compare(PLAIN, PLAIN, [other]).troubles == (
        "test_csv.py::test_three is named as a difference and was not run",
    )


@pytest.mark.parametrize("outcome", ["failed", "error"])
def test_what_fails_without_magicfs_is_a_trouble(outcome: str) -> None:
    both = {**PLAIN, "io/test_csv.py::test_one": outcome}
    assert compare(both, both, []).troubles == (f"io/test_csv.py::test_one {outcome} without magicfs",)


def test_a_test_of_one_run_alone_is_a_trouble() -> None:
    assert len(compare(PLAIN, {}, []).troubles) == len(compare({}, PLAIN, []).troubles) == 2


def test_counts_name_every_kind() -> None:
    outcomes = ["passed", "xpassed", "failed", "error", "skipped", "xfailed"]
    assert counted(dict(zip("abcdef", outcomes, strict=True))) == {
        "passed": 2,
        "failed": 2,
        "skipped": 1,
        "xfailed": 1,
    }


def test_differences_are_of_suites_that_are_run_and_told_once() -> None:
    assert {one.library for one in DIFFERENCES} <= {one.library for one in SUITES}
    named = [(one.library, name) for one in DIFFERENCES for name in one.tests]
    assert len(set(named)) == len(named)
    assert all(one.plain != one.through and one.reason for one in DIFFERENCES)
    assert sorted(one.library for lane in LANES for one in lane) == sorted(one.library for one in SUITES)


@pytest.mark.process
@pytest.mark.nightly
def test_a_suite_writes_through_tasks_without_knowing(tmp_path: Path) -> None:
    (tmp_path / "test_files.py").write_text(SUITE, encoding="utf-8")
    suites = Suites("pytest", ("test_files.py",))
    plain, through = (run(suites, tmp_path, tmp_path, how) for how in ("plain", "task"))
    assert (plain.writes, through.writes) == (0, 4)
    allowed = [Difference("pytest", ("test_files.py::test_appending",), "passed", "failed", "appends")]
    # The root of this suite is its only directory.
    found = compare(
        *({f"./{test}": ended for test, ended in one.outcomes.items()} for one in (plain, through)), allowed
    )
    assert found.troubles == (), through.messages
    assert counted(through.outcomes) == {"passed": 3, "failed": 1, "skipped": 1, "xfailed": 0}
