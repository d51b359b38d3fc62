"""Names of final files: unique, of a bounded length, and whose they are."""

from __future__ import annotations

from itertools import product
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.protocol import ids
from magicfs.protocol.final_names import is_named_by, job_named, unique_name
from magicfs.protocol.ids import JobId
from magicfs.testing import strategies

JOB = ids.job_id("0b8a4a06-7a57-4e4c-9d1c-1f4b5b1a2c3d")
OTHER = ids.job_id(UUID(int=7))
LABELS = ("000003", "task_202601010000_0001_m_000003", "attempt-000003-x1", "eu-west", "v1.2")


def named(name: str, label: str = "000003", job: JobId = JOB) -> str:
    (made,) = unique_name((name,), label, job)
    return made


@pytest.mark.parametrize(
    ("relative", "expected"),
    [
        ("part-0.parquet", f"part-0-000003-{JOB}.parquet"),
        ("part-0001.gz.csv", f"part-0001-000003-{JOB}.gz.csv"),
        ("part-0000", f"part-0000-000003-{JOB}"),
        ("a.b/part-0", f"a.b/part-0-000003-{JOB}"),
        (".hidden", f".hidden-000003-{JOB}"),
        (f"{JOB}/part-0.csv", f"{JOB}/part-0-000003-{JOB}.csv"),
        (f"load={JOB}/part-0.csv", f"load={JOB}/part-0-000003-{JOB}.csv"),
        (f"part-{JOB}.csv", f"part-{JOB}-000003-{JOB}.csv"),
        (f"part-0.csv-000003-{OTHER}", f"part-0-000003-{JOB}.csv-000003-{OTHER}"),
    ],
)
def test_task_and_job_go_before_the_first_dot_of_the_last_element(relative: str, expected: str) -> None:
    """Hadoop's TestPaths.testUUID…, plus the task; but an id elsewhere does not keep a name as it is."""
    once = unique_name(tuple(relative.split("/")), "000003", JOB)
    assert "/".join(once) == expected
    assert unique_name(once, "000003", JOB) == once


@given(
    names=st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1), min_size=1, max_size=3
    )
)
def test_unique_names_of_two_tasks_and_of_two_jobs_never_meet(names: list[str]) -> None:
    relative = tuple(names)
    made = {unique_name(relative, ids.task_id(n), job) for n in (1, 11) for job in (JOB, OTHER)}
    assert len(made) == 4
    assert all(name[:-1] == relative[:-1] for name in made)


@given(name=strategies.elements(), label=st.sampled_from(LABELS))
def test_the_maker_of_a_name_is_named_by_it_and_nobody_who_made_it_before(name: str, label: str) -> None:
    first = named(name, label, OTHER)
    again = named(first, label, JOB)
    for made, job, other in ((first, OTHER, JOB), (again, JOB, OTHER)):
        assert is_named_by(made, job)
        assert not is_named_by(made, other)
        assert named(made, label, job) == made
    assert job_named(again) == (JOB if "." not in label else None)


@pytest.mark.parametrize("label", LABELS[:4])
@pytest.mark.parametrize("name", ["part-0.parquet", "a", ".b.crc", "größe %20+#.csv"])
def test_a_file_that_is_rewritten_under_its_own_name_stays_as_long_as_after_the_first_time(
    name: str, label: str
) -> None:
    lengths = []
    for _ in range(30):
        name = named(name, label, ids.job_id(uuid4()))
        lengths.append(len(name))
    assert set(lengths[1:]) == {lengths[0] + 17}


def test_files_that_differ_only_in_the_tasks_and_jobs_that_wrote_them_stay_apart() -> None:
    """As where one task rewrites what many tasks of several jobs wrote."""
    names = {"part-0.parquet"}
    for _ in range(3):
        names |= {named(name, label, job) for name, label, job in product(names, LABELS, (OTHER, JOB))}
    kept = {name for name in names if named(name, "000003", JobId(f"{uuid4()}"))}
    last = ids.job_id(uuid4())
    assert len({named(name, "000003", last) for name in kept}) == len(names)


@pytest.mark.parametrize(
    ("name", "job"),
    [
        (f"part-0-000003-{JOB}.parquet", JOB),
        (f"part-00000-{JOB}-c000.snappy.parquet", JOB),
        (f"part-00000-{JOB}.c000.snappy.parquet", JOB),
        (f"part-00000-{JOB}_00004.c000.snappy.parquet", JOB),
        (f".part-0-000003-{JOB}.parquet.crc", JOB),
        (f"-{JOB}", JOB),
        (f"part-0-{OTHER}-000003-{JOB}.csv", JOB),
        (f"part-0-{JOB}-000003-{OTHER}.csv", OTHER),
        (f"part-0-{JOB}-000003-daily.csv", None),
        (f"part-0-000003-{OTHER}.csv-000003-{JOB}", OTHER),
        (f"x{JOB}", None),
        (f"part-0-{JOB}0.csv", None),
        (f"part-0-{JOB}-more.csv", None),
        (f"part-0.{JOB}", None),
        ("daily", None),
        (f"part-{JOB[:-1]}.csv", None),
    ],
)
def test_the_last_id_before_the_extension_says_whose_file_it_is(name: str, job: str | None) -> None:
    """Ours, and in Spark's names, which hold the numbers of buckets and files, too."""
    assert [one for one in (JOB, OTHER) if is_named_by(name, one)] == ([job] if job else [])
    assert job_named(name) == job


def test_an_id_that_is_no_uuid_is_read_in_its_place_only() -> None:
    assert is_named_by(named("part-0.csv", job=JobId("daily.1")), "daily.1")
    assert not is_named_by("part-daily.1-x.csv", "daily.1")
