"""Every example of every page runs in some test; here are those of pages that have no test of their own."""

from __future__ import annotations

import pickle
import re
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
import safetensors.numpy

import magicfs
from magicfs.errors import AuditFailed, ProtocolViolation
from proofs.scenes.manifests import published_manifest

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "adding-a-committer": "tests/unit/test_adding_a_committer.py",
    "checking": "tests/unit/test_documents.py",
    "catalogs": "tests/unit/catalogs/test_catalogs_document.py",
    "demo": "tests/unit/test_documents.py",
    "engines": "tests/integration/test_engines_document.py",
    "filesystem": "tests/unit/test_documents.py",
    "hadoop": "tests/unit/test_hadoop_document.py",
    "history": "tests/unit/test_history_document.py",
    "manifest-committer": "tests/unit/test_manifest_document.py",
    "manifests": "tests/unit/test_readers.py",
    "quickstart": "tests/unit/test_documents.py",
    "reference": "tests/unit/test_reference_document.py",
    "sealing": "tests/unit/test_seal.py",
    "simple-committers": "tests/unit/test_simple_committers_document.py",
    "spark": "tests/spark/test_spark_documents.py",
    "staging-committers": "tests/unit/test_staging_document.py",
    "streaming": "tests/spark/test_spark_documents.py",
    "testing": "tests/exam/test_testing_document.py",
}
"""Pages whose examples a test of their own runs."""
PROOFS = {
    "checkpoints": ("proofs/checkpoints/libraries.py", {"dcp", "to_zarr"}),
    "dask-ray-daft": ("proofs/engines/drivers.py", {"ddf", "ds", "df"}),
    "schedulers": ("proofs/schedulers/__main__.py", {"airflow", "dagster", "prefect"}),
}
"""Pages of which some examples are run with what they are about, and what these examples speak of."""
TABLE = pa.table({"day": [1, 2], "id": [1, None]})


def examples(page: str) -> list[str]:
    """The Python of a page."""
    text = (ROOT / "docs" / f"{page}.md").read_text()
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def run(code: str, **names: Any) -> dict[str, Any]:
    """Run an example, in a bucket of its own in memory; returns its names."""
    code = re.sub(r"(?:s3|gs|memory)://bucket/", f"memory://{uuid4().hex}/", code)
    names["magicfs"] = magicfs
    exec(compile(code, "example", "exec"), names)
    return names


def test_no_page_has_examples_that_no_test_runs() -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md") if examples(path.stem)}
    here = {"audit", "committers", "footers", "gcs", "job-options", "recovery", "releases"}
    assert pages == here | ELSEWHERE.keys() | PROOFS.keys()
    for page, test in (ELSEWHERE | {page: proof for page, (proof, _) in PROOFS.items()}).items():
        assert f"{page}.md" in (ROOT / test).read_text(), test


def test_options_of_a_job() -> None:
    [code] = examples("job-options")
    assert run(code)["job"].report.files == 1


def test_audited_jobs() -> None:
    code, _ = examples("audit")
    write = "    with job.task(0) as task:\n        pyarrow.dataset.write_dataset("
    write += "table, task.path, filesystem=task.filesystem, format='parquet')\n"
    code, times = re.subn(r"    \.\.\.  # tasks write\n", write, code)
    assert times == 1
    with pytest.raises(AuditFailed, match="id"):
        run(code, table=TABLE, pyarrow=pyarrow)
    assert run(code, table=TABLE.slice(0, 1), pyarrow=pyarrow)["job"].report.files == 1


def test_audited_content() -> None:
    for ids, fails in (([1, 2], False), ([1, 1], True)):
        job = run(examples("audit")[1])["job"].setup()
        with job.task(0) as task:
            pyarrow.parquet.write_table(pa.table({"id": ids}), f"{task.path}/part-0.parquet")
        if fails:
            with pytest.raises(AuditFailed, match="duplicate id"):
                job.commit()
        else:
            assert job.commit().files == 1


