"""``python -m website.versions DIRECTORY``: the site as it is published, a directory a version of magicfs.

With ``--publish`` it becomes a commit on the branch ``gh-pages`` of this checkout instead, beside the
versions that are there. Nothing is pushed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from magicfs.version import __version__

__all__ = ["LATEST", "VERSION", "main"]

LATEST = "latest"
"""What links to a page should name; it is the newest release."""

VERSION = ".".join(__version__.split(".")[:2])
"""Under what name the site of this checkout is published."""

_ROOT = Path(__file__).parents[1]
_BRANCH = "gh-pages"


def _run(place: Path, *command: str, **environment: str) -> None:
    environment = {**os.environ, **environment}
    subprocess.run(command, cwd=place, check=True, stdout=sys.stderr, env=environment)  # noqa: S603


def _deploy(place: Path) -> None:
    options = ("--branch", _BRANCH, "--config-file", str(_ROOT / "mkdocs.yml"))
    # Pages that lead on, not links: no host of pages has to follow them.
    how = ("--update-aliases", "--alias-type=redirect")
    with tempfile.TemporaryDirectory() as built:
        _run(place, "mike", "deploy", *options, *how, VERSION, LATEST, MAGICFS_SITE=built)
    _run(place, "mike", "set-default", *options, LATEST)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. The directory is made anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("directory", type=Path, nargs="?")
    where.add_argument("--publish", action="store_true", help=f"commit to the branch {_BRANCH}")
    given = parser.parse_args(arguments)
    if given.publish:
        _deploy(_ROOT)
        return 0
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        _run(place, "git", "init", "--quiet")
        _run(place, "git", "config", "user.name", "magicfs")
        _run(place, "git", "config", "user.email", "magicfs@localhost")
        _run(place, "git", "commit", "--quiet", "--allow-empty", "--message", "Begin")
        _deploy(place)
        shutil.rmtree(given.directory, ignore_errors=True)
        given.directory.mkdir(parents=True)
        archive = place / "site.tar"
        _run(place, "git", "archive", "--output", str(archive), _BRANCH)
        shutil.unpack_archive(archive, given.directory, filter="data")
    return 0


if __name__ == "__main__":
    sys.exit(main())
