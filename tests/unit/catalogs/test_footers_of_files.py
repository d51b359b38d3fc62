"""Footers of files that are registered: from the manifests as far as these know them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import magicfs
from proofs.scenes.catalog_scene import CatalogScene, parquet


@pytest.fixture
def scene(tmp_path: Path) -> CatalogScene:
    (tmp_path / "catalog").mkdir()
    return CatalogScene(f"{tmp_path}/día 50% + #1/sales", tmp_path / "catalog")


@contextmanager
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The files whose footers are read."""
    found: list[Any] = []
    with monkeypatch.context() as patch:
        read = pq.read_metadata

        def watched(file: Any, *args: Any, **how: Any) -> Any:
            found.append(file)
            return read(file, *args, **how)

        patch.setattr(pq, "read_metadata", watched)
        yield found


FILES = {f"p={part}/f {number}.parquet": parquet(number) for part in "ab" for number in range(4)}


def test_one_file_is_opened_for_all_that_have_the_same_columns(
    scene: CatalogScene, monkeypatch: pytest.MonkeyPatch
):
    scene.publish({**FILES, "p=a/a.parquet": parquet(9, z=["x"])}, footers=True)
    with opened(monkeypatch) as found:
        scene.register("delta")
    assert len(found) == 2
    assert scene.table_rows("delta") == scene.rows()


def test_files_of_which_nothing_is_known_are_opened(scene: CatalogScene, monkeypatch: pytest.MonkeyPatch):
    scene.publish(FILES, footers=True)
    scene.publish({"p=b/g.parquet": parquet(5), "p=c/g.parquet": parquet(6)}, mode="append")
    with opened(monkeypatch) as found:
        scene.register("delta")
    assert len(found) == 3
    assert scene.table_rows("delta") == scene.rows()


def test_after_a_rollback_and_a_sum_they_are_found_as_well(
    scene: CatalogScene, monkeypatch: pytest.MonkeyPatch
):
    first = scene.publish(FILES, footers=True)
    scene.publish({"p=a/new.parquet": parquet(7)}, mode="overwrite", keep="1d", footers=True)
    scene.rollback(first)
    magicfs.Dataset(scene.url).compact()
    with opened(monkeypatch) as found:
        scene.register("delta")
    assert len(found) == 1
    assert scene.table_rows("delta") == scene.rows()


def test_a_list_of_footers_that_is_lost_is_no_loss(scene: CatalogScene, monkeypatch: pytest.MonkeyPatch):
    scene.publish(FILES, footers=True)
    [lost] = Path(scene.url).rglob("footers-*.json")
    lost.unlink()
    with opened(monkeypatch) as found:
        scene.register("delta")
    assert len(found) == len(FILES)
    assert scene.table_rows("delta") == scene.rows()
