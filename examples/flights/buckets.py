"""What the demo writes to, as the demo looks at it: magicfs has no part in that."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow.fs

from proofs.doubles.azurite import AzureView
from proofs.doubles.bucket_view import BucketView, S3View, is_hidden
from proofs.doubles.gcs_server import GcsView

__all__ = ["AzureBucket", "Bucket", "GcsBucket", "LocalDirectory", "S3Bucket"]

_RECORDS = ".magicfs-uploads/*/upload.json"
_OPENING = ".new"
"""How the directory of an upload ends until its record is written whole."""


class Bucket(ABC):
    """An empty place to write to.

    Attributes:
        server: Name, version and process of the server, as far as they are known.
        port: The TCP port of the server; None if there is none.
    """

    server: Mapping[str, object]

    @property
    @abstractmethod
    def storage_options(self) -> dict[str, Any]:
        """What the store's filesystem needs beside the credentials, which are in the environment."""

    @property
    @abstractmethod
    def port(self) -> int | None:
        """See above."""

    @abstractmethod
    def url(self, directory: str) -> str:
        """The URL of a directory."""

    @abstractmethod
    def visible(self, directory: str) -> list[str]:
        """The keys under a directory that readers take for data."""

    @abstractmethod
    def pending(self, directory: str) -> list[tuple[str, str]]:
        """Key and upload id of each pending upload under a directory."""

    @abstractmethod
    def reader(self, directory: str) -> tuple[pyarrow.fs.FileSystem, str]:
        """A filesystem of pyarrow's own, and the path of a directory in it."""


@dataclass(frozen=True)
class _OnServer(Bucket):
    name: str
    view: Any  # what is in it, by plain clients
    server: Mapping[str, object]

    @property
    def port(self) -> int:
        parts = urlsplit(self.view.endpoint)
        return parts.port or (443 if parts.scheme == "https" else 80)

    def url(self, directory: str) -> str:
        return f"{self.view.scheme}://{self.name}/{directory}"

    def visible(self, directory: str) -> list[str]:
        view: BucketView = self.view
        return view.visible_keys(self.name, f"{directory}/")

    def pending(self, directory: str) -> list[tuple[str, str]]:
        view: BucketView = self.view
        return sorted(view.uploads(self.name, f"{directory}/"))

    @property
    def _place(self) -> tuple[str, str]:
        """Scheme and authority of the server."""
        parts = urlsplit(self.view.endpoint)
        return parts.scheme, parts.netloc


class S3Bucket(_OnServer):
    """A bucket of a server that speaks S3."""

    view: S3View

    @property
    def storage_options(self) -> dict[str, Any]:
        return {
            "endpoint_url": self.view.endpoint,
            "client_kwargs": {"region_name": self.view.region},
        }

    def reader(self, directory: str) -> tuple[pyarrow.fs.FileSystem, str]:
        scheme, authority = self._place
        filesystem = pyarrow.fs.S3FileSystem(
            endpoint_override=authority, scheme=scheme, region=self.view.region
        )
        return filesystem, f"{self.name}/{directory}"


class GcsBucket(_OnServer):
    """A bucket of a server that speaks Google's APIs, and asks for no credentials."""

    view: GcsView

    @property
    def storage_options(self) -> dict[str, Any]:
        return self.view.plain_options(self.view.endpoint)

    def reader(self, directory: str) -> tuple[pyarrow.fs.FileSystem, str]:
        scheme, authority = self._place
        filesystem = pyarrow.fs.GcsFileSystem(anonymous=True, endpoint_override=authority, scheme=scheme)
        return filesystem, f"{self.name}/{directory}"


class AzureBucket(_OnServer):
    """A container of an account of Azure's Blob service, whose key is in the environment."""

    view: AzureView

    @property
    def storage_options(self) -> dict[str, Any]:
        return {}

    def reader(self, directory: str) -> tuple[pyarrow.fs.FileSystem, str]:
        scheme, authority = self._place
        filesystem = pyarrow.fs.AzureFileSystem(
            account_name=self.view.account,
            account_key=self.view.key,
            blob_storage_authority=authority,
            blob_storage_scheme=scheme,
            # There is none; without it pyarrow would ask Azure itself.
            dfs_storage_authority=authority,
            dfs_storage_scheme=scheme,
        )
        return filesystem, f"{self.name}/{directory}"


@dataclass(frozen=True)
class LocalDirectory(Bucket):
    """A directory of this machine."""

    top: str
    server: Mapping[str, object]

    @property
    def storage_options(self) -> dict[str, Any]:
        return {}

    @property
    def port(self) -> None:
        return None

    def url(self, directory: str) -> str:
        return f"file://{self.top}/{directory}"

    def visible(self, directory: str) -> list[str]:
        names = (path.relative_to(Path(self.top, directory)) for path in self._files(directory))
        return sorted(f"{directory}/{name}" for name in names if not any(map(is_hidden, name.parts)))

    def pending(self, directory: str) -> list[tuple[str, str]]:
        found = []
        records = (path for path in self._files(directory) if path.match(_RECORDS))
        for record in (one for one in records if not one.parent.name.endswith(_OPENING)):
            with suppress(FileNotFoundError):  # it has just ended
                name = json.loads(record.read_bytes())["key"]
                below = record.parents[2].relative_to(self.top)
                found.append((f"{below}/{name}", record.parent.name))
        return sorted(found)

    def _files(self, directory: str) -> Iterator[Path]:
        # Not Path.rglob, which fails on a directory that has just gone.
        for parent, _, names in os.walk(Path(self.top, directory)):
            yield from (Path(parent, name) for name in names)

    def reader(self, directory: str) -> tuple[pyarrow.fs.FileSystem, str]:
        return pyarrow.fs.LocalFileSystem(), f"{self.top}/{directory}"
