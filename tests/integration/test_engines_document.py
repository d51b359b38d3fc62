"""Every line of the page about engines is run, against a server of S3, and its rows are read back."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.cli import main as cli
from proofs.doubles import environments
from proofs.doubles.servers import Server

pytestmark = pytest.mark.sample(most=1)

PAGE = (Path(__file__).parents[2] / "docs" / "engines.md").read_text()
ROWS = {"day": ["mon", "a b", "50%", "x/y", "é+#"], "n": list(range(5))}
TABLE = pa.table(ROWS)
ELSEWHERE = {
    "awswrangler": (
        "awswrangler",
        ("awswrangler>=3.17", "httptools", "s3fs", "tenacity"),
        "import awswrangler as wr",
    ),
    "Dask": (
        "dask",
        ("dask[dataframe]>=2026.8", "httptools", "s3fs", "pyarrow>=22"),
        "import dask.dataframe as dd",
    ),
}
"""Readers whose requirements do not go together with ours: environment, requirements, first line."""


OWN_PAGES = {
    "a DataFrame of PySpark": "spark/writing.py",
    "a DataFrame of Dask": "dask/__init__.py",
    "a Dataset of Ray Data": "ray/__init__.py",
    "a DataFrame of Daft": "daft/__init__.py",
}
"""Engines that this process does not start, and where their calls are."""


def lines_of(title: str) -> dict[str, list[str]]:
    """The rows of a section's table: what stands in the first column, and the code in the others."""
    section = PAGE.partition(f"{title}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (`.+) \|$", section, flags=re.MULTILINE)
    return {name: re.findall(r"`([^`]+)`", code) for name, code in rows}


CALLS = lines_of("# Which call for which engine")
OWN = {
    name: code
    for name, code in lines_of("## An engine's own writer").items()
    if not name.startswith("engine")
}
READERS = lines_of("## Reading it back")


