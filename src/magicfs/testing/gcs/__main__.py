"""The double as a process: ``python -m magicfs.testing.gcs HOST PORT TOKEN``."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from magicfs.testing.double_server import Answer, serve
from magicfs.testing.gcs.service import Service
from magicfs.testing.gcs.wire import Request


def main(host: str, port: str, token: str) -> None:
    """Answer until somebody asks the process to end."""
    service = Service(token)

    def answer(*told: Any) -> Answer:
        return service.answer(Request.of(*told))

    asyncio.run(serve(answer, host, int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
