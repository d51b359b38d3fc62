"""Each behaviour that Hadoop's tests ask for has a test here, or a reason; and those that had none."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from uuid import uuid4

import pytest

import magicfs
from magicfs.errors import UsageError
from magicfs.protocol import paths
from magicfs.protocol.magic import MagicPath, locate
from proofs.scenes.arranged import arranged
from proofs.scenes.unfinished import Bucket
from tests.hadoop_behaviours import BEHAVIOURS

ROOT = Path(__file__).parents[2]


@cache
def functions(name: str) -> frozenset[str]:
    """The functions of a file, those of classes after the name of their class and a dot."""
    found: set[str] = set()

    def look(body: list[ast.stmt], before: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(before + node.name)
            if isinstance(node, ast.ClassDef):
                look(node.body, f"{before}{node.name}.")

    look(ast.parse((ROOT / name).read_text()).body, "")
    return frozenset(found)


def test_every_behaviour_is_accounted_for_once() -> None:
    assert list(BEHAVIOURS) == list(range(1, 163))
    assert len({one.title for one in BEHAVIOURS.values()}) == 162


@pytest.mark.parametrize("number", BEHAVIOURS)
def test_behaviour_is_shown_by_tests_that_exist_or_has_a_reason(number: int) -> None:
    one = BEHAVIOURS[number]
    assert one.title
    assert bool(one.shown) != bool(one.reason), "either tests, or a reason"
    assert not (one.reason and one.otherwise)
    for test in one.shown:
        name, _, function = test.partition("::")
        assert function in functions(name), test
        assert name.startswith(("tests/", "proofs/")), test
        is_case = name.startswith("proofs/hadoop/")
        assert is_case or function.rpartition(".")[2].startswith("test_"), test


def test_nearly_all_are_shown_by_tests() -> None:
    assert [number for number, one in BEHAVIOURS.items() if one.reason] == [39, 124]


def test_cases_of_the_live_crossings_are_entered() -> None:
    from proofs.hadoop import crossings, main  # noqa: F401 - whose modules enter their cases

    entered = {one.__name__ for each in crossings.CASES.values() for one in each}
    named = {
        test.partition("::")[2]
        for one in BEHAVIOURS.values()
        for test in one.shown
        if "proofs/hadoop/" in test
    }
    assert named <= entered


def test_exams_are_of_committers_that_are_examined() -> None:
    from proofs.committer_exam import CommitterExam
    from proofs.committer_exam.family import FamilyExam

    examined = {one.__name__ for kind in (CommitterExam, FamilyExam) for one in kind.__mro__}
    named = {
        test.partition("::")[2].partition(".")[0]
        for one in BEHAVIOURS.values()
        for test in one.shown
        if test.startswith("proofs/committer_exam/")
    }
    assert named <= examined


# -- paths ---------------------------------------------------------------------------------------------


def test_001_empty_path_names_no_file() -> None:
    assert paths.elements("") == ()
    with pytest.raises(UsageError, match="bucket"):
        paths.parse_url("s3://")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("//", ()),
        ("/", ()),
        ("/a/b/c", ("a", "b", "c")),
        ("/a/b/c/", ("a", "b", "c")),
        ("/a", ("a",)),
        ("/a/", ("a",)),
        ("/a//b/%2F/ ü", ("a", "b", "%2F", " ü")),
    ],
)
def test_002_to_006_elements_of_a_path(path: str, expected: tuple[str, ...]) -> None:
    assert paths.elements(path) == expected


def located(*names: str) -> MagicPath:
    found = locate("/".join(("bucket", *names)))
    assert found is not None
    return found


@pytest.mark.parametrize("magic", ["__magic", "__magic_job-7d0c"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((), ()),
        ((), ("child",)),
        (("parent",), ()),
        (("parent",), ("child",)),
        (("p q", "ü"), ("c+d", "%")),
    ],
)
def test_007_to_010_parents_and_children(magic: str, before: tuple[str, ...], after: tuple[str, ...]) -> None:
    found = located(*before, magic, *after)
    assert (found.parents, found.magic, found.children) == (before, magic, after)


@pytest.mark.parametrize("names", [("first",), ("first", "second")])
def test_011_last_element(names: tuple[str, ...]) -> None:
    assert located("__magic", *names).relative == (names[-1],)


# -- aborts --------------------------------------------------------------------------------------------


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(f"b-{uuid4().hex[:8]}")


@pytest.fixture(params=[{}, {"tracking": "memory"}, {"hadoop": "3.5"}, {"hadoop": "3.3"}])
def job(bucket: Bucket, request: pytest.FixtureRequest) -> magicfs.Job:
    return magicfs.Job(bucket.url("día 50% + #1/sales"), mode="append", **arranged(**request.param)).setup()


def test_030_and_050_task_without_work_is_aborted(bucket: Bucket, job: magicfs.Job) -> None:
    before = bucket.objects()
    task = job.task(0).setup()
    task.abort()
    assert bucket.objects() == before
    assert bucket.uploads() == []
    job.abort()


def test_051_job_without_work_is_aborted(bucket: Bucket, job: magicfs.Job) -> None:
    job.abort()
    assert bucket.objects() == {}
    assert bucket.uploads() == []


def test_054_aborts_may_be_repeated(bucket: Bucket, job: magicfs.Job) -> None:
    task = job.task(0).setup()
    task.filesystem.pipe_file(f"{task.path}/a.csv", b"row\n")
    task.abort()
    task.abort()
    for _ in range(3):
        job.abort()
        assert bucket.objects() == {}
        assert bucket.uploads() == []
