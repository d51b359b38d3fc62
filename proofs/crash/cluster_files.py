"""The cluster's filesystem of a scene: its files lie beside the bucket, and every call is a request."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, Protocol

import fsspec
from fsspec.spec import AbstractFileSystem

from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Actor, Kind, Request
from proofs.crash.snapshots import SnapshotWorld

__all__ = ["CLUSTER_URL", "CLUSTER_USER", "CURRENT", "ClusterFileSystem", "Member", "SceneTraffic"]

_SCHEME: Final = "magicfs-scene"
CLUSTER_URL: Final = f"{_SCHEME}://cluster"
"""The cluster's directory of every scene that has one."""

CLUSTER_USER: Final = "user"
"""Whose jobs they are."""

_LOST: Final = frozenset({Kind.REPLY_LOST, Kind.LATE})
_REFUSED: Final = frozenset({Kind.ERROR_BEFORE, Kind.THROTTLE, Kind.CONFLICT})


class SceneTraffic(Traffic):
    """Traffic that also passes the requests of programs that block."""

    def send_now(
        self, actor: Actor, operation: str, key: str, do: Callable[[], Any], target: str = ""
    ) -> Any:
        """As ``send``; nothing takes time, and errors are those of a filesystem."""
        self._check(actor)
        self.count += 1
        request = Request(self.count, actor.name, operation, key, target=target)
        self.log.append(request)
        if self._before is not None:
            self._before(request)
        kind = fault.kind if (fault := self.fault_for(request)) is not None else None
        if kind is Kind.CRASH_BEFORE:
            self._kill(actor)
        if kind in _REFUSED:
            raise OSError(f"{request}: refused, as the test wants")
        try:
            result = do()
        except OSError:
            if kind is Kind.CRASH_AFTER:
                self._kill(actor)
            raise
        finally:
            if self._after is not None:
                self._after(request)
        if kind is Kind.CRASH_AFTER:
            self._kill(actor)
        if kind in _LOST:
            raise OSError(f"{request}: the reply was lost, as the test wants")
        return result


class Member(Protocol):
    """Whoever uses the filesystem.

    Attributes:
        actor: Its name for requests.
        world: What it works on.
        traffic: Passed by its requests.
    """

    actor: Actor
    world: SnapshotWorld
    traffic: Traffic


CURRENT: ContextVar[Member] = ContextVar("the process that runs")
"""Who runs now: a filesystem is found by its URL alone, in whatever process."""


class ClusterFileSystem(AbstractFileSystem):
    """As much of a filesystem as committers need. A rename is one step; the files of a tree go one by one."""

    protocol = _SCHEME
    cachable = False

    def info(self, path: str, **_kwargs: Any) -> dict[str, Any]:
        def do() -> dict[str, Any]:
            body = self._found(path)
            return {"name": path, "type": "directory" if body is None else "file", "size": len(body or b"")}

        return self._ask("head", path, do)  # type: ignore[no-any-return]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_kwargs: Any) -> bytes:
        def do() -> bytes:
            body = self._found(path)
            if body is None:
                raise IsADirectoryError(path)
            return body[start:end]

        return self._ask("get", path, do)  # type: ignore[no-any-return]

    def ls(self, path: str, detail: bool = True, **_kwargs: Any) -> list[Any]:
        def do() -> list[Any]:
            if self._found(path) is not None:
                return [path]
            return sorted(one for one in self._files if one.rpartition("/")[0] == path)

        names: list[str] = self._ask("list", path, do)
        return [{"name": name} for name in names] if detail else names

    def makedirs(self, path: str, exist_ok: bool = False) -> None:  # noqa: ARG002
        def do() -> None:
            elements = path.split("/")
            for number in range(1, len(elements) + 1):
                self._files.setdefault("/".join(elements[:number]), None)

        self._ask("make_directory", path, do)

    def pipe_file(self, path: str, value: bytes, **_kwargs: Any) -> None:
        def do() -> None:
            self._found(path.rpartition("/")[0])
            self._files[path] = value

        self._ask("write", path, do)

    def mv(self, path1: str, path2: str, **_kwargs: Any) -> None:
        def do() -> None:
            self._found(path1)
            self._files[path2] = self._files.pop(path1)

        self._ask("rename", path1, do, path2)

    def rm_file(self, path: str) -> None:
        def do() -> None:
            self._found(path)
            del self._files[path]

        self._ask("delete", path, do)

    def rmdir(self, path: str) -> None:
        def do() -> None:
            self._found(path)
            if any(one.startswith(f"{path}/") for one in self._files):
                raise OSError(f"{path} is not empty")
            del self._files[path]

        self._ask("delete", path, do)

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:  # noqa: ARG002
        for name in sorted((one for one in self._files if one.startswith(f"{path}/")), reverse=True):
            self.rm_file(name)
        self.rm_file(path)

    @property
    def _files(self) -> dict[str, bytes | None]:
        return CURRENT.get().world.cluster

    def _found(self, path: str) -> bytes | None:
        if path not in self._files:
            raise FileNotFoundError(path)
        return self._files[path]

    def _ask(self, operation: str, path: str, do: Callable[[], Any], target: str = "") -> Any:
        member = CURRENT.get()
        assert isinstance(member.traffic, SceneTraffic)
        return member.traffic.send_now(member.actor, operation, path, do, target)


fsspec.register_implementation(_SCHEME, ClusterFileSystem, clobber=True)
