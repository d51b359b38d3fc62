from __future__ import annotations

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import UsageError
from magicfs.protocol import ids
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.magic import PathOwner, locate

JOB = ids.job_id("0b8a4a06-7a57-4e4c-9d1c-1f4b5b1a2c3d")
SAFE = st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,20}", fullmatch=True)
ANY = st.text(min_size=0, max_size=30)


def test_two_jobs_of_one_second_differ() -> None:
    assert len({ids.job_id(uuid4()) for _ in range(1000)}) == 1000


@pytest.mark.parametrize("value", ["", ".", "..", "a/b", "a b", "é", "a%b", "x" * 101, "a\n", ".hidden"])
def test_ids_that_would_not_be_one_safe_element_are_refused(value: str) -> None:
    with pytest.raises(UsageError, match="is not a job id"):
        ids.job_id(value)
    with pytest.raises(UsageError, match="is not a task id"):
        ids.task_id(value)


@pytest.mark.parametrize("value", [-1, True, 1.5, None])
def test_values_that_name_no_task_are_refused(value: object) -> None:
    with pytest.raises(UsageError, match="is not a task id"):
        ids.task_id(value)  # type: ignore[arg-type]


def test_task_numbers_sort_as_text() -> None:
    numbers = [0, 7, 10, 99, 100, 999_999]
    assert sorted(map(ids.task_id, numbers)) == [ids.task_id(n) for n in numbers]


@given(task=SAFE, random=st.from_regex(r"[0-9a-z]{1,16}", fullmatch=True))
def test_task_is_read_back_from_its_attempt(task: str, random: str) -> None:
    assert ids.task_of_attempt(ids.attempt_id(ids.task_id(task), random)) == task


def test_task_of_a_hadoop_attempt() -> None:
    assert ids.task_of_attempt("attempt_202601010000_0001_m_000003_0") == "task_202601010000_0001_m_000003"


@pytest.mark.parametrize("attempt", ["", "task-1", "attempt-", "attempt_1_2", "attempt-x-"])
def test_text_that_is_no_attempt_is_refused(attempt: str) -> None:
    with pytest.raises(UsageError, match="is not an attempt id"):
        ids.task_of_attempt(attempt)


@pytest.mark.parametrize("layout", ["__magic_job", "__magic"])
@pytest.mark.parametrize("destination", ["", "sales", "a b/dataset1 %20+#/é"])
def test_a_work_path_tells_its_job_task_and_attempt(layout: str, destination: str) -> None:
    work = WorkLayout(destination, JOB, 2, layout)  # type: ignore[arg-type]
    attempt = ids.attempt_id(ids.task_id("reduce-7"), "ab12")
    located = locate(f"bucket/{work.work_directory(attempt)}/year=2026/part 1.csv")
    assert located is not None
    assert located.owner == PathOwner(
        JOB, ids.task_id("reduce-7"), attempt, f"bucket/{work.task_attempt_directory(attempt)}"
    )
    assert located.final_key == "/".join(filter(None, [destination, "year=2026/part 1.csv"]))


def test_layouts_follow_hadoop() -> None:
    attempt = ids.check_attempt("attempt_202601010000_0001_m_000003_0")
    new = WorkLayout("sales", JOB)
    assert new.work_directory(attempt) == f"sales/__magic_job-{JOB}/job-{JOB}/00/tasks/{attempt}/__base"
    assert new.hadoop_set_key(ids.task_of_attempt(attempt)) == (
        f"sales/__magic_job-{JOB}/job-{JOB}/00/task_202601010000_0001_m_000003.pendingset"
    )
    old = WorkLayout("sales", JOB, name="__magic")
    assert old.work_directory(attempt) == f"sales/__magic/job-{JOB}/00/tasks/{attempt}/__base"


def test_a_set_key_names_its_attempt_and_nothing_else_does() -> None:
    work = WorkLayout("sales", JOB)
    attempt = ids.attempt_id(ids.task_id(1), "ab")
    assert work.attempt_of_set(work.set_key(attempt)) == attempt
    for key in (f"{work.sets_directory}/x.json", f"{work.sets_directory}/a/b.pendingset", "x.pendingset"):
        assert work.attempt_of_set(key) is None


@pytest.mark.parametrize(
    "path", ["bucket/d/__magic/x/y", f"bucket/d/__magic_job-{JOB}/job-{JOB}/00/tasks/a b/__base/x"]
)
def test_a_path_outside_a_committers_layout_tells_nothing(path: str) -> None:
    located = locate(path)
    assert located is not None
    assert located.owner is None


def test_a_job_attempt_without_a_number_is_refused() -> None:
    with pytest.raises(UsageError, match="from 0"):
        WorkLayout("d", JOB, attempt=-1)
