"""What has to be in a distribution, and what must not be."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["faults_of_sdist", "faults_of_wheel"]

PACKAGES: Final = frozenset({"magicfs", "pyspark_magic"})
NEEDED: Final = (
    *("CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "SECURITY.md", "pyproject.toml", "setup.cfg"),
    *("tox.ini", "tests/conftest.py", "tests/golden/magicfs_job_1.json", "proofs/__init__.py"),
)
"""Of an sdist: what builds the wheel, and what runs the tests."""
ALLOWED: Final = frozenset(
    {".github", "benchmarks", "docs", "examples", "proofs", "recipe", "requirements", "src", "tests"}
    | {"CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "RELEASING.md"}
    | {"SECURITY.md", "mkdocs.yml", "pyproject.toml", "setup.cfg", "tox.ini"}
)
WHEEL_BYTES_MAX: Final = 2_000_000
SDIST_BYTES_MAX: Final = 6_000_000


def faults_of_wheel(wheel: Path, root: Path) -> Iterator[str]:
    """What is wrong with the contents of a wheel, a sentence each."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    metadata = {name for name in names if ".dist-info/" in name.split("/", 1)[0] + "/"}
    yield from _differences(names - metadata, _shipped(root), "the wheel")
    if not any(name.endswith("/licenses/LICENSE") for name in metadata):
        yield "the wheel has no LICENSE"
    if wheel.stat().st_size > WHEEL_BYTES_MAX:
        yield f"the wheel has more than {WHEEL_BYTES_MAX:,} bytes"


def faults_of_sdist(sdist: Path, root: Path) -> Iterator[str]:
    """The same of an sdist."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if not member.isdir()}
    own = {name for name in names if ".egg-info/" not in name}
    for name in NEEDED:
        if name not in own:
            yield f"the sdist lacks {name}"
    for first in sorted({name.partition("/")[0] for name in own} - ALLOWED):
        yield f"the sdist has {first}"
    shipped = {name.removeprefix("src/") for name in own if name.startswith("src/")}
    yield from _differences(shipped, _shipped(root), "the sdist")
    for name in sorted(own):
        if "__pycache__" in name or name.endswith((".pyc", ".tmp")):
            yield f"the sdist has {name}"
    if sdist.stat().st_size > SDIST_BYTES_MAX:
        yield f"the sdist has more than {SDIST_BYTES_MAX:,} bytes"


def _shipped(root: Path) -> set[str]:
    source = root / "src"
    files = (path for package in PACKAGES for path in (source / package).rglob("*"))
    return {path.relative_to(source).as_posix() for path in files if path.suffix in {".py", ".typed"}}


def _differences(found: set[str], wanted: set[str], where: str) -> Iterator[str]:
    for name in sorted(wanted - found):
        yield f"{where} lacks {name}"
    for name in sorted(found - wanted):
        yield f"{where} has {name}"
