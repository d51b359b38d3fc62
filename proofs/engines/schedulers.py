"""The examples for schedulers, run by the schedulers themselves: Prefect and Dagster, each in a process.

Airflow is not among them: what it needs besides takes longer than all the rest. Its example is run with what
it would be told.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from proofs.doubles.servers import Server

__all__ = ["SCHEDULERS", "examine"]

_SECONDS: Final = 300
_TRIES: Final = 2
_EXAMPLES: Final = Path(__file__).parents[2] / "examples"


def examine(scheduler: str, server: Server, bucket: str) -> dict[str, Any]:
    """Let a scheduler run its example twice as one run, the first time with an error behind the commit.

    Returns what a reader finds; raises AssertionError if that is not one publication.
    """
    url = f"s3://{bucket}/{scheduler} +%#"
    subprocess.run(  # noqa: S603
        [sys.executable, "-m", "proofs.engines.schedulers", scheduler, url],
        check=True,
        stdout=2,
        timeout=_SECONDS,
    )
    prefix = url.removeprefix(f"s3://{bucket}/") + "/"
    found = {
        "files": len(server.visible_keys(bucket, prefix)),
        "uploads_left": len(server.pending_uploads(bucket, prefix)),
    }
    assert found == {"files": 1, "uploads_left": 0}, found
    return found


def main(scheduler: str, url: str) -> None:
    """Run one of them, whose run is tried twice."""
    with tempfile.TemporaryDirectory(prefix=f"magicfs-{scheduler}-") as home:
        tries = SCHEDULERS[scheduler](url, home)
    assert tries == _TRIES, tries


def _prefect(url: str, home: str) -> int:
    os.environ |= {
        "PREFECT_HOME": home,
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
    import prefect
    from prefect.testing.utilities import prefect_test_harness

    publish = runpy.run_path(str(_EXAMPLES / "prefect_flow.py"))["publish"]
    told: list[Mapping[str, Any]] = []

    def sales() -> None:
        told.append(publish(prefect.runtime.flow_run, url))
        if len(told) == 1:
            raise ConnectionError("the answer is lost")

    with prefect_test_harness(server_startup_timeout=120):
        prefect.flow(retries=1, retry_delay_seconds=0)(sales)()
    assert [one["published_before"] for one in told] == [False, True]
    return len(told)


def _dagster(url: str, home: str) -> int:
    os.environ["DAGSTER_HOME"] = home
    (Path(home) / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    import dagster

    publish = runpy.run_path(str(_EXAMPLES / "dagster_asset.py"))["publish"]
    tries = 0

    def sales(context: Any) -> None:
        nonlocal tries
        tries += 1
        publish(context, url)
        if tries == 1:
            raise ConnectionError("the answer is lost")

    # In this module annotations are text, and Dagster looks for a class.
    sales.__annotations__ = {"context": dagster.AssetExecutionContext}
    asset = dagster.asset(retry_policy=dagster.RetryPolicy(max_retries=1))(sales)
    done = dagster.materialize([asset], instance=dagster.DagsterInstance.get())
    (made,) = done.asset_materializations_for_node("sales")
    assert made.metadata["files"].value == 0
    assert made.metadata["again"].value is True
    return tries


SCHEDULERS: Mapping[str, Callable[[str, str], int]] = {"prefect": _prefect, "dagster": _dagster}

if __name__ == "__main__":
    main(*sys.argv[1:])
