"""Jobs that an earlier magicfs set up with ``publish="flip"``: they are found, and nothing carries them out.

Such a job made its dataset in a hidden directory next to its destination, and then the two changed places.

::

    PARENT/.sales.magicfs-<job>           the new dataset; the replaced one, once they had changed places
    PARENT/.sales.magicfs-<job>~old       the replaced one, where changing places took two renames
"""

from __future__ import annotations

from typing import Final

from magicfs.errors import UsageError
from magicfs.protocol import ids, paths
from magicfs.protocol.ids import JobId

__all__ = ["ASIDE", "directory_of", "job_of", "listing_prefix", "refusal", "refusal_of_rest"]

ASIDE: Final = "~old"
"""How the path ends to which the replaced dataset was renamed; no id of a job ends so."""

_MARK: Final = ".magicfs-"


def directory_of(destination: str, job: JobId) -> str:
    """The directory next to a destination in which such a job made its dataset."""
    return f"{listing_prefix(destination)}{job}"


def listing_prefix(destination: str) -> str:
    """How the paths of all such directories of a destination begin."""
    parent, _, name = destination.rpartition("/")
    return paths.join(parent, f".{name}{_MARK}")


def job_of(destination: str, directory: str) -> JobId | None:
    """The job of a directory next to a destination; None if it is none of these."""
    prefix, name = listing_prefix(destination), directory.removesuffix(ASIDE)
    if not name.startswith(prefix) or _MARK in name.removeprefix(prefix):  # of sales.magicfs-1, not of sales
        return None
    try:
        return ids.job_id(name.removeprefix(prefix))
    except UsageError:
        return None


def refusal(bucket: str, destination: str, job: JobId, new: str, work: str) -> str:
    """Why nobody acts on a job whose object, in the directory ``work``, names the directory ``new``.

    Until the two have changed places, and the object with them, readers see nothing of the job.
    """
    made, named = f"{bucket}/{directory_of(destination, job)}", f"{bucket}/{new}"
    steps = f"remove the directory {made!a}, and then {work!a}"
    if made != named:
        steps = f"leave {named!a} alone, which is not where such a job makes its dataset, and remove {work!a}"
    return f"{_refused(job)}; no file of it is visible; to end it, stop its processes, {steps}"


def refusal_of_rest(bucket: str, destination: str, job: JobId, *, aside: bool) -> str:
    """The same of a job of which only directories next to the destination are left.

    ``aside``: whether the replaced dataset was renamed.
    """
    place, made = f"{bucket}/{destination}", f"{bucket}/{directory_of(destination, job)}"
    steps = (
        f"look into {made!a}, which holds the dataset that the job replaced, or files that it never "
        f"published; remove it once {place!a} holds what it should"
    )
    if aside:
        old = f"{made}{ASIDE}"
        steps = (
            f"rename {old!a} to {place!a} if nothing is there, for it is the dataset that was there before; "
            f"then remove what is left of {old!a} and {made!a}"
        )
    return f"{_refused(job)}; to end it, stop its processes, and {steps}"


def _refused(job: JobId) -> str:
    return (
        f"job {job} was set up with publish='flip', which this version of magicfs no longer carries out; "
        "nothing was changed"
    )
