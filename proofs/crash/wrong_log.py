"""The mutants of the log of publications: each is one line made wrong, and the trial that must notice it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from proofs.scenes.mutants import Mutant

__all__ = ["LOG_MUTANTS", "WrongLog"]

_LOG: Final = "magicfs.manifests.log"
_NAMES: Final = "magicfs.manifests.log_files"
_GROWTH: Final = "magicfs.past.log_growth"
_ADOPT: Final = "magicfs.operate.adopt"


@dataclass(frozen=True, slots=True)
class WrongLog(Mutant):
    """A wrong line of the log, and what is tried to notice it."""

    trials: tuple[str, ...] = ("grown",)


LOG_MUTANTS: Final = (
    WrongLog("jobs stand in the log and in a part", _GROWTH, "last=tuple(last[full:]),", "last=tuple(last),"),
    WrongLog(
        "newer parts come before older ones",
        _GROWTH,
        "found, level = [*older, *here[full:], *newer], level + 1",
        "found, level = [*newer, *here[full:], *older], level + 1",
    ),
    WrongLog(
        "the log before is not told as outdated", _GROWTH, "left.append(whose(before[0]))", "whose(before[0])"
    ),
    WrongLog(
        "sets that were put together are not told as outdated",
        _GROWTH,
        "outdated += [file_of_names(older, number) for number in range(len(older.sha256))]",
        "outdated += []",
    ),
    WrongLog(
        "of two sets that name a run the older counts",
        _NAMES,
        "found = await gathered(reversed(log.names), look, AT_ONCE)",
        "found = await gathered(log.names, look, AT_ONCE)",
    ),
    WrongLog(
        "of two sets put together the older counts",
        _NAMES,
        "return Names({**older.runs, **self.runs}, {**older.jobs, **self.jobs})",
        "return Names({**self.runs, **older.runs}, {**older.jobs, **self.jobs})",
    ),
    WrongLog(
        "of two of the last jobs of a run the older counts",
        _NAMES,
        "job = next((one.job_id for one in reversed(log.last) if one.run_id == run), None)",
        "job = next((one.job_id for one in log.last if one.run_id == run), None)",
    ),
    WrongLog(
        "what the log tells of is read from manifests, too",
        _LOG,
        "if one.previous is not None and past.tells_of(one.previous):",
        "if False:",
    ),
    WrongLog(
        "a moment is looked for in the oldest part",
        _LOG,
        "part = next((one for one in reversed(parts) if one.oldest_ms <= moment_ms), None)",
        "part = next((one for one in parts if one.oldest_ms <= moment_ms), None)",
    ),
    WrongLog(
        "new jobs come into the log the newest first",
        _GROWTH,
        "return found[::-1], named",
        "return found, named",
    ),
    WrongLog(
        "who meets a log that is superseded does not ask again",
        _LOG,
        "if again is None or again[0].log == pointer.log:",
        "if True:",
        ("read",),
    ),
    WrongLog(
        "who looks into a log that is superseded does not ask again",
        _LOG,
        "if again is None or again.pointer.log == past.pointer.log:",
        "if True:",
        ("read",),
    ),
    WrongLog(
        "a compaction deletes what its own log does not need, before that is linked",
        _GROWTH,
        'outdated=(*outdated, *("/".join(at) for at in left)),',
        "outdated=tuple([await delete_outdated(store, destination, old)] and ()) if old else (),",
        ("cut", "beside"),
    ),
    WrongLog(
        "runs that a lost log named count as never published",
        _ADOPT,
        "return replace(pointer, log=None, nonce=uuid4().hex).unsure()",
        "return replace(pointer, log=None, nonce=uuid4().hex)",
        ("lost",),
    ),
    WrongLog(
        "nobody looks whether the names of a log are lost",
        _ADOPT,
        "await read_set(store, destination, names)",
        "pass",
        ("lost",),
    ),
)
