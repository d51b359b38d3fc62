"""The double as a process: ``python -m proofs.doubles.gcs HOST PORT TOKEN``."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from proofs.doubles.double_server import Answer, serve
from proofs.doubles.gcs.service import Service
from proofs.doubles.gcs.wire import Request


def main(host: str, port: str, token: str) -> None:
    """Answer until somebody asks the process to end."""
    service = Service(token)

    def answer(*told: Any) -> Answer:
        return service.answer(Request.of(*told))

    asyncio.run(serve(answer, host, int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
