from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from proofs.doubles import environments, fixtures
from proofs.doubles.environments import EnvironmentNotMade

pytest_plugins = ["pytester"]


def make_wheel(directory: Path, name: str) -> str:
    wheel = directory / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", "")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return str(wheel)


@pytest.fixture
def servers_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAGICFS_SERVERS_HOME", str(tmp_path / "servers"))
    return tmp_path / "servers"


@pytest.mark.nightly
def test_an_environment_is_made_once_by_whoever_comes_first(servers_home: Path, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "tinything")
    program = f"from proofs.doubles.environments import ensure; print(ensure('tiny', ({wheel!r},)))"
    runs = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    found = {run.communicate()[0].strip() for run in runs}
    assert [run.returncode for run in runs] == [0, 0, 0]
    (directory,) = map(Path, found)
    assert directory.parent == servers_home
    subprocess.run([directory / "bin" / "python", "-I", "-c", "import tinything"], check=True)
    made = (directory / ".complete").stat().st_mtime_ns
    assert environments.ensure("tiny", (wheel,)) == directory
    assert (directory / ".complete").stat().st_mtime_ns == made


@pytest.mark.nightly
def test_a_half_made_environment_is_made_again(servers_home: Path, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "tinything")
    directory = environments.ensure("tiny", (wheel,))
    (directory / ".complete").unlink()
    (directory / "rubbish").touch()
    assert environments.ensure("tiny", (wheel,)) == directory
    assert not (directory / "rubbish").exists()
    assert environments.ensure("tiny", (make_wheel(tmp_path, "other"),)) != directory


@pytest.mark.nightly
def test_a_failed_installation_is_explained_and_not_kept(servers_home: Path, tmp_path: Path) -> None:
    wheel = tmp_path / "tinything-1.0-py3-none-any.whl"
    with pytest.raises(EnvironmentNotMade, match="pip could not install") as failed:
        environments.ensure("tiny", (str(wheel),))
    assert "does not exist" in str(failed.value) or "No such file" in str(failed.value)
    make_wheel(tmp_path, "tinything")
    assert environments.ensure("tiny", (str(wheel),)).is_dir()


@pytest.mark.nightly
def test_a_server_with_pinned_versions_installs_those_and_nothing_without_a_hash(
    servers_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = Path(make_wheel(tmp_path, "tinything"))
    monkeypatch.setattr(environments, "_PINNED", tmp_path)
    monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "of-our-own.txt"))
    (tmp_path / "tiny.txt").write_text(f"{wheel.as_uri()}\n")
    with pytest.raises(EnvironmentNotMade, match="require-hashes"):
        environments.ensure("tiny", ("tinything",))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (tmp_path / "tiny.txt").write_text(f"{wheel.as_uri()} --hash=sha256:{digest}\n")
    directory = environments.ensure("tiny", ("tinything",))
    subprocess.run([directory / "bin" / "python", "-I", "-c", "import tinything"], check=True)


def without_ensurepip(monkeypatch: pytest.MonkeyPatch) -> None:
    run = environments._run

    def no_venv(*command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        if command[1:3] == ("-m", "venv"):
            return subprocess.CompletedProcess(command, 1, stdout="... because ensurepip is not available.")
        return run(*command, **options)

    monkeypatch.setattr(environments, "_run", no_venv)


def test_virtualenv_helps_where_ensurepip_is_missing(
    servers_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ensurepip(monkeypatch)
    assert (environments.ensure("tiny", (make_wheel(tmp_path, "tinything"),)) / "bin" / "python").exists()


def test_without_ensurepip_and_virtualenv_the_package_is_named(
    servers_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_ensurepip(monkeypatch)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EnvironmentNotMade, match="python3-venv"):
        environments.ensure("tiny", ("anything",))


def test_a_server_that_cannot_be_installed_is_tried_once_a_session(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    class Unknown:
        def __enter__(self) -> None:
            tries.append(1)
            raise EnvironmentNotMade("no such package")

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setitem(fixtures._KINDS, "unknown", Unknown)
    pytester.makepyfile("".join(f"def test_{n}(server): server('unknown')\n" for n in range(3)))
    result = pytester.runpytest_inprocess("-p", "proofs.doubles.fixtures", "-p", "no:randomly")
    result.assert_outcomes(failed=3)
    assert len(tries) == 1
