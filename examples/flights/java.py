"""Finding the Java that Spark would start, and saying what is wrong with it before Spark does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from magicfs.errors import UsageError

__all__ = ["MAJOR_MIN", "Java", "JavaProblem", "find_java", "major_version", "require_java"]

MAJOR_MIN = 17
"""Oldest release of Java that Spark 4 runs on."""

ANSWER_SECONDS = 20.0
_INSTALL = (
    "install Java 17 or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless) "
    "and set JAVA_HOME if it is not on the PATH"
)
_VERSION = re.compile(r"""(?:^|\s)version\s+"(?P<version>[^"\s]+)""", re.MULTILINE)
_UNQUOTED = re.compile(r"^(?:openjdk|java)\s+(?P<version>\d[\w.+-]*)", re.MULTILINE)
_NUMBERS = re.compile(r"(?:1\.)?(\d+)")


class JavaProblem(UsageError):
    """Spark cannot run with the Java that is here. The message says what to install or to set."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that starts."""

    path: Path
    major: int  # its release, such as 17; 8 for what calls itself 1.8
    version: str  # what it calls itself, such as ``17.0.15``


def find_java(environ: Mapping[str, str] | None = None, *, timeout: float = ANSWER_SECONDS) -> Java | None:
    """The Java that Spark would start: the one of ``JAVA_HOME``, else the first on the ``PATH``.

    ``environ``: the environment to look at; by default this process's. ``timeout``: seconds that it has to
    print its version.

    Returns None if there is none; its release may be too old, which ``require_java`` checks.

    Raises JavaProblem if ``JAVA_HOME`` is wrong, or what is there does not start, does not answer, or is no
    Java.
    """
    environ = os.environ if environ is None else environ
    path = _program(environ)
    if path is None:
        return None
    answer = _version_text(path, environ, timeout)
    version = _version(answer)
    major = major_version(answer)
    if major is None or version is None:
        raise JavaProblem(f"{path} -version does not print a version but {_first_line(answer)!r}; {_INSTALL}")
    return Java(path, major, version)


def require_java(environ: Mapping[str, str] | None = None, *, timeout: float = ANSWER_SECONDS) -> Java:
    """The Java that Spark would start, if Spark runs on it. Arguments as for ``find_java``.

    Raises JavaProblem if there is none, it is too old, or it does not work.
    """
    java = find_java(environ, timeout=timeout)
    if java is None:
        raise JavaProblem(f"Spark needs Java and there is none; {_INSTALL}")
    if java.major < MAJOR_MIN:
        raise JavaProblem(
            f"Spark needs Java {MAJOR_MIN} or newer and {java.path} is {java.version}; {_INSTALL}"
        )
    return java


def major_version(text: str) -> int | None:
    """The release in what ``java -version`` printed; None if there is none in it.

    Takes the versions of all vendors: ``1.8.0_442`` is 8; ``17.0.15``, ``21-ea`` and ``25`` are what they
    say. Lines before the version, such as ``Picked up JAVA_TOOL_OPTIONS: …``, do not matter.
    """
    version = _version(text)
    match = _NUMBERS.match(version) if version is not None else None
    return int(match[1]) if match is not None else None


def _version(text: str) -> str | None:
    match = _VERSION.search(text) or _UNQUOTED.search(text)
    return match["version"] if match is not None else None


def _program(environ: Mapping[str, str]) -> Path | None:
    if home := environ.get("JAVA_HOME"):
        # Spark's launcher looks nowhere else when it is set.
        path = Path(home, "bin", "java")
        if not path.is_file() or not os.access(path, os.X_OK):
            raise JavaProblem(
                f"JAVA_HOME is {home}, where there is no program bin/java; "
                "unset it, or set it to the directory of a Java"
            )
        return path
    # shutil.which takes an empty or missing PATH for the system's default one.
    found = shutil.which("java", path=environ.get("PATH") or os.devnull)
    return Path(found) if found is not None else None


def _version_text(path: Path, environ: Mapping[str, str], timeout: float) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - the Java that Spark is about to run
            [str(path), "-version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # the version goes to stderr
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise JavaProblem(f"{path} -version did not answer within {timeout:g} s; {_INSTALL}") from error
    except OSError as error:
        raise JavaProblem(f"{path} cannot be started: {error.strerror}; {_INSTALL}") from error
    text = done.stdout.decode(errors="replace")
    if done.returncode < 0:
        raise JavaProblem(f"{path} -version was killed by signal {-done.returncode}; {_INSTALL}")
    if done.returncode > 0:
        raise JavaProblem(
            f"{path} -version failed with exit code {done.returncode}: {_first_line(text)!r}; {_INSTALL}"
        )
    return text


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
