"""Build the sdist and the wheel, look into both, and use the wheel alone on each Python that is here."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from proofs.release import say
from proofs.release.contents import faults_of_sdist, faults_of_wheel

ROOT: Final = Path(__file__).parents[2]
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
_WHEEL_ALONE: Final = Path(__file__).with_name("wheel_alone.py")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all checks. Returns 0 if none of them found anything."""
    parser = argparse.ArgumentParser(prog="tox run -e dist --", description=__doc__)
    parser.add_argument("--out", type=Path, help="keep what is built in this empty directory")
    parser.add_argument(
        "--python", nargs="+", metavar="VERSION", help="Pythons that must be here; by default those that are"
    )
    wanted = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        built = Path(wanted.out or scratch, "." if wanted.out else "dist").absolute()
        if built.is_dir() and any(built.iterdir()):
            parser.error(f"{built} is not empty; remove what is there, or name another directory")
        _run(sys.executable, "-m", "build", "--outdir", str(built), str(ROOT))
        [sdist], [wheel] = built.glob("*.tar.gz"), built.glob("*.whl")
        faults = [*faults_of_sdist(sdist, ROOT), *faults_of_wheel(wheel, ROOT)]
        for fault in faults:
            say(f"FAULT: {fault}")
        _run(sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel))
        used = [
            python
            for python in wanted.python or PYTHONS
            if _used_alone(wheel, python, Path(scratch, f"python-{python}"), must=bool(wanted.python))
        ]
        say(f"{sdist.name}: {sdist.stat().st_size:,} bytes; {wheel.name}: {wheel.stat().st_size:,} bytes")
        say(f"used alone on Python {', '.join(used) or 'none'}; {len(faults)} faults in the contents")
    return 1 if faults or not used else 0


def _used_alone(wheel: Path, python: str, place: Path, *, must: bool) -> bool:
    """Install the wheel into an empty environment and use it there; false if there is no such Python."""
    made = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "virtualenv", "--quiet", "--python", python, str(place)],
        check=False,
        capture_output=True,
        text=True,
    )
    if made.returncode:
        say(f"Python {python} is not here, or makes no environments")
        if must:
            raise SystemExit(made.stderr or made.stdout)
        return False
    bin_ = place / ("Scripts" if os.name == "nt" else "bin")
    inside = str(bin_ / "python")
    _run(inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    # Isolated, and from another directory: nothing of this clone is on the path.
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    script = str(shutil.copy(_WHEEL_ALONE, elsewhere))
    _run(inside, "-I", "-W", "error", script, wheel.name.split("-")[1], directory=elsewhere)
    _run(str(bin_ / "magicfs"), "--help", directory=elsewhere, quiet=True)
    return True


def _run(*command: str, directory: Path | None = None, quiet: bool = False) -> None:
    done = subprocess.run(  # noqa: S603
        command, check=False, cwd=directory, stdout=subprocess.DEVNULL if quiet else None
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
