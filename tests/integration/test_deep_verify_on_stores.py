"""``verify(deep=True)`` on real servers: by their own checksums where they tell any, else by reading."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import magicfs
from magicfs.stores import resolve
from proofs.scenes.arranged import arranged

pytestmark = pytest.mark.sample(most=1)

NAME = "lake 1/sales +#%ü"
LARGE = bytes(range(256)) * 40_000  # two parts
BY_STORE = {
    # What a server tells without reading: of uploads, of what was put.
    "seaweedfs": (0, 1),
    "ministack": (0, 1),
    "moto": (0, 1),
    "gcs": (2, 1),
    "azurite": (0, 1),
}


@pytest.mark.parametrize("name", BY_STORE)
@pytest.mark.parametrize("small", [None, 1000])
def test_files_are_held_against_their_checksums(
    request: pytest.FixtureRequest, bucket_factory: Callable[..., str], name: str, small: int | None
) -> None:
    server: Any = request.getfixturevalue(name)
    bucket = bucket_factory(server, "deep")
    url, how = f"{server.scheme}://{bucket}/{NAME}", {"storage_options": server.storage_options()}
    files = {"p=1/large a.bin": LARGE, "p=2/one.csv": b"n\n1\n"}
    options: dict[str, Any] = {"part_size": 6 * 2**20, "tracking": "memory", "small_files": small}
    with magicfs.Job(url, **arranged(checksums=True, **options, **how)) as job, job.task(0) as task:
        for one, body in files.items():
            task.filesystem.pipe_file(f"{task.path}/{one}", body)
    uploads, puts = BY_STORE[name]
    expected = uploads if small is None else uploads // 2 + puts
    report = magicfs.Dataset(url, **how).verify(deep=True)
    assert report.ok
    assert (report.by_store, report.read, report.confirmed) == (expected, 2 - expected, 2 - expected)

    [large, one] = sorted(server.visible_keys(bucket, f"{NAME}/"))
    server.write(bucket, one, b"n\n2\n")
    changed = magicfs.Dataset(url, **how).verify(deep=True)
    assert (len(changed.altered), changed.missing, changed.damaged) == (1, (), {})
    server.write(bucket, large, LARGE[:-1])
    resolve.filesystem(server.scheme, server.storage_options()).rm_file(f"{bucket}/{one}")
    worse = magicfs.Dataset(url, **how).verify(deep=True)
    assert (len(worse.altered), len(worse.missing), worse.read, worse.by_store) == (1, 1, 0, 0)
    assert "magicfs rollback" in " ".join(worse.advice)
