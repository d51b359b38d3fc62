"""``python -m proofs.schedulers``: each example of the page, by its scheduler; the last line is JSON.

The first try fails before it publishes, the second after. Then the run is done again, as by clearing it. A
reader finds the rows of one publication, the sensor finds the run, and nothing is left.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import magicfs
from magicfs.datasets.connection import open_destination
from magicfs.notify.events import lineage_event
from magicfs.notify.published import published
from proofs.schedulers import airflow

__all__ = ["SCHEDULERS", "example", "main"]

_PAGE: Final = Path(__file__).parents[2] / "docs" / "schedulers.md"
_DAY: Final = "2026-11-28"


def main(argv: Sequence[str] | None = None) -> int:
    """Run them; 0 if each published once."""
    parser = argparse.ArgumentParser(prog="python -m proofs.schedulers", description=__doc__)
    parser.add_argument("--only", choices=SCHEDULERS, action="append", help="only this one; may be repeated")
    parser.add_argument("--inside", choices=SCHEDULERS, help=argparse.SUPPRESS)
    parser.add_argument("--home", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.inside:
        SCHEDULERS[arguments.inside](Path(arguments.home))
        return 0
    figures = {name: _examine(name) for name in arguments.only or SCHEDULERS}
    ok = all(one["ok"] for one in figures.values())
    print(json.dumps({**figures, "ok": ok}, separators=(",", ":")))  # noqa: T201
    return 0 if ok else 1


def example(name: str, url: str) -> str:
    """The code of the page for one scheduler, with another URL."""
    text = _PAGE.read_text()
    [code] = re.findall(rf"## {name}\n\n```python\n(.*?)```", text, re.DOTALL | re.IGNORECASE)
    assert "s3://bucket/sales" in code
    return str(code.replace("s3://bucket/sales", url))


def _examine(name: str) -> dict[str, Any]:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"magicfs-{name}-", ignore_cleanup_errors=True) as directory:
        home = Path(directory)
        calls = home / "calls"
        calls.touch()
        environment = {**os.environ, "MAGICFS_PROOF_CALLS": str(calls)}
        command = [sys.executable, "-m", "proofs.schedulers", "--inside", name, "--home", directory]
        try:
            subprocess.run(command, check=True, stdout=2, env=environment, timeout=900)  # noqa: S603
            found = _found(home, calls)
        except (AssertionError, subprocess.SubprocessError) as error:
            traceback.print_exc()
            found = {"ok": False, "wrong": f"{type(error).__name__}: {error}"[:300]}
    return {**found, "seconds": round(time.monotonic() - started, 1)}


def _found(home: Path, calls: Path) -> dict[str, Any]:
    """What a reader finds after it all."""
    dataset = magicfs.Dataset(_url(home))
    rows = sorted(row["n"] for row in dataset.to_arrow().to_table().to_pylist())
    assert rows == [1, 2], rows
    runs = {one.run_id for one in dataset.history()}
    assert len(runs) == 1, runs
    unfinished = [*(home / "data" / "sales").glob("__magic*")]
    assert not unfinished, unfinished
    tries = calls.read_text().splitlines()
    assert len(tries) == 4, tries  # failed, answer lost, right; and once more
    _check_lineage(home)
    return {"ok": True, "tries": len(tries), "rows": len(rows), "publications": len(dataset.history())}


def _check_lineage(home: Path) -> None:
    """Every facet of an event is one of OpenLineage's own client, and has all its fields."""
    from openlineage.client import event_v2, facet_v2

    dataset = magicfs.Dataset(_url(home))
    job = dataset.history(limit=1)[0].job_id
    place = open_destination(dataset.url)
    event: Any = lineage_event(place.run(published, job), "proof", "sales")
    [output] = event["outputs"]
    kinds = {
        "version": facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet,
        "lifecycleStateChange": facet_v2.lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet,
        "outputStatistics": facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
    }
    for name, facet in {**output["facets"], **output["outputFacets"]}.items():
        own = {key: value for key, value in facet.items() if not key.startswith("_")}
        assert _schema_of(kinds[name](**own)) == facet["_schemaURL"], facet
    event_v2.RunEvent(
        eventType=event_v2.RunState[event["eventType"]],
        eventTime=event["eventTime"],
        run=event_v2.Run(event["run"]["runId"]),
        job=event_v2.Job(**event["job"]),
        producer=event["producer"],
        outputs=[event_v2.OutputDataset(output["namespace"], output["name"])],
    )
    assert event["schemaURL"] == _schema_of(event_v2.RunEvent)


def _schema_of(one: Any) -> str:
    return str(one._get_schema())  # noqa: SLF001 - the client says it nowhere else


def _url(home: Path) -> str:
    return f"file://{home}/data/sales"


def _load(name: str, home: Path) -> ModuleType:
    """The example as a module, in which ``magicfs.write`` fails twice."""
    from proofs.schedulers import failing  # noqa: F401

    path = home / f"{name}_example.py"
    path.write_text(example(name, _url(home)))
    sys.path.insert(0, str(home))
    return __import__(path.stem)


def _prefect(home: Path) -> None:
    os.environ |= {
        "PREFECT_HOME": str(home),
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
    from prefect.testing.utilities import prefect_test_harness

    found = _load("prefect", home)
    with prefect_test_harness(server_startup_timeout=600):
        for _ in range(2):
            found.sales(_DAY)


def _dagster(home: Path) -> None:
    os.environ["DAGSTER_HOME"] = str(home)
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    import dagster as dg

    found = _load("dagster", home)
    instance = dg.DagsterInstance.get()
    for _ in range(2):
        assert dg.materialize([found.sales], instance=instance, partition_key=_DAY).success
    definitions = dg.Definitions(assets=[found.sales], sensors=[found.published])
    context = dg.build_sensor_context(instance=instance, definitions=definitions)
    [request] = found.published(context)
    [newest] = magicfs.Dataset(_url(home)).history(limit=1)
    assert request.run_key == newest.job_id


def _airflow(home: Path) -> None:
    airflow.run(home, example("airflow", _url(home)))


SCHEDULERS: Final[Mapping[str, Callable[[Path], None]]] = {
    "airflow": _airflow,
    "dagster": _dagster,
    "prefect": _prefect,
}

if __name__ == "__main__":
    sys.exit(main())
