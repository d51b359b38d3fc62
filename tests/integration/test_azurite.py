"""Azurite as a fixture: it starts where nothing is installed, checks its key, and dies with its parent."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobServiceClient

from proofs.doubles import environments, processes
from proofs.doubles.azurite import Azurite

pytestmark = pytest.mark.nightly


def test_server_leaves_nothing_behind_and_takes_its_own_key_alone() -> None:
    with Azurite() as server:
        server.create_bucket("container")
        server.write("container", "a b%/é#", b"body")
        assert server.all_keys("container") == ["a b%/é#"]
        wrong = server.connection_string().replace(server.key, server.key[::-1].lstrip("=") + "==")
        client = BlobServiceClient.from_connection_string(wrong, retry_total=0)
        with client, pytest.raises(HttpResponseError) as refused:
            client.get_container_client("container").get_container_properties()
        assert refused.value.status_code == 403
        pid, directory, port = server.pid, server.directory, server._port()
    assert not directory.exists()
    assert not Path(f"/proc/{pid}").exists()
    assert processes.port_is_free(port)


def test_server_dies_with_its_parent() -> None:
    code = (
        "import os; from proofs.doubles.azurite import Azurite; "
        "print(Azurite().start().pid, flush=True); os._exit(9)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    pid = int(told.stdout)
    assert told.returncode == 9
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not is_running(pid):
            return
        time.sleep(0.02)
    pytest.fail(f"{pid} still runs")


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.timeout(1800)
def test_node_comes_from_the_index_where_the_machine_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAGICFS_SERVERS_HOME", str(tmp_path))
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name: None if name in {"node", "npm"} else which(name))
    with Azurite() as server:
        assert environments.node(server._home()).is_relative_to(tmp_path)
        server.create_bucket("container")
