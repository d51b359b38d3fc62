"""pandas 2.2, which wants a scheme before ``://``, writes through a task and by ``magicfs.write``."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import magicfs
from proofs.doubles import environments
from proofs.doubles.servers import Server

_REQUIREMENTS = ("pandas==2.2.3", "httptools", "s3fs>=2025.12", "pyarrow>=22", "tenacity>=9")
_CODE = """
import json, sys
sys.path.append(sys.argv[1])
import magicfs, magicfs.filesystem
import pandas as pd

url, options = sys.argv[2], json.loads(sys.argv[3])
assert pd.__version__.startswith("2.2."), pd.__version__
frame = pd.DataFrame({"day": ["mon", "a b"], "n": [0, 1]})
with magicfs.Job(f"{url}/by pandas", storage_options=options) as job, job.task(0) as task:
    assert task.url("x").startswith("magic+s3://"), task.url("x")
    frame.to_parquet(task.url("part.parquet"), storage_options=task.storage_options)
    frame.to_csv(task.url("part.csv.gz"), storage_options=task.storage_options, index=False)
print(magicfs.write(frame, f"{url}/written", partition_by="day", storage_options=options).rows)
"""


@pytest.mark.nightly
def test_pandas_2_2_writes_as_pandas_3_does(
    ministack: Server, bucket_factory: Callable[..., str], tmp_path: Path
) -> None:
    bucket = bucket_factory(ministack)
    python = environments.ensure("pandas-2.2", _REQUIREMENTS) / "bin" / "python"
    source, options = Path(magicfs.__file__).parents[1], ministack.storage_options()
    shown = subprocess.run(
        [python, "-c", _CODE, source, f"s3://{bucket}/pandas", json.dumps(options)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.split() == ["2"]
    keys = ministack.visible_keys(bucket, "pandas/by pandas/")
    assert sorted(key.partition(".")[2] for key in keys) == ["csv.gz", "parquet"]
    found = magicfs.Dataset(f"s3://{bucket}/pandas/written", storage_options=options).to_arrow().to_table()
    assert sorted(found["n"].to_pylist()) == [0, 1]
