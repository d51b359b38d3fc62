"""Airflow, in an environment of its own: its requirements go with nobody else's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import magicfs
from proofs.doubles import environments

__all__ = ["REQUIREMENTS", "run"]

REQUIREMENTS: Final = ("apache-airflow>=3.1", "fsspec>=2025.12", "pyarrow>=22", "tenacity>=9")
_SECONDS: Final = 800
_TEST: Final = """
import sys

from pendulum import datetime

import proofs.schedulers.failing
from sales_dag import sales

DAY = datetime(2026, 11, 28)
made = sales()
runs = set()
for _ in range(2):  # the second clears the first
    run = made.test(run_after=DAY, logical_date=DAY)
    states = {one.task_id: str(one.state) for one in run.get_task_instances()}
    print(run.run_id, run.state, states, file=sys.stderr)
    runs.add(run.run_id)
    assert states == {"publish": "success", "published": "success"}, states
assert len(runs) == 1, runs
"""


def run(home: Path, code: str) -> None:
    """Run the DAG twice as one run, by ``dag.test``: Airflow's database, retries and task runner."""
    python = environments.ensure("airflow", REQUIREMENTS) / "bin" / "python"
    for name in ("lib", "dags"):
        (home / name).mkdir()
    packages = {"magicfs": Path(magicfs.__file__).parent, "proofs": Path(environments.__file__).parents[1]}
    for name, place in packages.items():
        (home / "lib" / name).symlink_to(place)
    (home / "dags" / "sales_dag.py").write_text(code)
    (home / "run.py").write_text(_TEST)
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "PYTHONPATH": f"{home / 'lib'}:{home / 'dags'}",
    }
    environment = {**os.environ, **settings}
    for words in (("-m", "airflow", "db", "migrate"), (str(home / "run.py"),)):
        subprocess.run(  # noqa: S603
            [str(python), *words], check=True, stdout=sys.stderr, env=environment, timeout=_SECONDS
        )
