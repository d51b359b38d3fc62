"""Files that are read to see whether they are damaged."""

from __future__ import annotations

import hashlib
import io
import json
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.operate import deep_look
from magicfs.report import VerifyReport
from proofs.scenes.job_scene import JobScene

DEST = "env=prod/día 50% + #1"


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": list(range(100)), "text": ["x"] * 100}), sink)
    return sink.getvalue()


WHOLE = parquet()
LENGTH = int.from_bytes(WHOLE[-8:-4], "little")
FOOTER = WHOLE[-8 - LENGTH : -8]


def verified(scene: JobScene, *, deep: bool = True) -> VerifyReport:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify(deep=deep)


@pytest.mark.parametrize("size", [3, 2**20])
def test_whole_files_of_all_kinds(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_look, "_RANGE", size)
    scene = JobScene(DEST)
    scene.published({"a b.parquet": WHOLE, "ü/b.csv": b"1,2", "c.bin": b"", "d%.parquet": WHOLE})
    before = scene.everything()
    report = verified(scene)
    assert (report.ok, report.read, report.damaged, report.advice) == (True, 4, {}, ())
    etags = {hashlib.md5(body).hexdigest(): etag for body, etag, _ in scene.objects().values()}
    digests = {body: hashlib.md5(body) for body in scene.bodies()}
    one_part = {body: f"{hashlib.md5(digest.digest()).hexdigest()}-1" for body, digest in digests.items()}
    same = sum(
        etags.get(digests[body].hexdigest(), "").strip('"') in {digests[body].hexdigest(), one_part[body]}
        for body in scene.bodies()
    )
    assert report.confirmed == same
    assert verified(scene, deep=False).read == 0
    assert scene.everything() == before


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "does not begin and end"),
        (b"PAR1", "does not begin and end"),
        (WHOLE[:-1], "does not begin and end"),
        (b"x" + WHOLE[1:], "does not begin and end"),
        (WHOLE[: len(WHOLE) // 2], "does not begin and end"),
        (b"PAR1" + b"\0\0\0\0" + b"PAR1", "declares a footer of 0 bytes"),
        (WHOLE[:-8] + b"\xff\xff\xff\x7f" + b"PAR1", "declares a footer of 2147483647 bytes"),
        (WHOLE[: -8 - LENGTH] + b"\xff" * LENGTH + WHOLE[-8:], "footer that cannot be read"),
        (b"PAR1" + FOOTER + WHOLE[-8:], "columns beyond its end"),
    ],
)
def test_damaged_parquet_files(body: bytes, problem: str) -> None:
    scene = JobScene(DEST)
    scene.published({"p=1/a b.parquet": body, "p=1/b.parquet": WHOLE, "c.csv": body})
    assert verified(scene, deep=False).ok, "as it was published"
    report = verified(scene)
    [(key, told)] = report.damaged.items()
    assert key.startswith("p=1/a b")
    assert problem in told
    assert not report.ok
    assert "magicfs drop" in report.advice[0]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(tmp_path / "sales 50% #1")
    with magicfs.Job(url) as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.parquet", WHOLE[:50])
        task.filesystem.pipe_file(f"{task.path}/b.parquet", WHOLE)
    assert main(["verify", url]) == 0
    capsys.readouterr()
    assert main(["verify", url, "--deep"]) == 1
    out = capsys.readouterr().out
    assert "does not begin and end as a Parquet file" in out
    assert "1 damaged" in out
    assert "magicfs drop" in out
    assert main(["verify", url, "--deep", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["read"], len(found["damaged"]), len(found["advice"])) == (2, 1, 2)
    assert "magicfs rollback" in found["advice"][1]
    [key] = found["damaged"]
    assert main(["drop", url, "--where", f"file.key = '{key}'", "--no-keep"]) == 0
    assert main(["verify", url, "--deep"]) == 0


@pytest.mark.parametrize("name", ["a b.csv", "it's 50% + #1.csv", 'a"b$HOME`c\\d!.csv'])
def test_the_command_that_the_advice_names_removes_a_lost_file(name: str) -> None:
    scene = JobScene(DEST)
    scene.published({name: b"1", "kept.csv": b"2"}, unique_names=False)
    scene.delete(name)
    there = magicfs.Dataset(scene.url, filesystem=scene.filesystem)
    command = there.verify().advice[0].partition("from the dataset: ")[2].partition("; then publish")[0]
    program, verb, url, option, where = shlex.split(command)
    assert (program, verb, url, option) == ("magicfs", "drop", scene.url, "--where")
    there.drop(where=where)
    assert [one.key for one in there.files()] == ["kept.csv"]
    assert there.verify().ok
