"""``docs/maintenance.md``: its policy is one, and each line for a scheduler runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import magicfs
from magicfs.past.retention import Keep
from magicfs.upkeep.policy import read_policy

PAGE = (Path(__file__).parents[2] / "docs/maintenance.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, flags=re.DOTALL)
ENTRY = "import sys; from magicfs.cli.main import main; sys.exit(main(sys.argv[1:]))"


def blocks(language: str) -> list[str]:
    return [text for name, text in BLOCKS if name == language]


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    """The commands of all schedulers, for a dataset and a policy that are here."""
    [policy] = blocks("toml")
    (tmp_path / "policy.toml").write_text(policy)
    with magicfs.Job(f"{tmp_path}/bucket/sales", committer="magic") as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.bin", b"1")
    cron, airflow = blocks("")
    service, _ = blocks("ini")
    [command] = re.findall(r"command: \[(.*)\]", blocks("yaml")[0])
    found = [
        *blocks("sh")[0].splitlines(),
        cron.split(maxsplit=5)[5],
        re.search(r"^ExecStart=(.*)$", service, flags=re.MULTILINE)[1],  # type: ignore[index]
        command.replace(",", "").replace('"', ""),
        re.search(r'bash_command="([^"]*)"', airflow)[1],  # type: ignore[index]
    ]
    here = {
        "s3://bucket": f"{tmp_path}/bucket",
        "/etc/magicfs/policy.toml": "policy.toml",
        "/var/log": str(tmp_path),
        "/tmp/maintain.lock": f"{tmp_path}/lock",
    }
    for old, new in here.items():
        found = [line.replace(old, new) for line in found]
    return found


@pytest.mark.process
def test_each_line_runs(lines: list[str], tmp_path: Path) -> None:
    command = tmp_path / "bin/magicfs"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(ENTRY)} "$@"\n')
    command.chmod(0o755)
    way = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}
    assert len(lines) == 6
    for line in lines:
        if "flock" in line and shutil.which("flock") is None:
            continue
        done = subprocess.run(
            ["/bin/sh", "-c", line], cwd=tmp_path, env=way, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), line
        if "--json" in line and ">>" not in line:
            assert json.loads(done.stdout)["exit_status"] == 0


def test_the_policy_says_what_the_page_says(tmp_path: Path) -> None:
    [policy] = blocks("toml")
    (tmp_path / "policy.toml").write_text(policy)
    found = read_policy(str(tmp_path / "policy.toml"))
    assert [*found.parts] == ["recover", "rewrite", "expire", "compact", "catalogs", "sweep"]
    assert found.parts["expire"] == {"expire_keep": Keep(daily=7, weekly=5, tagged=True)}
    for rule in re.findall(r"`(daily=[^`]*)`", PAGE):
        assert Keep.of("keep", rule) == Keep(daily=7, weekly=5, tagged=True)


@pytest.mark.process
def test_systemd_takes_its_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd here")
    service, timer = blocks("ini")
    (tmp_path / "magicfs-maintain.service").write_text(service)
    (tmp_path / "magicfs-maintain.timer").write_text(timer)
    units = sorted(map(str, tmp_path.glob("magicfs-maintain.*")))
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_has_at_most_500_words() -> None:
    text = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    assert len(re.findall(r"\S*\w\S*", text)) <= 500
