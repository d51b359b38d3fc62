"""A proxy that makes a server as strict as Cloudflare R2: parts of an upload have one size, but the last."""

from __future__ import annotations

from collections import defaultdict
from urllib.parse import parse_qs

from aiohttp import web

from magicfs.testing.fault_proxy import FaultProxy, _Arrival
from magicfs.testing.faults import Action, Rule

__all__ = ["EqualPartsProxy"]


class EqualPartsProxy(FaultProxy):
    """The proxy, in front of a server that speaks S3; everything else passes.

    R2 answers the completion with 400 InvalidPart (Cloudflare's documentation of R2, "Multipart upload").
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self._sizes: dict[str, dict[int, int]] = defaultdict(dict)

    async def _forward(self, arrival: _Arrival, action: Action | None) -> web.StreamResponse:
        query = {name: values[0] for name, values in parse_qs(arrival.target.partition("?")[2]).items()}
        sizes = self._sizes[query.get("uploadId", "")]
        match arrival.operation:
            case "UploadPart":
                sizes[int(query["partNumber"])] = len(arrival.body)
            case "CompleteMultipartUpload" if not _are_equal([size for _, size in sorted(sizes.items())]):
                rule = Rule("CompleteMultipartUpload", Action.ERROR, status=400, code="InvalidPart")
                return self._error(arrival, rule, rule.status)
        return await super()._forward(arrival, action)


def _are_equal(sizes: list[int]) -> bool:
    return len(set(sizes[:-1])) <= 1 and (len(sizes) < 2 or sizes[-1] <= sizes[0])
