import subprocess
import sys
from pathlib import Path

import pytest

from magicfs.testing import ceph_cluster


def ended(tmp_path: Path) -> subprocess.Popen[bytes]:
    monitoring = subprocess.Popen([sys.executable, "-c", ""], cwd=tmp_path)
    monitoring.wait()
    return monitoring


@pytest.mark.process
class TestMonitor:
    def test_monitor_that_ended_itself_is_named_with_the_end_of_its_log(self, tmp_path: Path):
        log = tmp_path / "mon.a.log"
        log.write_text("began\n" * 50 + "only 6 MB available\nshutting down\n", encoding="utf-8")
        with pytest.raises(
            SystemExit, match=r"(?s)ended by itself.*only 6 MB available\nshutting down$"
        ) as told:
            ceph_cluster._run_until_done(ended(tmp_path), log, sys.executable, "-c", "raise SystemExit(1)")
        assert len(str(told.value).splitlines()) == 1 + ceph_cluster._TOLD

    def test_monitor_that_ended_without_a_log_is_named(self, tmp_path: Path):
        with pytest.raises(SystemExit, match="ended by itself"):
            ceph_cluster._run_until_done(
                ended(tmp_path), tmp_path / "none", sys.executable, "-c", "raise SystemExit(1)"
            )

    def test_command_is_repeated_until_it_succeeds(self, tmp_path: Path):
        seen = tmp_path / "seen"
        program = (
            "import pathlib, sys; seen = pathlib.Path(sys.argv[1]); "
            "known = seen.exists(); seen.touch(); sys.exit(not known)"
        )
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as monitoring:
            ceph_cluster._run_until_done(
                monitoring, tmp_path / "none", sys.executable, "-c", program, str(seen)
            )
            assert monitoring.poll() is None
            monitoring.kill()
        assert seen.exists()
