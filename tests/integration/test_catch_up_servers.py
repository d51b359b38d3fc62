"""Drivers killed between publication and registration, on real servers: ``magicfs recover`` registers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import botocore.session
import pytest

from proofs.doubles.servers import Server
from proofs.scenes.catalog_scene import FSSPEC, CatalogScene, parquet

# tests/unit/catalogs/test_register_crashes.py asks the same in memory.
pytestmark = pytest.mark.nightly

FILES = {"p=a b/f 1 é.parquet": parquet(1), "p=+/f.parquet": parquet(2)}

DRIVER = """
import json, os, signal, sys
import botocore.session
from pyiceberg.catalog import load_catalog
import magicfs
from magicfs.catalogs import Delta, Glue, Iceberg, SymlinkManifest

url, options, catalogs = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
sys.modules["magicfs.catalogs.register"].show = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
job = magicfs.Job(url, mode="append", run_id="late", catalogs=eval(catalogs), storage_options=options)
with job, job.task(0) as task:
    task.filesystem.pipe_file(f"{task.path}/p=late/f.parquet", bytes.fromhex(sys.argv[4]))
"""


def killed(scene: CatalogScene, catalogs: str) -> None:
    """A driver that publishes, and is killed by SIGKILL before the first of its catalogs shows that."""
    words = [scene.url, json.dumps(scene.options), catalogs, parquet(9).hex()]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, *words], capture_output=True, timeout=180, check=False
    )
    assert done.returncode == -9, done.stderr.decode()[-2000:]


def recovered(scene: CatalogScene) -> tuple[int, dict[str, str]]:
    """What ``magicfs recover`` says of each catalog, in a process of its own, and its exit status."""
    command = [sys.executable, "-m", "magicfs.cli", "recover", scene.url, "--json"]
    done = subprocess.run(command, capture_output=True, timeout=180, check=False)
    assert done.stdout, done.stderr.decode()
    told = json.loads(done.stdout)
    return done.returncode, {one["catalog"]: one["done"] for one in told.get("catalogs", ())}


def environment(monkeypatch: pytest.MonkeyPatch, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


def test_symlinks_delta_and_iceberg(
    seaweedfs: Server,
    bucket_factory: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    s3 = {
        "s3.endpoint": seaweedfs.endpoint,
        "s3.access-key-id": seaweedfs.access_key,
        "s3.secret-access-key": seaweedfs.secret_key,
        "s3.region": seaweedfs.region,
    }
    url = f"s3://{bucket_factory(seaweedfs)}/env=prod/día 50% + #1"
    scene = CatalogScene(url, tmp_path, seaweedfs.storage_options(), s3)
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
        "py-io-impl": FSSPEC,
        **s3,
    }
    names = {name: name.upper().replace(".", "__").replace("-", "_") for name in catalog}
    environment(monkeypatch, seaweedfs.environment())
    environment(monkeypatch, {f"PYICEBERG_CATALOG__DEFAULT__{names[one]}": catalog[one] for one in catalog})
    kinds = ("symlink", "delta", "iceberg")
    scene.publish(FILES)
    for kind in kinds:
        scene.register(kind)
    before = scene.rows()
    killed(scene, "[SymlinkManifest(), Delta(), Iceberg(load_catalog('default'), 'db.sales')]")
    assert len(scene.rows()) == 3
    assert [scene.table_rows(kind) for kind in kinds] == [before] * 3
    assert recovered(scene) == (0, dict.fromkeys(kinds, "registered"))
    assert [scene.table_rows(kind) for kind in kinds] == [scene.rows()] * 3
    assert recovered(scene) == (0, {})


def test_glue(
    moto: Server,
    bucket_factory: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    environment(
        monkeypatch,
        {**moto.environment(), "AWS_ENDPOINT_URL_GLUE": moto.endpoint},
    )
    client: Any = botocore.session.get_session().create_client("glue")
    client.create_database(DatabaseInput={"Name": "late"})
    url = f"s3://{bucket_factory(moto)}/env=prod/día 50% + #1"
    scene = CatalogScene(url, tmp_path, moto.storage_options())
    scene.publish(FILES)
    killed(scene, "[Glue(botocore.session.get_session().create_client('glue'), 'late', 'sales')]")
    assert client.get_tables(DatabaseName="late")["TableList"] == []
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", "http://127.0.0.1:9")
    assert recovered(scene) == (1, {"glue": "not registered"}), "it is the catalog of somebody else"
    monkeypatch.setenv("AWS_ENDPOINT_URL_GLUE", moto.endpoint)
    assert recovered(scene) == (0, {"glue": "registered"})
    found = client.get_partitions(DatabaseName="late", TableName="sales")["Partitions"]
    assert sorted(one["Values"] for one in found) == [["+"], ["a b"], ["late"]]
    assert scene.table_rows("symlink") == scene.rows()
    assert recovered(scene) == (0, {})
