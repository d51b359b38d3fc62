"""``overwrite`` tells before the commit point which partitions it deletes and does not write."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.protocol.replacement import lost_partitions
from magicfs.stores.memory.store import default_world

DAYS = ["a b", "50%", "x/y", "ü", "e"]


@pytest.fixture
def url() -> str:
    bucket = f"l-{uuid4().hex[:12]}"
    default_world().create_bucket(bucket)
    return f"memory://{bucket}/env=prod/d 50% +#"


def table(days: list[str]) -> pa.Table:
    return pa.table({"day": days, "n": range(len(days)), "shop": ["s"] * len(days)})


def replace(url: str, days: list[str], **how: Any) -> magicfs.JobReport:
    given = {"partition_by": "day", "mode": "overwrite"} | how
    return magicfs.write(table(days), url, **given)


def test_partitions_that_are_replaced_by_nothing_are_told_before_they_are_gone(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    replace(url, DAYS)
    completed: list[Any] = []
    told_after: list[int] = []

    class Looks(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "deleted without new data" in record.getMessage():
                told_after.append(len(completed))

    handler = Looks(logging.WARNING)
    logging.getLogger("magicfs").addHandler(handler)
    try:
        report = replace(url, ["a b"], progress=completed.append)
    finally:
        logging.getLogger("magicfs").removeHandler(handler)
    [warning] = report.warnings
    says = "4 partitions are deleted without new data, such as day=50%25, day=e, day=x%2Fy, …: "
    assert warning.startswith(says)
    assert "use mode='overwrite_partitions'" in warning
    assert [one.levelname for one in caplog.records if warning in one.getMessage()] == ["WARNING"]
    assert (told_after, bool(completed)) == ([0], True)
    assert (
        replace(url, ["ü"])
        .warnings[0]
        .startswith("1 partition is deleted without new data, such as day=a b: ")
    )


def test_a_command_that_is_told_so_has_done_all_it_was_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script with ``set -e`` goes on: nothing is left to do."""
    (tmp_path / "in.csv").write_text("day,n\ne,1\n")
    url = f"file://{tmp_path}/out"
    replace(url, DAYS)
    how = ["--mode", "overwrite", "--partition-by", "day", "--any-schema"]
    assert main(["write", str(tmp_path / "in.csv"), url, *how]) == 0
    assert "warning     4 partitions are deleted without new data" in capsys.readouterr().out
    replace(url, DAYS)
    job = magicfs.Job(url, mode="overwrite").setup()
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/day=e/a", b"1")
    assert main(["job", "commit", f"{url}/__magic_job-{job.id}", "--tasks", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"][0].startswith("4 partitions are deleted")


@pytest.mark.parametrize(
    "how",
    [
        {"mode": "overwrite_partitions"},
        {"partition_by": None},
        {"partition_by": "shop"},
        {"partition_by": ["day", "shop"]},
    ],
)
def test_nothing_is_told_where_partitions_cannot_be_meant(url: str, how: dict[str, Any]) -> None:
    replace(url, DAYS)
    if how["mode" if "mode" in how else "partition_by"] is None:
        assert not magicfs.write(table(["e"]), url, mode="overwrite").warnings
    else:
        assert not replace(url, ["e"], **how).warnings
    assert not replace(url, [*DAYS, "new"]).warnings


def test_first_data_and_a_rollback_tell_nothing(url: str) -> None:
    first = replace(url, ["a b"], keep="7d")
    assert not first.warnings
    assert not replace(url, DAYS, keep="7d").warnings
    assert not magicfs.Dataset(url).rollback(to=first.job_id, keep=None).warnings


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        (["d/x=1/a"], ["d/x=1/b"], []),
        (["d/x=1/a", "d/x=2/a", "d/x=2/b"], ["d/x=1/b"], ["x=2"]),
        (["d/x=1/y=1/a", "d/x=1/y=2/a"], ["d/x=1/y=1/b"], ["x=1/y=2"]),
        (["d/x=1/y=1/a"], ["d/x=1/b"], []),
        (["d/x=1/sub/a", "d/x=2/sub/a"], ["d/x=1/b"], ["x=2"]),
        (["d/a", "d/plain/x=1/a", "elsewhere/x=3/a"], ["d/x=1/b"], []),
        (["d/x=a b/a"], ["d/x=a%20b/b"], []),
        (["d/x=1/a"], ["d/b"], []),
        (["d/x=1/a"], [], []),
    ],
)
def test_partitions_of_the_same_columns_are_compared(old: list[str], new: list[str], lost: list[str]) -> None:
    assert lost_partitions("d", old, new) == lost
