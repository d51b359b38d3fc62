"""Jobs on files of this machine, without any server: what the quickstart shows, each example, and deaths."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.dataset
import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.stores.local.held import UPLOADS
from proofs.scenes.arranged import arranged
from proofs.scenes.java import skip_without_java

pytestmark = pytest.mark.sample(most=1)

ROOT = Path(__file__).parents[2]
ROWS = Counter([(day, amount) for n in range(4) for day, amount in (("mon", n), ("tue", 10 * n))])
DRIVEN = ("magic", "directory", "partitioned")


def data(destination: Path) -> list[Path]:
    """The files that readers take for data."""
    found = (path for path in destination.rglob("*") if path.is_file())
    return sorted(
        path for path in found if not any(n[0] in "._" for n in path.relative_to(destination).parts)
    )


def hidden(destination: Path) -> list[str]:
    return sorted(path.name for path in destination.iterdir() if path.name[0] in "._")


def publish(url: str, name: str, **options: Any) -> None:
    with magicfs.Job(url, **arranged(**options)) as job, job.task(0) as task:
        task.filesystem.makedirs(f"{task.path}/{name}".rpartition("/")[0], exist_ok=True)
        task.filesystem.pipe_file(f"{task.path}/{name}", b"new")


def run(command: Sequence[str]) -> str:
    shown = subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


@pytest.mark.parametrize("committer", ["auto", "task-completing", *DRIVEN])
@pytest.mark.nightly
def test_the_job_of_the_quickstart_publishes_every_row_each_time(tmp_path: Path, committer: str) -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text()
    (_, code) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert code.count('"memory://bucket/sales"') == 1, "the example has changed"
    code = code.replace('"memory://bucket/sales"', f'"file://{tmp_path}/sales", committer="{committer}"')
    for number in (1, 2):
        told = run(["-c", code])
        assert f"published   file://{tmp_path}/sales" in told
        rows = pyarrow.dataset.dataset(f"{tmp_path}/sales", format="parquet", partitioning="hive")
        found = Counter(zip(*rows.to_table(["day", "amount"]).to_pydict().values(), strict=True))
        assert found == Counter({row: number * times for row, times in ROWS.items()})
        assert set(hidden(tmp_path / "sales")) <= {"_SUCCESS", "_magicfs"}


def test_process_pool_publishes_every_sensor(tmp_path: Path) -> None:
    assert "8 (" in run([str(ROOT / "examples/process_pool.py"), f"file://{tmp_path}/measurements"])
    found = data(tmp_path / "measurements")
    assert [path.parent.name for path in found] == [f"sensor={n}" for n in range(8)]
    assert hidden(tmp_path / "measurements") == ["_SUCCESS", "_magicfs"]


@pytest.mark.nightly
@pytest.mark.parametrize(("example", "files"), [("spark_csv", 4), ("spark_images", 12)])
def test_examples_with_spark_publish_every_file(tmp_path: Path, example: str, files: int) -> None:
    skip_without_java()
    run(["-m", f"examples.{example}", f"file://{tmp_path}/out"])
    assert len(data(tmp_path / "out")) == files
    assert hidden(tmp_path / "out") == ["_SUCCESS", "_magicfs"]


def test_every_example_is_run_here_or_on_s3_alone() -> None:
    names = {path.name for path in (ROOT / "examples").glob("[!_]*.py")}
    on_s3 = {
        "airflow_task.py",
        "dagster_asset.py",
        "prefect_flow.py",
        "numpy_shards.py",
        "safetensors_shards.py",
    }
    assert names - on_s3 == {"process_pool.py", "spark_csv.py", "spark_images.py"}


_DRIVER = """
import os, signal, sys
import magicfs
from magicfs.stores.local.store import LocalStore

url, committer, mode, at, after = sys.argv[1:]
job = magicfs.Job(url, committer=committer, mode=mode, concurrency=1).setup()
commits = []
for n in range(2):
    with job.task(n) as task:
        for name in ("day=1/a b+%2F#.csv", "day=2/c.csv"):
            with task.filesystem.open(f"{task.path}/{name}", "wb") as file:
                file.write(b"new %d" % n)
    commits.append(task.committed)
complete, count = LocalStore.complete_upload, 0

