from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.flights.java import JavaProblem
from examples.flights.session import local_session
from proofs.scenes.java import skip_without_java


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name not in {"CI", "JAVA_HOME"}}
    return subprocess.run(
        [sys.executable, *arguments],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_java_it_says_what_to_install_and_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(JavaProblem, match="openjdk-17-jre-headless"):
        local_session()


@pytest.mark.nightly
def test_with_a_log_it_is_silent_even_when_a_task_fails(tmp_path: Path) -> None:
    code = """if True:
        import sys
        from pathlib import Path
        from examples.flights.session import local_session

        def fail(batches):
            raise ValueError("on purpose")
            yield

        spark = local_session(name="quiet", attempts=1, log=Path(sys.argv[1]))
        assert local_session() is spark
        try:
            spark.range(3).mapInArrow(fail, "id long").collect()
        except Exception as error:
            print(type(error).__name__, spark.conf.get("spark.app.name"))
        spark.stop()
    """
    log = tmp_path / "a log"
    done = run("-c", code, str(log))
    assert (done.stdout, done.stderr) == ("PythonException quiet\n", "")
    assert "on purpose" in log.read_text(encoding="utf-8")


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, examples.flights.session as s; s.local_session(log=pathlib.Path(sys.argv[1]))"
    )
    done = run("-c", code, str(tmp_path / "no" / "log"))
    assert "UsageError: " in done.stderr
    assert "log cannot be written: No such file or directory; choose another log file" in done.stderr


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_without_java_spark_tests_are_skipped_by_name_and_fail_in_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="apt-get install openjdk-17-jre-headless"):
        skip_without_java()
