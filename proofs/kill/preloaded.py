"""Imported once, by the server that processes are forked from: what each would do again at its start.

A client of S3 spends a third of a second on reading descriptions of services, more than a small job takes.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from botocore.loaders import JSONFileLoader
from botocore.session import Session

from magicfs.cli import main as cli

__all__: list[str] = []

_load_file = JSONFileLoader.load_file


@cache
def _load_once(path: str) -> Any:
    # Sessions share what is loaded among their clients, so nobody writes to it.
    return _load_file(JSONFileLoader(), path)


JSONFileLoader.load_file = lambda _self, path: _load_once(path)
Session().create_client(
    "s3",
    region_name="us-east-1",
    aws_access_key_id="none",
    aws_secret_access_key="none",  # noqa: S106
)
for _name in (
    *("s3fs", "aiobotocore.session", "pyarrow.parquet", "magicfs.job.job", "magicfs.stores.s3.store"),
    *("gcsfs", "magicfs.stores.gcs.store", "adlfs", "azure.storage.blob.aio", "magicfs.stores.azure.store"),
    "magicfs.datasets",
    "proofs.kill.victim",
):
    import_module(_name)
cli.commands_of()  # imports each of them
