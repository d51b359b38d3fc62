"""aiobotocore, without s3fs above it."""

from __future__ import annotations

import asyncio

import aiobotocore
from aiobotocore.config import AioConfig
from aiobotocore.session import get_session

from benchmarks.clock import Clock
from benchmarks.place import CONCURRENCY, Place

__all__ = ["BareAiobotocore"]

_PARTS = {"Parts": [{"PartNumber": 1, "ETag": '"0123456789abcdef0123456789abcdef"'}]}
_WARM_UP = 40


class BareAiobotocore:
    """One client a turn, warm before it is measured."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def versions(self) -> dict[str, str]:
        return {"aiobotocore": aiobotocore.__version__}

    def complete(self, clock: Clock, where: str, files: int) -> None:
        """Complete many uploads; the stub takes any id."""
        asyncio.run(self._complete(clock, where, files))

    async def _complete(self, clock: Clock, where: str, files: int) -> None:
        config = AioConfig(max_pool_connections=CONCURRENCY, s3={"addressing_style": "path"})
        async with get_session().create_client("s3", config=config, **self._place.client_options) as client:

            async def some(numbers: range) -> None:
                left = iter(numbers)

                async def each() -> None:
                    for number in left:
                        await client.complete_multipart_upload(
                            Bucket=self._place.bucket,
                            Key=f"{where}/part-{number:06d}.bin",
                            UploadId=f"stub-upload-{number:032d}",
                            MultipartUpload=_PARTS,
                        )

                await asyncio.gather(*(each() for _ in range(CONCURRENCY)))

            await some(range(_WARM_UP))
            with clock("commit"):
                await some(range(files))
