"""``python -m proofs.engines.run_driver ORDER``: a driver's process; with a number, a task of the shell's."""

from __future__ import annotations

import json
import sys

from proofs.engines.drivers import DRIVERS, shell_task
from proofs.engines.order import Order

__all__ = ["main"]


def main(argv: list[str]) -> int:
    """Publish, and say what became of it in the last line of stdout; 0 if it was published."""
    order = Order(**json.loads(argv[0]))
    if len(argv) > 1:
        shell_task(order, int(argv[1]))
        return 0
    try:
        told = DRIVERS[order.engine](order)
    except Exception as error:  # noqa: BLE001 - whatever a driver ends with is the result
        print(json.dumps({"published": False, "error": f"{type(error).__name__}: {error}"[-2000:]}))  # noqa: T201
        return 1
    print(json.dumps({"published": True, **told}))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
