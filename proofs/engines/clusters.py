"""Clusters of two workers, which outlive the drivers that use them."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

__all__ = ["CLUSTERS", "DISTRIBUTIONS"]

DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {
    "dask": ("dask", "distributed"),
    "dask map": ("distributed",),
    "ray": ("ray",),
    "ray map": ("ray",),
    "daft": ("daft", "ray"),
    "processes": (),
    "shell": (),
    "polars": ("polars",),
    "duckdb": ("duckdb",),
}
"""What each engine is made of."""


@contextmanager
def _dask() -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        yield cluster.scheduler_address


@contextmanager
def _ray() -> Iterator[str]:
    from ray.cluster_utils import Cluster

    # A short name: Ray makes Unix sockets below it.
    directory = tempfile.mkdtemp(prefix="mfs-ray-")
    # There Ray notes the address, whatever ``temp_dir`` says, and makes no directory for it.
    Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir(), "ray").mkdir(exist_ok=True)
    node = {"num_cpus": 1, "object_store_memory": 200 * 1024 * 1024, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node | {"temp_dir": directory})
    try:
        cluster.add_node(**node)
        cluster.wait_for_nodes()
        yield cluster.address
    finally:
        cluster.shutdown()
        shutil.rmtree(directory, ignore_errors=True)
        sys.stderr.flush()


CLUSTERS: Mapping[str, Callable[[], AbstractContextManager[str]]] = {
    "dask": _dask,
    "dask map": _dask,
    "ray": _ray,
    "ray map": _ray,
    "daft": _ray,
    **dict.fromkeys(("processes", "shell", "polars", "duckdb"), lambda: nullcontext("")),
}
