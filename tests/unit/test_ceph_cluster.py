from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from proofs.doubles import ceph_cluster

FAILING = (sys.executable, "-c", "raise SystemExit(1)")


def ended() -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process


@pytest.mark.process
class TestMonitor:
    def test_monitor_that_ended_itself_is_named_with_the_end_of_its_log(self, tmp_path: Path) -> None:
        log = tmp_path / "mon.a.log"
        log.write_text("began\n" * 50 + "only 6 MB available\nshutting down\n", encoding="utf-8")
        named = r"(?s)ended by itself.*only 6 MB available\nshutting down$"
        with pytest.raises(SystemExit, match=named) as told:
            ceph_cluster._run_until_done(ended(), log, *FAILING)
        assert len(str(told.value).splitlines()) == 1 + ceph_cluster._LOG_TAIL_LINES

    def test_monitor_that_ended_without_a_log_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(SystemExit, match="ended by itself"):
            ceph_cluster._run_until_done(ended(), tmp_path / "none", *FAILING)

    def test_command_is_repeated_until_it_succeeds(self, tmp_path: Path) -> None:
        seen = tmp_path / "seen"
        program = (
            "import pathlib, sys; seen = pathlib.Path(sys.argv[1]); "
            "known = seen.exists(); seen.touch(); sys.exit(not known)"
        )
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
            ceph_cluster._run_until_done(process, tmp_path / "none", sys.executable, "-c", program, str(seen))
            assert process.poll() is None
            process.kill()
        assert seen.exists()
