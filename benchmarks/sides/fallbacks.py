"""Requests of magicfs that went through aiobotocore, which its own client should have made."""

from __future__ import annotations

from collections import Counter
from typing import Any

from aiobotocore.client import AioBaseClient

__all__ = ["Fallbacks"]


class Fallbacks:
    """Counts every request of aiobotocore in this process, by operation."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        counts, call = self._counts, AioBaseClient._make_api_call  # noqa: SLF001 - the place that all pass

        async def counted(client: Any, operation: str, arguments: Any) -> Any:
            counts[operation] += 1
            return await call(client, operation, arguments)

        AioBaseClient._make_api_call = counted  # noqa: SLF001

    def taken(self) -> dict[str, int]:
        """Those since somebody last asked."""
        found = dict(self._counts)
        self._counts.clear()
        return found
