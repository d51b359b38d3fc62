"""Which suites are run: those of each library that write through fsspec."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

__all__ = ["LANES", "SUITES", "Suites"]

_NO_NETWORK = ("-m", "not network")


@dataclass(frozen=True)
class Suites:
    """The suites of one library."""

    library: str
    files: tuple[str, ...]  # or single tests of them, below the root
    in_wheel: bool = True
    options: tuple[str, ...] = ()  # of pytest
    server_port: int | None = None  # where they expect an S3 server that they cannot start

    @property
    def version(self) -> str:
        """The installed release, whose suites are run."""
        return metadata.version(self.library)

    def root(self, work: Path) -> Path:
        """The directory that holds the suites; downloaded if the wheel has none.

        Raises CalledProcessError if the index does not have the sources.
        """
        if self.in_wheel:
            return Path(str(metadata.distribution(self.library).locate_file("")))
        name = f"{self.library}-{self.version}"
        archive = work / f"{name}.tar.gz"
        if not archive.exists():
            pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
            asked = ("--no-deps", "--no-binary", self.library, f"{self.library}=={self.version}")
            subprocess.run([*pip, "--dest", str(work), *asked], check=True, stdout=sys.stderr)  # noqa: S603
        with tarfile.open(archive) as opened:
            opened.extractall(work, filter="data")
        return work / name


_PANDAS = Suites(
    "pandas",
    (
        "pandas/tests/io/test_fsspec.py",
        "pandas/tests/io/test_s3.py",
        "pandas/tests/io/test_gcs.py",
        "pandas/tests/io/test_parquet.py",
        "pandas/tests/io/test_compression.py",
        "pandas/tests/io/json/test_compression.py",
        "pandas/tests/io/json/test_pandas.py::TestPandasContainer::test_to_s3",
        "pandas/tests/io/excel/test_style.py::test_styler_to_s3",
        "pandas/tests/io/test_pickle.py::test_pickle_fsspec_roundtrip",
    ),
    # The wheel has no data files; tests that only read them are skipped.
    options=(*_NO_NETWORK, "--no-strict-data-files"),
)
_DASK = Suites(
    "dask",
    (
        "dask/bytes/tests/test_s3.py",
        "dask/bytes/tests/test_local.py",
        "dask/bytes/tests/test_bytes_utils.py",
        "dask/bag/tests/test_avro.py",
        "dask/bag/tests/test_text.py",
        "dask/dataframe/io/tests/test_csv.py",
        "dask/dataframe/io/tests/test_json.py",
        "dask/dataframe/io/tests/test_parquet.py",
        "dask/dataframe/dask_expr/io/tests/test_parquet.py",
    ),
    options=_NO_NETWORK,
    # It calls moto_server with an argument that moto no longer has.
    server_port=5555,
)
_ZARR = Suites(
    "zarr",
    ("tests/test_store/test_fsspec.py",),
    in_wheel=False,
    options=(
        *("-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function"),
        "--import-mode=importlib",  # they are a package that is called tests
    ),
)

SUITES = (_PANDAS, _DASK, _ZARR)
LANES = ((_PANDAS,), (_DASK, _ZARR))
"""What may run beside each other: dask and zarr both take port 5555."""
