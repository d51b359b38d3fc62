from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from examples.flights.java import Java, JavaProblem, find_java, major_version, require_java
from magicfs.errors import UsageError

DEBIAN_17 = """\
openjdk version "17.0.15" 2025-04-15
OpenJDK Runtime Environment (build 17.0.15+6-Debian-1deb12u1)
OpenJDK 64-Bit Server VM (build 17.0.15+6-Debian-1deb12u1, mixed mode, sharing)
"""
DEBIAN_11 = """\
openjdk version "11.0.22" 2024-01-16
OpenJDK Runtime Environment (build 11.0.22+7-post-Debian-1deb11u1)
OpenJDK 64-Bit Server VM (build 11.0.22+7-post-Debian-1deb11u1, mixed mode, sharing)
"""
ORACLE_8 = """\
java version "1.8.0_202"
Java(TM) SE Runtime Environment (build 1.8.0_202-b08)
Java HotSpot(TM) 64-Bit Server VM (build 25.202-b08, mixed mode)
"""

Install = Callable[[str], dict[str, str]]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Install a program called java that runs the given Python, and return the environment to find it."""

    def make(code: str) -> dict[str, str]:
        program = tmp_path / "java home" / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!{sys.executable} -IS\n{code}\n", encoding="utf-8")
        program.chmod(0o755)
        return {"PATH": str(program.parent)}

    return make


def printing(text: str, code: int = 0) -> str:
    return f"import sys; assert sys.argv[1:] == ['-version']; sys.stderr.write({text!r}); sys.exit({code})"


@pytest.mark.parametrize(
    ("text", "major"),
    [
        (DEBIAN_17, 17),
        (DEBIAN_11, 11),
        (ORACLE_8, 8),
        ('java version "1.7.0_80"\nJava(TM) SE Runtime Environment (build 1.7.0_80-b15)\n', 7),
        ('openjdk version "1.8.0_442"\nOpenJDK Runtime Environment (Temurin)(build 1.8.0_442-b06)\n', 8),
        ('openjdk version "9-internal"\nOpenJDK Runtime Environment (build 9-internal+0-2016-04-14)\n', 9),
        ('java version "10.0.2" 2018-07-17\nJava(TM) SE Runtime Environment 18.3 (build 10.0.2+13)\n', 10),
        ('openjdk version "17" 2021-09-14\nOpenJDK Runtime Environment (build 17+35-2724)\n', 17),
        ('openjdk version "17.0.12" 2024-07-16\nIBM Semeru Runtime Open Edition 17.0.12.0\n', 17),
        ('java version "17.0.11" 2024-04-16 LTS\nJava(TM) SE Runtime Environment\n', 17),
        ('openjdk version "17.0.8.1" 2023-08-24\nOpenJDK Runtime Environment Temurin-17.0.8.1+1\n', 17),
        ('openjdk version "21-ea" 2023-09-19\nOpenJDK Runtime Environment (build 21-ea+35-Ubuntu-1)\n', 21),
        ('openjdk version "21.0.2" 2024-01-16 LTS\nOpenJDK Runtime Environment Zulu21.32+17-CA\n', 21),
        (
            'java version "21.0.3" 2024-04-16 LTS\nJava(TM) SE Runtime Environment Oracle GraalVM\n',
            21,
        ),
        ('openjdk version "25" 2025-09-16\nOpenJDK Runtime Environment (build 25+36-3489)\n', 25),
        ("openjdk 17.0.1 2021-10-19\nOpenJDK Runtime Environment (build 17.0.1+12-39)\n", 17),
        (f"Picked up JAVA_TOOL_OPTIONS: -Xmx2g -Dversion=3\n{DEBIAN_17}", 17),
        (
            f"OpenJDK 64-Bit Server VM warning: Options -Xverify:none were deprecated in JDK 13\n{DEBIAN_17}",
            17,
        ),
        (DEBIAN_17.replace("\n", "\r\n"), 17),
        ("", None),
        ("No Java runtime present, requesting install. Unable to locate a Java Runtime.\n", None),
        ("bash: java: command not found\n", None),
        ('java version "unknown"\n', None),
    ],
)
def test_the_release_is_read_from_what_real_javas_print(text: str, major: int | None) -> None:
    assert major_version(text) == major


def test_a_java_on_the_path_is_found(install: Install) -> None:
    environ = install(printing(DEBIAN_17))
    java = require_java(environ)
    assert java == Java(Path(environ["PATH"], "java"), 17, "17.0.15")
    assert find_java(environ) == java


def test_java_home_goes_before_the_path(install: Install) -> None:
    environ = install(printing(DEBIAN_17))
    home = Path(environ["PATH"]).parent
    assert require_java({"JAVA_HOME": str(home), "PATH": ""}).path == home / "bin" / "java"


def test_an_empty_java_home_counts_for_nothing(install: Install) -> None:
    assert require_java({**install(printing(DEBIAN_17)), "JAVA_HOME": ""}).major == 17


@pytest.mark.parametrize("environ", [{"PATH": ""}, {}, {"PATH": "/nowhere"}])
def test_without_java_the_package_to_install_is_named(environ: dict[str, str]) -> None:
    assert find_java(environ) is None
    with pytest.raises(
        JavaProblem, match=r"there is none; install .* apt-get install openjdk-17-jre-headless"
    ):
        require_java(environ)


def test_a_java_that_is_too_old_is_found_and_refused(install: Install) -> None:
    environ = install(printing(DEBIAN_11))
    found = find_java(environ)
    assert found is not None
    assert found.major == 11
    with pytest.raises(JavaProblem, match=r"needs Java 17 or newer and .*java is 11\.0\.22; install"):
        require_java(environ)


def test_a_java_home_without_a_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaProblem, match=r"JAVA_HOME is .*, where there is no program bin/java; unset it"):
        require_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


def test_a_java_that_fails_is_quoted(install: Install) -> None:
    with pytest.raises(JavaProblem, match="exit code 1: 'Error: no runtime here'; install"):
        require_java(install(printing("\nError: no runtime here\nmore", 1)))


def test_a_java_that_crashes_is_named_with_its_signal(install: Install) -> None:
    with pytest.raises(JavaProblem, match="was killed by signal 6"):
        require_java(install("import os; os.abort()"))


def test_a_java_that_hangs_is_given_up(install: Install) -> None:
    with pytest.raises(JavaProblem, match=r"did not answer within 0\.5 s"):
        require_java(install("import time; time.sleep(600)"), timeout=0.5)


def test_a_program_that_is_no_java_is_quoted(install: Install) -> None:
    with pytest.raises(JavaProblem, match="does not print a version but 'coffee'"):
        require_java(install("print('coffee')"))


def test_a_java_that_cannot_be_started_is_named(install: Install) -> None:
    environ = install("")
    Path(environ["PATH"], "java").write_text("#!/no/such/interpreter\n", encoding="utf-8")
    with pytest.raises(JavaProblem, match="cannot be started: No such file"):
        require_java(environ)


def test_a_problem_is_a_usage_error() -> None:
    assert issubclass(JavaProblem, UsageError)
