"""Options of a job as tests write them: side by side, whatever takes them."""

from __future__ import annotations

from typing import Any

from magicfs.committers.registry import FileOptions, ManifestOptions, StagingOptions
from magicfs.formats.job_options import GIVEN
from magicfs.job.checks import OWN

__all__ = ["arranged"]

_OF_COMMITTERS = frozenset(
    name for kind in (FileOptions, ManifestOptions, StagingOptions) for name in kind.__dataclass_fields__
)


def arranged(**given: Any) -> dict[str, Any]:
    """Arguments of ``Job``, with those in ``options`` that belong there."""
    rest = dict(given)
    options = {**(rest.pop("options", None) or {}), **(rest.pop("committer_options", None) or {})}
    moved = {*given} & {*GIVEN, *OWN, *_OF_COMMITTERS}
    options |= {name: rest.pop(name) for name in given if name in moved}
    return rest | {"options": options} if options else rest
