from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import datasource

from magicfs.errors import UsageError
from pyspark_magic import DefaultSource

HEAVY = {"pyarrow", "pandas", "numpy", "fsspec", "s3fs", "botocore", "aiohttp", "magicfs"}


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_it_imports_nothing_heavy() -> None:
    shown = run("import pyspark_magic, sys; print(*sys.modules)")
    assert not {name.partition(".")[0] for name in shown.split()} & HEAVY


@pytest.mark.parametrize(
    "damage",
    [
        "sys.modules['pyspark'] = None",
        "import pyspark.sql.datasource; del pyspark.sql.datasource.DataSource",
        "sys.modules.update(dict.fromkeys(['magicfs', 'pyarrow', 'fsspec', 'pandas']))",
    ],
)
def test_importing_it_never_fails(damage: str) -> None:
    code = f"import sys\n{damage}\nimport pyspark_magic\nprint(pyspark_magic.DefaultSource.name())"
    assert run(code).strip() == "magic"


def test_it_is_what_spark_looks_for() -> None:
    assert issubclass(DefaultSource, datasource.DataSource)
    assert DefaultSource.name() == "magic"


def test_a_pyspark_without_arrow_writers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(datasource, "DataSourceArrowWriter")
    with pytest.raises(UsageError, match=r"pip install 'pyspark>=4\.1'"):
        DefaultSource({"path": "s3://bucket/x"}).writer(None, overwrite=False)
