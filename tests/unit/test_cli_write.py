"""``magicfs write``: files of this machine, published as one dataset."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.cli import main as cli


def rows(place: Path, **how: str) -> list[dict[str, object]]:
    table = magicfs.Dataset(f"file://{place}").to_arrow(**how).to_table()
    return table.sort_by("n").to_pylist()


def test_patterns_directories_and_files_become_one_dataset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out 50%"
    (tmp_path / "in/día=a b").mkdir(parents=True)
    (tmp_path / "in/_temporary").mkdir()
    (tmp_path / "in/_temporary/x.csv").write_text("broken")
    (tmp_path / "in/día=a b/1.csv").write_text("n\n1\n")
    with gzip.open(tmp_path / "in/día=a b/2.csv.gz", "wt") as file:
        file.write("n\n2\n")
    arguments = [str(tmp_path / "in"), f"file://{out}", "--partition-by", "día"]
    assert cli.main(["write", *arguments, "--dry-run", "--json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert (shown["files"], shown["columns"]) == (2, {"n": "int64", "día": "string"})
    assert not out.exists()
    assert cli.main(["write", *arguments, "--tasks", "2"]) == 0
    assert "published" in capsys.readouterr().out
    assert rows(out) == [{"n": 1, "día": "a b"}, {"n": 2, "día": "a b"}]
    assert cli.main(["write", *arguments]) == 4, "data is there"
    pattern = [str(tmp_path / "in/**/1.*"), str(tmp_path / "in/día=a b/2.csv.gz")]
    assert cli.main(["write", *pattern, f"file://{tmp_path}/all", "--format", "json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 2
    assert rows(tmp_path / "all", format="json") == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize("kind", ["parquet", "ndjson", "arrow"])
def test_every_format_is_told_by_its_name(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"é #1.{kind}"
    table = pa.table({"n": [1, 2], "s": ["x", "ü"]})
    if kind == "ndjson":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
    else:
        {"parquet": pq.write_table, "arrow": pyarrow.feather.write_feather}[kind](table, path)
    assert cli.main(["write", str(path), f"file://{tmp_path}/out"]) == 0
    assert rows(tmp_path / "out") == table.to_pylist()
    (tmp_path / "unnamed").write_bytes(path.read_bytes())
    more = [str(tmp_path / "unnamed"), f"file://{tmp_path}/out", "--mode", "append"]
    assert cli.main(["write", *more]) == 2
    assert cli.main(["write", *more, "--input-format", "json" if kind == "ndjson" else kind]) == 0
    assert len(rows(tmp_path / "out")) == 4


def test_what_cannot_be_read_publishes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    (tmp_path / "good.csv").write_text("n\n" + "1\n" * 10)
    (tmp_path / "bad.csv").write_text("n\n" + "1\n" * 2_000_000 + "word\n")
    (tmp_path / "no.parquet").write_text("no")
    for inputs, message in (
        (["good.csv", "no.parquet"], "write one format"),
        (["no.parquet"], "cannot be read as parquet"),
        (["missing*.csv"], "no such file"),
        (["good.csv", "bad.csv"], "nothing was published"),
    ):
        paths = [str(tmp_path / name) for name in inputs]
        assert cli.main(["write", *paths, f"file://{out}"]) == 2
        assert message in capsys.readouterr().err
    assert not [path for path in out.rglob("*") if path.is_file()]
