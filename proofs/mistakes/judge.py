"""From what was seen to a verdict: works, refused, warned about, or lost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from magicfs.errors import MagicError
from proofs.mistakes.user import Rows, Seen, User, a_user

__all__ = ["Judged", "Mistake", "Verdict", "judge", "make"]


class Verdict(StrEnum):
    """What becomes of a mistake."""

    WORKS = "works"
    """Readers see what was meant."""
    REFUSED = "refused"
    """An error, and readers see what they saw after the last job that ended well."""
    WARNED = "warned"
    """Readers do not see what was meant, or the user's last call has failed, and the user was told."""
    LOST = "lost"
    """Readers do not see what was meant, and nobody was told; or they miss what was there before."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake. ``make`` returns the rows that its user means to be there afterwards."""

    group: str
    what: str
    make: Callable[[User], Rows]
    user: Callable[[], AbstractContextManager[User]] = a_user


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of a mistake."""

    mistake: Mistake
    verdict: Verdict
    sentence: str = ""  # what the user was told, without what is different each time


def make(mistake: Mistake) -> Judged:
    """Make a mistake, for real, and judge what came of it."""
    with mistake.user() as user:
        user.publish({"old.txt": "old"})
        user.told.clear()
        error: BaseException | None = None
        meant: Rows | None = None
        try:
            meant = mistake.make(user)
        except Exception as raised:  # noqa: BLE001 - what it was is part of the verdict
            error = raised
        before, after, bucket = user.before, user.sees(), user.bucket
    # What the garbage collector and the log had to say was heard by now.
    return judge(mistake, before, after, meant, error, user.told, bucket)


def judge(
    mistake: Mistake,
    before: Seen,
    after: Seen,
    meant: Rows | None,
    error: BaseException | None,
    told: list[str],
    bucket: str,
) -> Judged:
    """Compare what is seen with what was meant. ``meant`` is None if the user's call has failed."""
    sentences = [] if error is None else [_of_error(error)]
    refused = [after.refused] if after.refused else []
    sentence = _timeless(next(iter([*sentences, *told, *refused]), ""), bucket)
    if error is not None and after == before:
        return Judged(mistake, Verdict.REFUSED, sentence)
    wanted = Counter(meant) if meant is not None else None
    is_right = wanted is not None and _sees(after, wanted)
    if is_right:
        return Judged(mistake, Verdict.WORKS, sentence)
    kept = not Counter(before.listed if wanted is None else wanted & Counter(before.listed)) - Counter(
        after.listed
    )
    if kept and sentence and not after.broken:
        return Judged(mistake, Verdict.WARNED, sentence)
    return Judged(mistake, Verdict.LOST, _timeless(after.broken, bucket) or sentence)


def _sees(seen: Seen, wanted: Counter[str]) -> bool:
    published = wanted if seen.published is None else Counter(seen.published)
    return not seen.broken and not seen.refused and Counter(seen.listed) == wanted == published


def _of_error(error: BaseException) -> str:
    name = type(error).__name__
    first = next(iter(str(error).splitlines()), "")
    return f"{name}: {error}" if isinstance(error, MagicError) else f"{name}: {first}"


def _timeless(text: str, bucket: str) -> str:
    """A sentence without names that are new each time."""
    text = text.replace(bucket, "BUCKET").replace(str(Path.cwd()), "/here")
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "JOB", text)
    # Of several witnesses one is named, and which depends on ids.
    text = re.sub(r"_magicfs/(JOB|current)\.json", "_magicfs/….json", text)
    text = re.sub(r"attempt-(\w+)-[0-9a-z]{12}", r"attempt-\1-X", text)
    text = re.sub(r"upload-\d+", "UPLOAD", text)
    text = re.sub(r"\b[0-9a-f]{16,}\b", "TOKEN", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    text = re.sub(r"0x[0-9a-f]+", "0xADDRESS", text)
    text = re.sub(r"since (the \w+ )?\d[\w.: -]*?(?=[,;)]|$)", "since TIME", text)
    return re.sub(r"\bon '?[\w.-]*'?(?= is )", "on HOST", text)
