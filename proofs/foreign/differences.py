"""What ends otherwise when a library writes through a task, and why; each is met in every run."""

from __future__ import annotations

from proofs.foreign.comparison import Difference

__all__ = ["DIFFERENCES"]

DIFFERENCES = (
    Difference(
        "dask",
        (
            "test_csv.py::test_to_single_csv",
            "test_csv.py::test_to_csv_with_single_file_and_exclusive_mode",
            "test_csv.py::test_to_csv_single_file_exclusive_mode_no_overwrite",
            "test_csv.py::test_to_single_csv_gzip",
            "test_csv.py::test_to_csv_with_single_file_and_append_mode",
        ),
        plain="passed",
        through="failed",
        reason="to_csv(single_file=True) opens its file again for each partition, to append; the parts of a "
        "delayed upload cannot be changed, and mode 'at' is refused by name",
    ),
)
