"""Who hears of a publication."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import urlsplit, urlunsplit

from magicfs.datasets.connection import Destination, open_destination
from magicfs.engine import Engine
from magicfs.errors import UsageError
from magicfs.formats.registration import Registration
from magicfs.manifests import registrations
from magicfs.notify.events import cloud_event, lineage_event
from magicfs.notify.post import check_address, post, shown
from magicfs.notify.published import Published, published
from magicfs.protocol.paths import Location

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem

    from magicfs.report import JobReport

_NAME: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_LINEAGE: Final = "/api/v1/lineage"


class Notifier(ABC):
    """Hears of each publication at least once.

    A second notification of the same publication is equal to the first. Others wait in the store under the
    kind and name of this one.
    """

    __slots__ = ("name",)
    kind: ClassVar[str]

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(str(name)):
            raise UsageError(
                f"{name!a} is not a name of a notification; use 1 to 128 letters, digits, and . _ : -"
            )
        self.name = name

    @abstractmethod
    def send(self, one: Published) -> None:
        """Notify. Raises any error if that failed."""

    def registration(self, url: str, job_id: str) -> Registration:
        """What a job records until it has notified."""
        line = f"magicfs recover {url} --notify FILE, in which [{self.name}] is a {self.kind}"
        return Registration(job_id=job_id, catalog=self.kind, table=self.name, line=line)

    def announce(self, report: JobReport, *, filesystem: AbstractFileSystem) -> None:
        """Notify of a job that was published just now, or before; of that only if nobody has."""
        place = open_destination(report.destination, filesystem=filesystem, for_reading=True)
        own = self.registration(report.destination, report.job_id)
        if not report.published_before or place.run(_is_owed, own):
            self.deliver(place, own)

    def deliver(self, place: Destination, owed: Registration) -> None:
        """Notify of the publication of a record, and remove the record."""
        self.send(place.run(published, owed.job_id))
        place.run(_delivered, owed)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Function(Notifier):
    """Calls a function.

    Args:
        function: Called with a ``Published``. If it raises, it counts as not notified.
        name: A name for ``magicfs recover``; by default its module and name, such as ``sales.hooks:loaded``.
    """

    __slots__ = ("_function",)
    kind = "function"

    def __init__(self, function: Callable[[Published], object], name: str | None = None) -> None:
        if not callable(function):
            raise UsageError(f"{function!r:.80} is not a function; pass one that takes a Published")
        own = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
        super().__init__(re.sub(r"[^A-Za-z0-9._:-]", "_", own)[-128:] if name is None else name)
        self._function = function

    def send(self, one: Published) -> None:
        self._function(one)


class Webhook(Notifier):
    """Posts a CloudEvent 1.0 in JSON.

    Args:
        url: The address. Messages show only its host.
        name: A name for ``magicfs recover``.
        headers: Headers to send, such as ``{"Authorization": "Bearer …"}``. They go nowhere else, and need
            ``https://``.
    """

    __slots__ = ("_headers", "_url")
    kind = "webhook"

    def __init__(self, url: str, *, name: str = "webhook", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(name)
        self._url, self._headers = url, check_address(url, headers)

    def send(self, one: Published) -> None:
        post(self._url, cloud_event(one), "application/cloudevents+json; charset=utf-8", self._headers)

    def __repr__(self) -> str:
        return f"<Webhook {self.name} at {shown(self._url)}>"


class OpenLineage(Notifier):
    """Posts an OpenLineage run event, with the dataset as its output.

    Args:
        url: The server, such as ``https://marquez.example``; without a path, ``/api/v1/lineage`` is added.
        job: The name of what ran, such as ``sales.publish``.
        namespace: The name space of that job.
        name: A name for ``magicfs recover``.
        headers: As for ``Webhook``.
    """

    __slots__ = ("_headers", "_job", "_namespace", "_url")
    kind = "openlineage"

    def __init__(
        self,
        url: str,
        *,
        job: str,
        namespace: str = "magicfs",
        name: str = "openlineage",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name)
        self._headers = check_address(url, headers)
        at = urlsplit(url)
        self._url = url if at.path.strip("/") else urlunsplit(at._replace(path=_LINEAGE))
        if not job or not namespace:
            raise UsageError("OpenLineage needs the name of the job that ran: OpenLineage(url, job='sales')")
        self._namespace, self._job = namespace, job

    def send(self, one: Published) -> None:
        post(self._url, lineage_event(one, self._namespace, self._job), "application/json", self._headers)

    def __repr__(self) -> str:
        return f"<OpenLineage {self.name} at {shown(self._url)}>"


def notifiers(after: Sequence[object]) -> tuple[Notifier, ...]:
    """What option ``after`` of a job holds; a function becomes a ``Function``.

    Raises UsageError for anything else, and for two of the same kind and name.
    """
    if isinstance(after, str | bytes | Mapping) or not isinstance(after, Sequence):
        raise UsageError(f"after is {after!r:.80}; write a list: after=[Webhook(url)]")
    found = tuple(one if isinstance(one, Notifier) else Function(one) for one in after)  # type: ignore[arg-type]
    said = [str(one) for one in found]
    if twice := next((one for one in said if said.count(one) > 1), None):
        raise UsageError(f"after holds two of {twice}; give each its own name")
    return found


async def _is_owed(engine: Engine, location: Location, own: Registration) -> bool:
    return own.name in await registrations.all_registrations(engine.store, location.key)


async def _delivered(engine: Engine, location: Location, own: Registration) -> None:
    await registrations.remove(engine.store, location.key, [own])