async def counted(*args, **kwargs):
    global count
    count += 1
    if count == int(at) and after == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    done = await complete(*args, **kwargs)
    if count == int(at):
        os.kill(os.getpid(), signal.SIGKILL)
    return done

LocalStore.complete_upload = counted
job.commit(commits)
"""

NEW = {
    f"day={day}/{name}-00000{n}-*.csv": b"new %d" % n
    for day, name in ((1, "a b+%2F#"), (2, "c"))
    for n in range(2)
}


@pytest.mark.parametrize("wish", ["forward", "rollback"])
@pytest.mark.parametrize(("at", "after"), [(1, 0), (2, 0), (3, 1)])
@pytest.mark.parametrize("committer", DRIVEN)
def test_driver_that_is_killed_between_two_completes_is_recovered(
    tmp_path: Path, committer: str, at: int, after: int, wish: str
) -> None:
    destination = tmp_path / "d #1"
    (destination / "day=1").mkdir(parents=True)
    (destination / "day=1" / "old.csv").write_bytes(b"old")
    mode = "overwrite_partitions" if committer == "partitioned" else "overwrite"
    command = [
        sys.executable,
        "-c",
        _DRIVER,
        f"file://{destination}",
        committer,
        mode,
        str(at),
        str(after),
    ]
    died = subprocess.run(
        command, env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, check=False
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert len(data(destination)) == 1 + at - 1 + after
    assert (destination / "day=1" / "old.csv").read_bytes() == b"old"
    assert list(destination.rglob(UPLOADS))
    assert main(["uploads", f"file://{destination}"]) == 1
    arguments = ["recover", f"file://{destination}", *(["--rollback"] if wish == "rollback" else [])]
    assert main(arguments) == 0
    found = data(destination)
    if wish == "rollback":
        assert [path.read_bytes() for path in found] == [b"old"]
    else:
        assert len(found) == len(NEW)
        for pattern, body in NEW.items():
            (path,) = destination.glob(pattern)
            assert path.read_bytes() == body
    assert not list(destination.rglob(UPLOADS))
    assert not list(destination.rglob("__magic*"))
    assert main(["uploads", f"file://{destination}"]) == 0
    if wish == "forward":
        assert magicfs.Dataset(f"file://{destination}").verify().ok


@pytest.mark.parametrize("committer", DRIVEN)
def test_job_that_never_committed_is_discarded_by_the_command_line(tmp_path: Path, committer: str) -> None:
    job = magicfs.Job(f"file://{tmp_path}/sales", committer=committer, mode="append").setup()
    with job.task(0) as task, task.filesystem.open(f"{task.path}/a.csv", "wb") as file:
        file.write(b"a")
    assert main(["uploads", f"file://{tmp_path}/sales"]) == 1
    assert main(["recover", "--abort", f"file://{tmp_path}/sales", "--job", job.id]) == 0
    assert list((tmp_path / "sales").rglob("*")) == []


@pytest.mark.parametrize("committer", ["auto", "file", *DRIVEN])
@pytest.mark.parametrize("name", ["a b#.parquet", "day=1/a+%.parquet"])
def test_pandas_writes_to_the_url_of_a_task(tmp_path: Path, committer: str, name: str) -> None:
    frame = pd.DataFrame({"x": [1, 2]})
    options: Any = {"committer": committer, "mode": "append"}
    with magicfs.Job(f"file://{tmp_path}/d", **arranged(**options)) as job, job.task(0) as task:
        frame.to_parquet(task.url(name), storage_options=task.storage_options or None)
    (path,) = data(tmp_path / "d")
    assert path.parent.name == (tmp_path / "d" / name).parent.name
    assert pd.read_parquet(path)[["x"]].equals(frame)


def test_other_committer_of_the_same_destination_sees_the_chain(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/sales"
    for committer in DRIVEN:
        publish(url, f"day=1/{committer}.csv", committer=committer, mode="append")
    assert magicfs.Dataset(url).verify().ok
    assert len(data(tmp_path / "sales")) == 3
    publish(url, "day=1/b.csv", mode="overwrite")
    assert [path.read_bytes() for path in data(tmp_path / "sales")] == [b"new"]
    assert magicfs.Dataset(url).verify().ok
