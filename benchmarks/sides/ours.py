"""magicfs: everything is measured up to where it is visible."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import magicfs
from benchmarks import data
from benchmarks.clock import Clock
from benchmarks.place import CONCURRENCY, PART_BYTES, Place
from benchmarks.sides.fallbacks import Fallbacks
from proofs.scenes.arranged import arranged

__all__ = ["Ours", "Unsigned"]

Tracking = Literal["bundles", "memory", "store"]
"""How a task remembers its files; with ``bundles`` in memory, small ones whole until the job commit."""

_BUNDLED_BYTES = 256 * 2**10


class Ours:
    """Whole jobs of one task, but for the job commit, which has many."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._options = place.s3fs_options
        self._fallbacks = Fallbacks()

    def versions(self) -> dict[str, str]:
        import s3fs

        return {"magicfs": magicfs.__version__, "s3fs": s3fs.__version__}

    def _told(self, **values: Any) -> dict[str, Any]:
        """What a turn returns: also how many requests went through aiobotocore, by operation."""
        return {"fallbacks": self._fallbacks.taken(), **values}

    def commit(self, clock: Clock, where: str, files: int, tasks: int) -> dict[str, Any]:
        """The job commit of many files, all of them uploads."""
        job = self._job(where, tracking="memory").setup()
        commits = []
        for number in range(tasks):
            task = job.task(number).setup()
            bodies = data.bodies(files // tasks, 1)
            task.filesystem.pipe({f"{task.path}/{name}": body for name, body in bodies.items()})
            commits.append(task.commit())
        with clock("commit"):
            report = job.commit(commits)
        assert report.files == files, report
        return self._told()

    def pipe(self, clock: Clock, where: str, files: int, size: int, tracking: Tracking) -> dict[str, Any]:
        """Many files of one task."""
        bodies = data.bodies(files, size)
        with clock(), self._job(where, **_tracked(tracking)) as job, job.task(0) as task:
            paths = {f"{task.path}/{name}": body for name, body in bodies.items()}
            task.filesystem.pipe(paths, batch_size=CONCURRENCY)
        assert job.report.files == files, job.report
        return self._told()

    def open_files(
        self, clock: Clock, where: str, files: int, size: int, tracking: Tracking
    ) -> dict[str, Any]:
        """The same, each file opened, written and closed by one of some threads."""
        bodies = data.bodies(files, size)

        def write(one: tuple[str, bytes]) -> None:
            with task.filesystem.open(f"{task.path}/{one[0]}", "wb") as file:
                file.write(one[1])

        with (
            clock(),
            self._job(where, **_tracked(tracking)) as job,
            job.task(0) as task,
            ThreadPoolExecutor(CONCURRENCY // 2) as pool,
        ):
            list(pool.map(write, bodies.items()))
        assert job.report.files == files, job.report
        return self._told()

    def one_by_one(
        self, clock: Clock, where: str, files: int, size: int, tracking: Tracking
    ) -> dict[str, Any]:
        """The same, one after the other in one thread."""
        bodies = data.bodies(files, size)
        with clock(), self._job(where, **_tracked(tracking)) as job, job.task(0) as task:
            for name, body in bodies.items():
                with task.filesystem.open(f"{task.path}/{name}", "wb") as file:
                    file.write(body)
        assert job.report.files == files, job.report
        return self._told()

    def stream(self, clock: Clock, where: str, mebibytes: int) -> dict[str, Any]:
        """One large file."""
        with (
            clock(),
            self._job(where, tracking="memory", part_size=PART_BYTES) as job,
            job.task(0) as task,
            task.filesystem.open(f"{task.path}/big.bin", "wb") as file,
        ):
            for block in data.blocks(mebibytes):
                file.write(block)
        return self._told()

    def write_rows(self, clock: Clock, where: str, table: str) -> dict[str, Any]:
        """A dataset of many partitions."""
        import pyarrow.dataset as ds

        rows, partitioning = data.rows(table), data.partitioning()
        with clock("write"), self._job(where, tracking="memory") as job, job.task(0) as task:
            ds.write_dataset(
                *(rows, task.path),
                filesystem=task.arrow_filesystem,
                format="parquet",
                partitioning=partitioning,
                existing_data_behavior="overwrite_or_ignore",
            )
        return self._told()

    def read_rows(self, clock: Clock, where: str) -> dict[str, Any]:
        """The dataset by its manifest, and all its rows."""
        url = f"s3://{self._place.bucket}/{where}"
        with clock("read"):
            found = magicfs.Dataset(url, storage_options=self._options).to_arrow().to_table()
        self._fallbacks.taken()  # s3fs reads the files
        return {"rows": found.num_rows}

    def _job(self, where: str, **options: Any) -> magicfs.Job:
        return magicfs.Job(
            f"s3://{self._place.bucket}/{where}",
            mode="append",
            concurrency=CONCURRENCY,
            storage_options=self._options,
            **arranged(**options),
        )


class Unsigned(Ours):
    """With signatures that leave bodies out, as those of pyarrow and obstore do."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        config = self._options["config_kwargs"] | {"s3": {"payload_signing_enabled": False}}
        self._options |= {"config_kwargs": config}


def _tracked(tracking: Tracking) -> dict[str, Any]:
    """The arguments of a job."""
    if tracking == "bundles":
        return {"tracking": "memory", "small_files": _BUNDLED_BYTES}
    return {"tracking": tracking}
