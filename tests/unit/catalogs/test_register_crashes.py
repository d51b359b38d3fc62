"""A call that dies before or after any of its writes, and is repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import deltalake.transaction
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.fsspec import FsspecFileIO

from magicfs.catalogs import SymlinkManifest, delta
from magicfs.catalogs.register import show
from magicfs.datasets.connection import open_destination
from magicfs.testing.store_faults import Crash, Fault, Kind
from proofs.scenes.catalog_scene import CatalogScene, parquet
from proofs.scenes.job_scene import JobScene

pytestmark = pytest.mark.sample(most=2)

NEW = {"p=a b/f 1.parquet": parquet(1), "p=día #%/f.parquet": parquet(2)}
LATER = (
    ("append", {"p=+/g.parquet": parquet(3, z=["x"])}),
    ("overwrite", {"p=a b/f 1.parquet": parquet(4)}),
)


class Moments:
    """Counts what a process does; at one of them it dies."""

    def __init__(self, dies_at: int) -> None:
        self.dies_at = dies_at
        self.passed = 0

    def __call__(self) -> None:
        self.passed += 1
        if self.passed == self.dies_at:
            raise Crash

    def around(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            self()
            result = work(*args, **kwargs)
            self()
            return result

        return watched


@contextmanager
def watched_writes(monkeypatch: pytest.MonkeyPatch, moments: Moments) -> Iterator[None]:
    """Every write of Delta and Iceberg becomes two moments: before it and after it."""
    with monkeypatch.context() as patch:
        mark = delta.mark

        async def watched_mark(*args: Any) -> None:
            moments()
            await mark(*args)
            moments()

        patch.setattr(delta, "mark", watched_mark)
        create = deltalake.transaction.create_table_with_add_actions
        patch.setattr(deltalake.transaction, "create_table_with_add_actions", moments.around(create))
        table = deltalake.DeltaTable
        patch.setattr(table, "create_write_transaction", moments.around(table.create_write_transaction))
        add = deltalake.table.TableAlterer.add_columns
        patch.setattr(deltalake.table.TableAlterer, "add_columns", moments.around(add))
        patch.setattr(FsspecFileIO, "new_output", moments.around(FsspecFileIO.new_output))
        patch.setattr(SqlCatalog, "commit_table", moments.around(SqlCatalog.commit_table))
        yield


def dies(scene: CatalogScene, kind: str, monkeypatch: pytest.MonkeyPatch, at: int) -> bool:
    """Register in a process that dies at a moment; False if it has come to its end."""
    with watched_writes(monkeypatch, Moments(at)):
        try:
            scene.register(kind)
        except Crash:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("later", [None, *LATER], ids=["new", "append", "overwrite"])
def test_a_call_that_dies_anywhere_is_repeated(
    tmp_path: Path, kind: str, later: Any, monkeypatch: pytest.MonkeyPatch
):
    def begun(name: str) -> tuple[CatalogScene, list[str] | None]:
        """A dataset that is to be registered, and what the table shows."""
        (tmp_path / name / "catalog").mkdir(parents=True)
        scene = CatalogScene(f"{tmp_path}/{name}/día 50% + #1/sales", tmp_path / name / "catalog")
        scene.publish(NEW)
        if later is None:
            return scene, None
        scene.register(kind)
        before = shown(scene, kind)
        scene.publish(later[1], mode=later[0], keep="1d" if later[0] == "overwrite" else None)
        return scene, before

    scene, before = begun("undisturbed")
    scene.register(kind)
    after = shown(scene, kind)
    at, died = 0, True
    while died:
        at += 1
        scene, _ = begun(f"{at}")
        died = dies(scene, kind, monkeypatch, at)
        if died and before is not None:
            assert shown(scene, kind) in (before, after)
        scene.register(kind)
        assert shown(scene, kind) == after
        assert not scene.register(kind).changed
    assert at > 4


def shown(scene: CatalogScene, kind: str) -> list[str]:
    """The rows of a table, whether or not the column that comes later is there already."""
    return [row.replace(", ('z', None)", "") for row in scene.table_rows(kind)]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
def test_symlinks_of_a_call_that_dies_at_any_request(kind: Kind):
    number, died = 0, True
    while died:
        number += 1
        scene = JobScene("env=prod/día 50% + #1")
        scene.published({"p=1/f.parquet": b"1", "p=2/f.parquet": b"2", "p=3/f.parquet": b"3"})
        assert called(scene)
        scene.published({"p=1/f.parquet": b"4", "p=4/f.parquet": b"4"}, mode="overwrite")
        died = not called(scene, Fault(kind, number=number))
        assert called(scene)
        assert lines(scene) == scene.manifest_files()
    assert number > 10


def called(scene: JobScene, *faults: Fault) -> bool:
    place = open_destination(scene.url, None, scene.filesystem, for_reading=True)
    try:
        show(replace(place, engine=scene.engine(scene.traffic(*faults))), SymlinkManifest())
    except Crash:
        return False
    return True


def lines(scene: JobScene) -> set[str]:
    """What all symlink manifests name, relative to the destination."""
    found = [
        scene.objects()[f"{scene.destination}/{one}"][0] for one in scene.below("_symlink_format_manifest")
    ]
    return {line.removeprefix(f"{scene.url}/") for body in found for line in body.decode().splitlines()}
