"""boto3, with as many threads as the others have requests at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

from benchmarks import data
from benchmarks.clock import Clock
from benchmarks.place import CONCURRENCY, PART_BYTES, Place

__all__ = ["Boto3Threads"]

_PARTS = {"Parts": [{"PartNumber": 1, "ETag": '"0123456789abcdef0123456789abcdef"'}]}


class Boto3Threads:
    """One client of boto3, which may be used by many threads."""

    def __init__(self, place: Place) -> None:
        self._bucket = place.bucket
        config = Config(max_pool_connections=CONCURRENCY, s3={"addressing_style": "path"})
        self._client = boto3.client("s3", config=config, **place.client_options)

    def versions(self) -> dict[str, str]:
        import botocore

        return {"boto3": boto3.__version__, "botocore": botocore.__version__}

    def complete(self, clock: Clock, where: str, files: int) -> None:
        """Complete many uploads; the stub takes any id."""

        def one(number: int) -> None:
            self._client.complete_multipart_upload(
                Bucket=self._bucket,
                Key=f"{where}/part-{number:06d}.bin",
                UploadId=f"stub-upload-{number:032d}",
                MultipartUpload=_PARTS,
            )

        with clock("commit"), ThreadPoolExecutor(CONCURRENCY) as pool:
            list(pool.map(one, range(files)))

    def pipe(self, clock: Clock, where: str, files: int, size: int) -> None:
        """Many files, one PUT each."""
        bodies = data.bodies(files, size)

        def one(item: tuple[str, bytes]) -> None:
            self._client.put_object(Bucket=self._bucket, Key=f"{where}/{item[0]}", Body=item[1])

        with clock(), ThreadPoolExecutor(CONCURRENCY) as pool:
            list(pool.map(one, bodies.items()))

    def stream(self, clock: Clock, where: str, mebibytes: int) -> None:
        """One large file, which boto3's transfers read."""
        transfer = TransferConfig(multipart_chunksize=PART_BYTES, multipart_threshold=PART_BYTES)
        with clock():
            self._client.upload_fileobj(
                data.Blocks(mebibytes), self._bucket, f"{where}/big.bin", Config=transfer
            )
