from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from aiobotocore.session import AioSession

from magicfs.stores.azure import folders as azure_folders
from magicfs.stores.azure.folders import AzureFolders
from magicfs.stores.azure.requests import AzureRequests
from magicfs.stores.s3.requests.own import OwnRequests
from magicfs.testing.store_exam import listings
from proofs.tree_exam import directories, files, renames

PAGE = 100
SIZE_AND_PLACE = {
    "ListObjectsV2": ("MaxKeys", "ContinuationToken"),
    "ListMultipartUploads": ("MaxUploads", "KeyMarker"),
}
followed: list[str] = []
"""The listings that went on after a page."""


@pytest.fixture(autouse=True, scope="class")
def _no_client_outlives_its_server() -> Iterator[None]:
    """Let adlfs forget its instances between two servers.

    fsspec keeps instances by their arguments, and Azure's endpoint is in the environment.
    """
    yield
    if (adlfs := sys.modules.get("adlfs")) is not None:
        adlfs.AzureBlobFileSystem.clear_instance_cache()


@pytest.fixture
def small_pages(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[AioSession | None]:
    """A session of s3fs that is shown pages of a hundred, and exams that go by it.

    ``tox run -e exams`` writes more than a thousand. Uploads on SeaweedFS and moto are on one page otherwise:
    after a small one the first does not say where the next begins, and the second knows no small ones.
    """
    if os.environ.get("MAGICFS_EXAMS") == "all":
        yield None
        return
    for module in (listings, directories, files, renames):
        monkeypatch.setattr(module, "_MORE_THAN_A_PAGE", PAGE + 3)
    here = f"{request.cls.__name__} {request.node.name}"
    if "uploads" in here and ("SeaweedFS" in here or "Moto" in here):
        yield None
        return
    followed.clear()
    if getattr(request.cls, "engine", "aiobotocore") == "own":
        monkeypatch.setattr(OwnRequests, "ask", _ask_for_small_pages)
        yield None
    else:
        yield _session()
    assert followed or "a_page" not in here, "everything was on one page"


@pytest.fixture
def small_azure_pages(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """The same of Azure's listings, whose pages hold 5,000: in every run, for more are too many to write."""
    monkeypatch.setattr(listings, "_MORE_THAN_A_PAGE", PAGE + 3)
    fetch = AzureRequests.page

    async def page(
        self: AzureRequests, operation: str, prefix: str, position: Any, *args: Any, **how: Any
    ) -> Any:
        if position:
            followed.append(operation)
        asked = {"results_per_page": min(PAGE, how.pop("results_per_page", PAGE))}
        return await fetch(self, operation, prefix, position, *args, **asked, **how)

    monkeypatch.setattr(AzureRequests, "page", page)
    followed.clear()
    yield
    assert followed or "a_page" not in request.node.name, "everything was on one page"


@pytest.fixture
def small_lake_pages(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """The same of directories of Azure Data Lake Storage, and of trees there."""
    for module in (directories, files, renames):
        monkeypatch.setattr(module, "_MORE_THAN_A_PAGE", PAGE + 3)
    monkeypatch.setattr(azure_folders, "PAGE_MAX", PAGE)
    fetch = AzureFolders._page

    async def page(self: AzureFolders, path: str, position: dict[str, str]) -> Any:
        if position:
            followed.append(path)
        return await fetch(self, path, position)

    monkeypatch.setattr(AzureFolders, "_page", page)
    followed.clear()
    yield
    assert followed or "entries_than_a_page" not in request.node.name, "everything was on one page"


def _at_most(params: dict[str, Any], operation: str) -> dict[str, Any]:
    size, place = SIZE_AND_PLACE[operation]
    if place in params:
        followed.append(operation)
    return params | {size: min(PAGE, params.get(size, PAGE))}


@functools.cache
def _session() -> AioSession:
    def at_most(params: dict[str, Any], model: Any, **_: Any) -> dict[str, Any]:
        return _at_most(params, model.name)

    session = AioSession()
    for operation in SIZE_AND_PLACE:
        session.register(f"provide-client-params.s3.{operation}", at_most)
    return session


_ask = OwnRequests.ask


async def _ask_for_small_pages(
    self: OwnRequests, method: str, made: Any, given: dict[str, Any], *args: Any
) -> dict[str, Any]:
    name = self.line.operation(method).name
    return await _ask(self, method, made, _at_most(given, name) if name in SIZE_AND_PLACE else given, *args)
