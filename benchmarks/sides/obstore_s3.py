"""obstore: Rust's object_store, from Python."""

from __future__ import annotations

import asyncio
from importlib import metadata

import obstore
from obstore.store import S3Store

from benchmarks import data
from benchmarks.clock import Clock
from benchmarks.place import CONCURRENCY, PART_BYTES, Place

__all__ = ["ObstoreS3", "store_of"]


def store_of(place: Place) -> S3Store:
    """Its store for a place."""
    return S3Store(
        place.bucket,
        endpoint=place.endpoint,
        access_key_id=place.key,
        secret_access_key=place.secret,
        region=place.region,
        client_options={"allow_http": True},
    )


class ObstoreS3:
    """``obstore.store.S3Store``."""

    def __init__(self, place: Place) -> None:
        self._store = store_of(place)

    def versions(self) -> dict[str, str]:
        return {"obstore": metadata.version("obstore")}

    def pipe(self, clock: Clock, where: str, files: int, size: int) -> None:
        """Many files, one PUT each."""
        bodies = data.bodies(files, size)

        async def put_all() -> None:
            left = iter(bodies.items())

            async def put_some() -> None:
                for name, body in left:
                    await obstore.put_async(self._store, f"{where}/{name}", body, use_multipart=False)

            await asyncio.gather(*(put_some() for _ in range(CONCURRENCY)))

        with clock():
            asyncio.run(put_all())

    def one_by_one(self, clock: Clock, where: str, files: int, size: int) -> None:
        """Files put one after the other."""
        bodies = data.bodies(files, size)
        with clock():
            for name, body in bodies.items():
                obstore.put(self._store, f"{where}/{name}", body, use_multipart=False)

    def stream(self, clock: Clock, where: str, mebibytes: int) -> None:
        """One large file."""
        with (
            clock(),
            obstore.open_writer(self._store, f"{where}/big.bin", buffer_size=PART_BYTES) as file,
        ):
            for block in data.blocks(mebibytes):
                file.write(block)
