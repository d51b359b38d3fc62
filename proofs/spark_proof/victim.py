"""The application that is killed: ``python -m proofs.spark_proof.victim JSON``.

Prints the number of its JVM, waits for a line, works, prints ``done``, and waits for the end of its input.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from examples.flights.session import local_session
from proofs.spark_proof import writing
from proofs.spark_proof.orders import Order

__all__ = ["main"]


def main() -> None:
    """Do what the first argument says."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    config = {"spark.local.dir": given["scratch"], "spark.sql.shuffle.partitions": "2"}
    spark = local_session(cores=2, attempts=2, log=Path(given["log"]), config=config)
    _say(str(spark.sparkContext._gateway.proc.pid))  # noqa: SLF001 - nobody else knows
    sys.stdin.readline()
    url, storage = given["url"], given["storage"]
    if "order" in given:
        writing.perform(spark, Order.from_dict(given["order"]), url, storage, pace=given["pace"])
    else:
        writing.stream(spark, given["route"], given["source"], given["checkpoint"], url, storage)
    _say("done")
    sys.stdin.read()
    spark.stop()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
