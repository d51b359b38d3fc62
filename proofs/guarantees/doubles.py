"""Where flips take two renames, by the services' own interfaces: buckets with folders, on doubles."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from fsspec.spec import AbstractFileSystem

from magicfs.stores import exchange_by_renames, resolve
from magicfs.stores.conditions import assume
from magicfs.stores.object_tree import tree_of
from magicfs.stores.port import Capabilities, Store
from magicfs.testing.adls_server import AdlsDouble
from magicfs.testing.deviations import HONOURED
from magicfs.testing.faulty_store import FaultyStore, FaultyTree, Traffic
from magicfs.testing.gcs_server import GcsDouble
from magicfs.testing.store_faults import Actor
from proofs.guarantees.ground import DESTINATION

__all__ = ["AdlsGround", "GcsGround"]

_Double = GcsDouble | AdlsDouble


class _Tree(FaultyTree):
    """A tree of folders; each look and each rename of an exchange is a request."""

    async def exchange(self, one: str, other: str, *, leaving: str, bringing: str) -> bool:
        tree: Any = self
        return await exchange_by_renames.exchange(tree, one, other, leaving, bringing)

    async def forbid_exchange(self, one: str, other: str, *, leaving: str) -> bool:
        tree: Any = self
        return await exchange_by_renames.forbid(tree, one, other, leaving)


class _Store(FaultyStore):
    """One process's way to a bucket that is known to have folders."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(self.inner.capabilities, rename="atomic")  # type: ignore[no-any-return]

    def tree(self) -> Any:
        return _Tree(tree_of(self.inner), self.traffic, self.actor)


@functools.cache
def _running(kind: type[_Double]) -> _Double:
    """The double of this process, which is started once and ends with it."""
    double = kind()
    double.start()
    atexit.register(double.stop)
    return double


@functools.cache
def _shared(kind: type[_Double]) -> AbstractFileSystem:
    """The filesystem over whose connections all processes of all cases reach the double."""
    double = _running(kind)
    return resolve.filesystem(double.scheme, double.storage_options())


class _DoubleGround(ABC):
    """A bucket in which a directory is renamed in one step, and two are never exchanged in one."""

    name: ClassVar[str]  # among the subjects of the store exam
    copied = 0
    _kind: ClassVar[type[_Double]]
    _resource: ClassVar[Mapping[str, Any]] = {}

    def __init__(self) -> None:
        self._double = _running(self._kind)
        self._bucket = self._double.create_bucket(f"guarantees-{uuid4().hex}", **self._resource)
        self._store = resolve.open_store(_shared(self._kind), self._bucket)
        self._read: dict[tuple[str, str], bytes] = {}
        self.url = f"{self._double.scheme}://{self._bucket}/{DESTINATION}"
        self.directory = Path(tempfile.mkdtemp(prefix="magicfs-guarantees-"))
        # What is tried here is the committer, not what the store honours.
        assume(self._store, HONOURED[self.name])

    def filesystem(self, traffic: Traffic, actor: Actor) -> AbstractFileSystem:
        options = {**self._double.storage_options(), "skip_instance_cache": True}
        made = resolve.filesystem(self._double.scheme, options)

        def store(_bucket: str) -> Store:
            found: Any = _Store(self._store, traffic, actor)
            return found  # type: ignore[no-any-return]

        made.store = store
        return made

    def objects(self) -> dict[str, bytes]:
        versions = self._versions()
        for key, version in versions.items():
            if (key, version) not in self._read:
                self._read[key, version] = self._double.read(self._bucket, key) or b""
        return {key: self._read[key, version] for key, version in versions.items()}

    @abstractmethod
    def _versions(self) -> dict[str, str]:
        """Every key, and what tells whether its object is another one."""

    def uploads(self) -> list[tuple[str, str]]:
        return sorted(self._double.uploads(self._bucket))

    def write(self, key: str, body: bytes) -> None:
        self._double.write(self._bucket, key, body)

    def close(self) -> None:
        assume(self._store, None)
        self._double.remove_bucket(self._bucket)
        shutil.rmtree(self.directory, ignore_errors=True)


class GcsGround(_DoubleGround):
    """A bucket of the double of Google Cloud Storage with a hierarchical namespace."""

    name = "gcs with folders"
    _kind = GcsDouble
    _resource: ClassVar[Mapping[str, Any]] = {"hierarchicalNamespace": {"enabled": True}}
    _double: GcsDouble

    def _versions(self) -> dict[str, str]:
        page = json.loads(self._double.ask("GET", f"/storage/v1/b/{self._bucket}/o"))
        return {one["name"]: one["generation"] for one in page.get("items", ())}


class AdlsGround(_DoubleGround):
    """A container of the double of Azure Data Lake Storage."""

    name = "adls"
    _kind = AdlsDouble
    _double: AdlsDouble

    def _versions(self) -> dict[str, str]:
        container = self._double.client().get_container_client(self._bucket)
        listed = container.list_blobs(include=["metadata"])
        return {one.name: one.etag for one in listed if "hdi_isfolder" not in (one.metadata or {})}
