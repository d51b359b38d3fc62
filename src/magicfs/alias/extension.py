"""What a job with option ``alias`` does: claims the place, records the name, and copies in the end."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import Final

from magicfs.alias.follow import claim, follow, withdraw
from magicfs.alias.places import AliasPlace
from magicfs.alias.records import read_name, write_name
from magicfs.engine import Engine
from magicfs.errors import FormatError, UsageError
from magicfs.formats.job_object import JobObject
from magicfs.protocol.modes import is_data
from magicfs.protocol.paths import Location
from magicfs.stores.conditions import Conditions
from magicfs.transaction.context import JobContext
from magicfs.transaction.extension import Extension, Prepared, Settling

_MODES: Final = frozenset({"append", "overwrite_partitions"})
"""Of jobs after which a dataset shows what earlier jobs have published, too."""


class Alias(Extension):
    """Keeps a copy of the only file of a dataset at a place next to it. A job without the option moves it,
    too, where an earlier one had it.
    """

    follows = True
    _withdrawn = ""  # what ``settle`` has to say of the alias under another name

    def at_setup(self, context: JobContext, job: JobObject) -> None:
        for options in (context.options, job.options):
            if options.alias is not None:
                _place(context, job.bucket, options.alias)
                if options.mode in _MODES:
                    raise UsageError(
                        f"alias={options.alias!r} shows a dataset of one file, and mode={options.mode!r} "
                        "leaves files of earlier jobs; nothing was changed; use mode='overwrite', or leave "
                        "alias out"
                    )

    async def mark_places(self, engine: Engine, context: JobContext, conditions: Conditions) -> None:
        """Claim the place, as the caller of the job asks. No job object is believed that far."""
        if context.options.alias is not None:
            place = _place(context, engine.store.bucket, context.options.alias)
            await claim(engine, place, conditions, context.options.places.extra)

    async def on_output(self, job: Prepared) -> None:
        """Raises UsageError, before anything is visible, if the alias could not show what is published."""
        context, asked = job.context, job.version.job
        if asked.options.alias is None:
            return
        keys = job.output.shown_keys(context.layout.destination)
        if len([*islice((one for one in keys if is_data(one, context.layout.destination)), 2)]) > 1:
            raise UsageError(
                f"job {context.job} publishes {job.output.files} files, and alias={asked.options.alias!r} "
                "shows one; nothing was published; write one file (one task, no partitions), or leave alias "
                "out"
            )

    async def settle(self, job: Settling) -> None:
        """Record the name, and remove the alias that the dataset has had under another one."""
        if (text := job.job.options.alias) is None:
            return
        job.manifest["follows"] = ("alias",)
        place, before = _place(job.context, job.job.bucket, text), None
        with suppress(FormatError, UsageError):
            before = await read_name(job.engine.store, place.dataset)
            if before is not None and before.text != text and await withdraw(job.engine, before):
                self._withdrawn = f"the alias {before.url()} was removed: from now on it is {place.url()}"
        if before is None or before.text != text:
            await write_name(job.engine.store, place)

    async def at_end(self, job: Settling) -> list[str] | None:
        place = await read_name(job.engine.store, _location(job.context, job.job.bucket))
        if place is None:
            return None
        done = await follow(job.engine, place)
        gone = is_gone(done.url, done.files) if done.done == "removed" else ""
        return [one for one in (self._withdrawn, gone) if one]


def is_gone(url: str, files: int) -> str:
    """What is said of an alias that was removed."""
    return f"the alias {url} was removed: it shows a dataset of one file, and there are {files} now"


def _place(context: JobContext, bucket: str, text: str) -> AliasPlace:
    return AliasPlace.of(_location(context, bucket), text)


def _location(context: JobContext, bucket: str) -> Location:
    scheme, mark, _ = context.url.partition("://")
    return Location(scheme if mark else "", bucket, context.layout.destination)