def test_extra_destinations_and_attempts(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = examples("committers")
    run(first)
    assert capsys.readouterr().out == "2\n"
    run(second)


def test_footers(capsys: pytest.CaptureFixture[str]) -> None:
    [code] = examples("footers")
    run(code, table=TABLE)
    assert re.fullmatch(r"part-0-\S+\.parquet 2 \w+ 1\n", capsys.readouterr().out)


def test_releases() -> None:
    bucket = uuid4().hex
    names: dict[str, Any] = {"table": TABLE}
    for code in examples("releases"):
        names |= run(code.replace("s3://bucket/", f"memory://{bucket}/"), **names)
    assert names["release"].history()[0].number == 2


def test_gcs() -> None:
    [code] = examples("gcs")
    assert run(code)["job"].spec.options.mode == "append"


def test_options() -> None:
    [code] = examples("job-options")
    assert run(code)["job"].report.files == 1


def test_log(caplog: pytest.LogCaptureFixture) -> None:
    [code] = examples("recovery")
    run(code)
    with caplog.at_level("INFO"):
        magicfs.write(TABLE, f"memory://{uuid4().hex}/sales")
    assert "is set up" in caplog.text


def test_checkpoints_of_any_library(tmp_path: Path) -> None:
    first_code, ranks_code = (code for code in examples("checkpoints") if "safetensors" in code)
    page = run(
        first_code.replace("s3://bucket", f"file://{tmp_path}"), safetensors=safetensors, fsspec=fsspec
    )
    layers = [{f"layer {rank}": np.full(3, rank)} for rank in range(4)]
    assert page["resume"]() == (0, {}), "nothing is published yet"
    for step in (9, 10, 99_999, 999_999, 1_000_000):
        page["save"](step, layers)
        page["keep_last"](3)
        first, tensors = page["resume"]()
        assert (first, sorted(tensors)) == (step + 1, [f"layer {rank}" for rank in range(4)])
    assert list(page["checkpoints"]()) == ["step=99999", "step=999999", "step=1000000"]
    with pytest.raises(ProtocolViolation, match="4"):
        page["save"](1_000_001, layers[:3])
    assert page["resume"]()[0] == 1_000_001, "a checkpoint that lacks a rank is not published"
    magicfs.Dataset(page["url"]).drop(partitions=list(page["checkpoints"]()), keep=None)
    assert page["resume"]() == (0, {}), "everything was dropped"
    with Ranks(4) as ranks:
        page |= run(ranks_code, **page, nullcontext=nullcontext, bcast=ranks.bcast, gather=ranks.gather)
        done = [ranks.submit(page["save_from_rank"], rank, 4, 7, layers[rank]) for rank in range(4)]
        assert [one.result() for one in done] == [None] * 4
    first, tensors = page["resume"]()
    assert first == 8
    assert {name: value.tolist() for name, value in tensors.items()} == {
        f"layer {rank}": [rank] * 3 for rank in range(4)
    }


class Ranks(ThreadPoolExecutor):
    """Threads for ranks; what they send each other is pickled."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._barrier = threading.Barrier(number, timeout=60)
        self._sent: dict[int, bytes] = {}

    def bcast(self, value: object) -> Any:
        """What the one rank that has something sends to all."""
        if value is not None:
            self._sent[-1] = pickle.dumps(value)
        self._barrier.wait()
        return value or pickle.loads(self._sent[-1])

    def gather(self, value: object) -> list[Any]:
        """What all send."""
        self._sent[threading.get_ident()] = pickle.dumps(value)
        self._barrier.wait()
        return [pickle.loads(sent) for rank, sent in self._sent.items() if rank != -1]


def write(task: magicfs.Task) -> None:
    task.filesystem.pipe_file(f"{task.path}/part.txt", task.id.encode())


@pytest.mark.process
def test_process_pools(tmp_path: Path) -> None:
    [code] = [code for code in examples("dask-ray-daft") if "ProcessPoolExecutor" in code]
    code = code.replace("s3://bucket", f"file://{tmp_path}").replace("range(100)", "range(3)")
    run(code, write=sys.modules[__name__].write, ProcessPoolExecutor=ProcessPoolExecutor)
    assert len(published_manifest(f"file://{tmp_path}/sales").files) == 3


def test_notifications(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr("magicfs.notify.notifiers.post", lambda url, *_: sent.append(url))
    [code] = [code for code in examples("schedulers") if "Webhook" in words(code)]
    job = run(code)["job"]
    assert not job.report.warnings
    assert sent == ["https://hooks.example/sales", "https://marquez.example/api/v1/lineage"]
    assert job.id in capsys.readouterr().out


@pytest.mark.parametrize("page", PROOFS)
def test_all_other_examples_of_a_page_are_those_of_its_proof(page: str) -> None:
    _, subjects = PROOFS[page]
    here = {"safetensors", "ProcessPoolExecutor", "Webhook"}
    left = [code for code in examples(page) if not here & words(code)]
    assert len(left) == (2 if page == "checkpoints" else 3)
    assert all(words(code) & subjects for code in left)


def words(code: str) -> set[str]:
    return set(re.findall(r"\w+", code))
