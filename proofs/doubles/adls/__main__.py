"""The double as a process: ``python -m proofs.doubles.adls HOST PORT ACCOUNT TOKEN``."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from proofs.doubles.adls.service import Service
from proofs.doubles.adls.wire import Request
from proofs.doubles.double_server import Answer, serve


def main(host: str, port: str, account: str, token: str) -> None:
    """Answer until somebody asks the process to end."""
    service = Service(account, token)

    def answer(*told: Any) -> Answer:
        return service.answer(Request.of(*told))

    asyncio.run(serve(answer, host, int(port)))


if __name__ == "__main__":
    main(*sys.argv[1:])
