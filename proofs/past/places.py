"""Where the publications go: a bucket of a real server, or a directory; and a witness past magicfs."""

from __future__ import annotations

import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from proofs.doubles.bucket_view import S3View, is_hidden
from proofs.kill.stores import STORES, kind_of
from proofs.kill.watching import DELAYS_S, WatchingProxy

__all__ = ["PLACES", "Place", "Versions", "Way", "place_of"]

_NAME: Final = "lake 1/sales +#%ü"
_NEIGHBOUR: Final = f"{_NAME}0/day=d0/part-0.csv"
_BUCKET: Final = "past"
_SETTLE_S: Final = 30.0
_ASIDE: Final = "_magicfs/kept/"

PLACES: Final = (*STORES, "local")
"""What ``--store`` takes."""


@dataclass(frozen=True, slots=True)
class Way:
    """How processes reach the place.

    Attributes:
        options: Storage options without secrets.
        environment: Of the processes, secrets included.
    """

    options: Mapping[str, Any]
    environment: Mapping[str, str]


class Place(ABC):
    """One destination, empty in the beginning, with a neighbour whose name begins with the same letters.

    Attributes:
        url: The destination.
        options: With which readers of this process reach it.
        keeps_versions: Whether what is deleted is kept by its version.
    """

    url: str
    options: Mapping[str, Any]
    keeps_versions: bool = False

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @abstractmethod
    def all_names(self) -> list[str]:
        """Every name below the destination, relative to it."""

    @abstractmethod
    def read(self, name: str) -> bytes | None:
        """The body of a file; None if there is none."""

    @abstractmethod
    def uploads(self) -> list[str]:
        """Keys of pending uploads."""

    @abstractmethod
    def neighbour(self) -> bytes | None:
        """What the neighbour holds."""

    @abstractmethod
    def way(self) -> Any:
        """A context with a ``Way``; when it ends, all that was sent by it has been answered."""

    @abstractmethod
    def direct(self) -> Way:
        """A way without anything in between."""

    def names(self) -> set[str]:
        """What somebody takes for data who lists."""
        return {name for name in self.all_names() if _is_data(name)}

    def kept(self) -> dict[str, bool]:
        """Every name of data of which something is left, and whether it is more than a marker."""
        return dict.fromkeys([*self.names(), *self.aside()], True)

    def aside(self) -> dict[str, str]:
        """Where files lie that jobs have moved aside, by the names that they had."""
        found = [(name, name.split("/", 3)) for name in self.all_names() if name.startswith(_ASIDE)]
        return {parts[3]: name for name, parts in found if _is_data(parts[3])}

    def read_kept(self, name: str) -> bytes | None:
        """The body of a file that is there, or is kept aside or by its version."""
        body = self.read(name)
        return body if body is not None else self.read(self.aside().get(name, name))


def _is_data(name: str) -> bool:
    return not any(map(is_hidden, name.split("/")))


class _Server(Place):
    def __init__(self, store: str) -> None:
        super().__init__()
        self._server = self._stack.enter_context(STORES[store].server())
        self._kind = kind_of(self._server)
        self._server.create_bucket(_BUCKET)
        self._server.write(_BUCKET, _NEIGHBOUR, b"others'")
        self.url = f"{self._server.scheme}://{_BUCKET}/{_NAME}"
        self.options = self._server.storage_options()

    def all_names(self) -> list[str]:
        return [key[len(_NAME) + 1 :] for key in self._server.all_keys(_BUCKET, f"{_NAME}/")]

    def read(self, name: str) -> bytes | None:
        return self._server.read(_BUCKET, f"{_NAME}/{name}")

    def uploads(self) -> list[str]:
        return sorted(key for key, _ in self._server.uploads(_BUCKET, f"{_NAME}/"))

    def neighbour(self) -> bytes | None:
        return self._server.read(_BUCKET, _NEIGHBOUR)

    @contextmanager
    def way(self) -> Iterator[Way]:
        with WatchingProxy(self._server.endpoint, self._kind, _NAME, DELAYS_S) as proxy:
            yield Way(
                self._kind.options(self._server, proxy.endpoint),
                self._kind.environment(self._server, proxy.endpoint),
            )
            # A request goes on to the server when its sender is dead.
            if not proxy.settle(_SETTLE_S):
                raise TimeoutError("requests did not settle")

    def direct(self) -> Way:
        endpoint = self._server.endpoint
        return Way(self._kind.options(self._server, endpoint), self._kind.environment(self._server, endpoint))


class Versions(_Server):
    """A bucket that keeps versions, which ``view`` shows."""

    keeps_versions = True

    def __init__(self) -> None:
        super().__init__("s3")
        assert isinstance(self._server, S3View)
        self.view = self._server
        self.view.keep_versions(_BUCKET)

    def kept(self) -> dict[str, bool]:
        found: dict[str, bool] = {}
        for key, _, is_marker in self.view.versions(_BUCKET, f"{_NAME}/"):
            name = key[len(_NAME) + 1 :]
            if _is_data(name):
                found[name] = found.get(name, False) or not is_marker
        return found

    def read_kept(self, name: str) -> bytes | None:
        key = f"{_NAME}/{name}"
        found = self.view.versions(_BUCKET, key)
        ids = [version for one, version, is_marker in found if one == key and not is_marker]
        return self.view.read_version(_BUCKET, key, ids[0]) if len(ids) == 1 else None


class _Directory(Place):
    def __init__(self) -> None:
        super().__init__()
        top = Path(tempfile.mkdtemp(prefix="magicfs-past-"))
        self._stack.callback(shutil.rmtree, top)
        self._top = top / _NAME
        self._neighbour = top / _NEIGHBOUR
        self._neighbour.parent.mkdir(parents=True)
        self._neighbour.write_bytes(b"others'")
        self.url = str(self._top)
        self.options = {}

    def all_names(self) -> list[str]:
        found = [Path(top) / name for top, _, names in os.walk(self._top) for name in names]
        # A process that dies while it writes, or opens an upload, leaves what docs/stores.md says.
        kept = [one for one in found if not one.name.startswith(".magicfs-")]
        return [str(one.relative_to(self._top)) for one in kept if not one.parent.name.endswith(".new")]

    def read(self, name: str) -> bytes | None:
        try:
            return (self._top / name).read_bytes()
        except FileNotFoundError:
            return None

    def uploads(self) -> list[str]:
        return []

    def neighbour(self) -> bytes | None:
        return self._neighbour.read_bytes()

    @contextmanager
    def way(self) -> Iterator[Way]:
        yield Way({}, {})

    def direct(self) -> Way:
        return Way({}, {})


def place_of(store: str, *, versioned: bool = False) -> Place:
    """A new place on a kind of store; ``versioned``: a bucket of S3 that keeps versions."""
    if versioned:
        return Versions()
    return _Directory() if store == "local" else _Server(store)
