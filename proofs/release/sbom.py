"""A CycloneDX document of the wheel and what it installs for the stores: the SBOM of a release."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from proofs.release import say

ROOT: Final = Path(__file__).parents[2]
EXTRAS: Final = "arrow,azure,gcs,s3"


def main(target: Path) -> None:
    """Write the document."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        python = Path(scratch, "bin", "python")
        _run(sys.executable, "-m", "virtualenv", "--quiet", scratch)
        _run(str(python), "-m", "pip", "install", "--quiet", f"{ROOT}[{EXTRAS}]")
        _run(str(python), "-m", "pip", "uninstall", "--quiet", "--yes", "pip")
        what = ("environment", str(python), "--pyproject", str(ROOT / "pyproject.toml"))
        _run(sys.executable, "-m", "cyclonedx_py", *what, "--of", "JSON", "-o", str(target))
    say(f"{target}: {target.stat().st_size:,} bytes")


def _run(*command: str) -> None:
    subprocess.run(command, check=True)  # noqa: S603


if __name__ == "__main__":
    main(Path(sys.argv[1]))