@pytest.fixture
def url(
    ministack: Server, bucket_factory: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A destination, with credentials in the environment: the lines name none."""
    for name, value in {
        **ministack.environment(),
        "AWS_ENDPOINT_URL": ministack.endpoint,
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    yield f"s3://{bucket_factory(ministack, 'engines')}/my sales"
    fsspec.filesystem("s3").clear_instance_cache()


class Stream:
    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return TABLE.to_reader().__arrow_c_stream__(requested_schema)


def write_part(task: magicfs.Task) -> None:
    ds.write_dataset(
        TABLE.slice(int(task.id), 2 if task.id == "000003" else 1),
        task.path,
        filesystem=task.filesystem,
        format="parquet",
    )


@pytest.fixture
def names(url: str, tmp_path: Path) -> dict[str, Any]:
    """What the lines speak of."""
    sales = TABLE
    con = duckdb.connect()
    con.register("sales", sales)
    con.register_filesystem(fsspec.filesystem("s3"))
    for n in range(len(TABLE)):
        pq.write_table(TABLE.slice(n, 1), tmp_path / f"{n}.parquet")
    return {
        "magicfs": magicfs,
        "pd": pd,
        "ds": ds,
        "pl": pl,
        "duckdb": duckdb,
        "fsspec": fsspec,
        "con": con,
        "url": url,
        "df": TABLE.to_pandas(),
        "table": TABLE,
        "stream": Stream(),
        "frame": pl.from_arrow(TABLE),
        "lazy": pl.from_arrow(TABLE).lazy(),
        "chunks": [TABLE.slice(0, 2).to_pandas(), TABLE.slice(2).to_pandas()],
        "dataset": ds.dataset(tmp_path, format="parquet"),
        "write_part": write_part,
    }


def sorted_rows(found: Any) -> list[dict[str, Any]]:
    table = found if isinstance(found, pa.Table) else pa.Table.from_pandas(found, preserve_index=False)
    table = table.select(["day", "n"]) if "day" in table.column_names else table.select(["n"])
    return sorted(table.to_pylist(), key=lambda row: row["n"])


EXPECTED = TABLE.to_pylist()


@pytest.mark.parametrize("name", [name for name in CALLS if name not in OWN_PAGES])
def test_every_call_publishes_every_row(
    name: str, url: str, names: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = CALLS[name][-1:]
    with ThreadPoolExecutor(2) as pool:
        names["pool"] = pool
        if code.startswith("magicfs write "):
            (tmp_path / "data").mkdir()
            for n in range(len(TABLE)):
                TABLE.slice(n, 1).to_pandas().to_csv(tmp_path / f"data/{n}.csv", index=False)
            monkeypatch.chdir(tmp_path)
            arguments = shlex.split(code.replace("s3://bucket/sales", f"'{url}'"))
            assert cli.main(arguments[1:]) == 0
        elif "job." in code:
            with magicfs.Job(url) as names["job"]:
                eval(code, names)
        else:
            assert eval(code, names).rows == len(TABLE)
    assert sorted_rows(magicfs.Dataset(url).to_arrow().to_table()) == EXPECTED


@pytest.mark.parametrize("name", OWN_PAGES)
def test_lines_of_engines_with_a_page_are_calls_of_functions_that_there_are(name: str) -> None:
    """They are run with the engine: Spark by the tests of its room, the others by ``tox run -e engines``."""
    [call] = ast.parse(CALLS[name][0]).body
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    assert isinstance(call.value.func, ast.Attribute)
    path = Path(magicfs.__file__).parent / OWN_PAGES[name]
    function = call.value.func.attr
    [found] = [
        one
        for one in ast.walk(ast.parse(path.read_text()))
        if isinstance(one, ast.FunctionDef) and one.name == function
    ]
    taken = {argument.arg for argument in [*found.args.args, *found.args.kwonlyargs]}
    assert {keyword.arg for keyword in call.value.keywords} <= taken


def test_the_page_of_spark_has_the_line_that_reads() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    [name] = [name for name in READERS if name.startswith("PySpark")]
    assert READERS[name][-1].replace("url", '"s3://bucket/flights"') in page


@pytest.mark.parametrize("name", OWN)
def test_every_writer_of_an_engine_writes_through_a_task(name: str, url: str, names: dict[str, Any]) -> None:
    code, committer = OWN[name]
    with magicfs.Job(url, committer=committer) as job, job.task(0) as task:
        exec(code, {**names, "task": task})
    format_ = "csv" if "to_csv" in code else "parquet"
    assert sorted_rows(magicfs.Dataset(url).to_arrow(format=format_).to_table()) == EXPECTED


@pytest.mark.parametrize("name", [name for name in READERS if not name.startswith((*ELSEWHERE, "PySpark"))])
def test_every_reader_finds_every_row_and_no_other(name: str, url: str, names: dict[str, Any]) -> None:
    magicfs.write(pa.concat_tables([TABLE, TABLE]), url, partition_by="day")
    magicfs.write(TABLE, url, partition_by="day", mode="overwrite_partitions", keep="1d")
    found = eval(READERS[name][-1], names)
    assert sorted_rows(found.to_arrow() if isinstance(found, pl.DataFrame) else found) == EXPECTED


def test_a_glob_of_all_directories_also_finds_what_was_replaced(tmp_path: Path) -> None:
    """As the page says: the lines name the partition instead."""
    url = f"file://{tmp_path}/sales"
    magicfs.write(TABLE, url, partition_by="day")
    magicfs.write(TABLE, url, partition_by="day", mode="overwrite_partitions", keep="1d")
    for glob, times in (("**/*.parquet", 2), ("day=*/*.parquet", 1)):
        assert glob in PAGE
        assert pl.scan_parquet(f"{tmp_path}/sales/{glob}").collect().height == times * len(TABLE)
    assert len(pd.read_parquet(tmp_path / "sales")) == len(TABLE)


def test_polars_reads_columns_that_came_later_and_text_that_looks_like_a_number(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/sales"
    magicfs.write(pa.table({"zip": ["02134"], "n": [1]}), url, partition_by="zip", mode="append")
    later = pa.table({"zip": ["7"], "n": [2], "note": ["late"]})
    magicfs.write(later, url, partition_by="zip", mode="append")
    [code] = [READERS[name][-1] for name in READERS if name.startswith("Polars, its own reader")]
    found = eval(code, {"pl": pl, "magicfs": magicfs, "url": url}).sort("n")
    assert found.select("zip", "note").rows() == [("02134", None), ("7", "late")]


def test_a_glob_has_a_star_for_each_partition_column(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/sales"
    rows = pa.table({"day": ["mon", "mon"], "country": ["DE", "FR"], "n": [1, 2]})
    for table in (rows, rows.slice(0, 1)):
        magicfs.write(table, url, partition_by=["day", "country"], mode="overwrite_partitions", keep="1d")
    assert "`day=*/*/*.parquet`" in PAGE
    assert pl.scan_parquet(f"{tmp_path}/sales/day=*/*/*.parquet").collect().height == len(rows)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ELSEWHERE)
def test_every_reader_that_lives_elsewhere_finds_every_row(name: str, url: str) -> None:
    magicfs.write(TABLE, url, partition_by="day")
    magicfs.write(TABLE, url, partition_by="day", mode="overwrite_partitions", keep="1d")
    where, requirements, first = ELSEWHERE[name]
    python = environments.ensure(where, requirements) / "bin" / "python"
    source = Path(magicfs.__file__).parents[1]
    code = f"""
import sys
sys.path.append({str(source)!r})
import magicfs
{first}
url = {url!r}
found = {READERS[name][-1]}
print(sorted(found["n"].tolist()))
"""
    shown = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines()[-1] == str(ROWS["n"])


def test_the_way_from_a_laptop_runs_as_it_stands(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    code = code.replace("/tmp/sales", f"{tmp_path}/sales")
    shown = subprocess.run(
        [sys.executable, "-W", "error", "-c", code * 2], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert "published" in shown.stdout
