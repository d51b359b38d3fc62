"""A world of forged records: whatever stands in them, nothing outside of the job's place is touched.

Each field of each format is given hostile values, in scenes with jobs that died in each state; then a command
is run, or the job's run again. Nothing outside of the destination is created, changed, deleted or copied, and
only our own errors come out.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any, Final

import pyarrow as pa

import magicfs
from magicfs import datasets
from magicfs.datasets.connection import on_destination
from magicfs.errors import MagicError
from magicfs.past.expire import expire_kept
from proofs.hostile.forgery import Forgery, forgeries, lay
from proofs.hostile.ground import (
    CANARY,
    SCENES,
    Ground,
    LocalGround,
    MemoryGround,
    S3Ground,
    built,
    impatient,
)
from proofs.hostile.part import Attacked, Found
from proofs.hostile.wrong_lines import LINE_MUTANTS
from proofs.hostile.wrong_rows import ROW_MUTANTS

__all__ = ["MUTANTS", "NAME", "fixed", "fuzz", "tried"]

NAME: Final = "records"
MUTANTS: Final[tuple[Attacked, ...]] = (*ROW_MUTANTS, *LINE_MUTANTS)
_SEED: Final = 36
"""Draws what the default suite tries."""
_LATER_MS: Final = 10**13
_Command = Callable[[Ground, str, str], object]


def _run_again(ground: Ground, url: str, _: str) -> None:
    again = magicfs.Job(url, mode="append", run_id="today", filesystem=ground.filesystem)
    with again, again.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/day=1/again.csv", b"a\n9\n")


def _replace(ground: Ground, url: str, _: str) -> None:
    new = magicfs.Job(url, mode="overwrite_partitions", filesystem=ground.filesystem)
    with new, new.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/day=1/new.csv", b"a\n8\n")


def _read(ground: Ground, url: str, _: str) -> None:
    # Readers believe the size that a manifest gives: less of a file may be no file any more, as pyarrow says.
    with suppress(pa.ArrowInvalid):
        magicfs.Dataset(url, filesystem=ground.filesystem).to_arrow(format="csv").to_table()


def _expire(ground: Ground, url: str, _: str) -> object:
    return on_destination(expire_kept, url, None, ground.filesystem, now_ms=_LATER_MS)


def _write_on(ground: Ground, url: str, job: str) -> None:
    """Write below the task of a job that somebody else has set up, by path alone."""
    fs = magicfs.MagicFileSystem(fs=ground.filesystem)
    base = url.partition("://")[2] if ground.bucket else "/" + ground.key("sales")
    path = f"{base}/__magic_job-{job}/job-{job}/00/tasks/attempt-000000-abcdef012345/__base/day=1/x.csv"
    fs.pipe_file(path, b"a\n7\n")
    fs.rm(path)


def _of(verb: Callable[..., object], **how: Any) -> _Command:
    return lambda ground, url, _: verb(magicfs.Dataset(url, filesystem=ground.filesystem), **how)


def _recover(**how: Any) -> _Command:
    return lambda ground, url, job: magicfs.Dataset(url, filesystem=ground.filesystem).recover(job=job, **how)


def _of_job(function: Callable[..., object], **how: Any) -> _Command:
    return lambda ground, url, job: function(url, job=job, filesystem=ground.filesystem, **how)


def _of_path(verb: Callable[..., object]) -> _Command:
    return lambda ground, url, _: verb(magicfs.MagicFileSystem(ground.filesystem), f"{url}/__magic/mine")


COMMANDS: Final[Mapping[str, _Command]] = {
    "recover": _recover(),
    "recover all": _of(magicfs.Dataset.recover),
    "recover --dry-run": _of(magicfs.Dataset.recover, dry_run=True),
    "recover --rollback": _recover(rollback=True),
    "recover --abort": _recover(abort=True),
    "abort": _of_job(datasets.abort),
    "commit": _of_job(datasets.commit),
    "commit --accept": _of_job(datasets.commit, accept="it is fine", allow_empty=True),
    "run again": _run_again,
    "overwrite": _replace,
    "write below a task": _write_on,
    "doctor": _of(magicfs.Dataset.doctor),
    "status": _of(magicfs.Dataset.status),
    "verify": _of(magicfs.Dataset.verify),
    "verify --deep": _of(magicfs.Dataset.verify, deep=True),
    "log": _of(magicfs.Dataset.history),
    "footers": _of(magicfs.Dataset.footers),
    "read": _of(magicfs.Dataset.files, last=True),
    "dataset": _read,
    "expire": _expire,
    "compact": _of(magicfs.Dataset.compact),
    "rollback": _of(magicfs.Dataset.rollback, to="good", keep=None),
    "drop": _of(magicfs.Dataset.drop, partitions="day=1", keep="1d"),
    "tag": _of(magicfs.Dataset.tag, name="another"),
    "untag": _of(magicfs.Dataset.untag, name="good"),
    "adopt": _of(magicfs.Dataset.adopt),
    "publish": _of_path(magicfs.MagicFileSystem.publish),
    "discard": _of_path(magicfs.MagicFileSystem.discard),
}
"""What somebody runs at the destination, by name."""


def _job_of(ground: Ground) -> str:
    """The job that is unfinished, as its directory has it; another id if there is none."""
    marker = ground.key("sales/__magic_job-")
    named = [key.removeprefix(marker).partition("/")[0] for key in ground.objects() if key.startswith(marker)]
    return named[0] if named else "00000000-0000-4000-8000-000000000000"


def tried(ground: Ground, forged: Forgery, command: str) -> str | None:
    """What a command that meets a forged record does wrong; None if nothing. The ground is left as it is."""
    job = _job_of(ground)
    lay(ground, forged)
    before = _outside(ground, forged.scene)
    problem = None
    try:
        COMMANDS[command](ground, ground.url("sales"), job)
    except MagicError:
        pass
    except ExceptionGroup as group:
        rest = group.split(MagicError)[1]
        problem = None if rest is None else f"raised {rest!r}"
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        problem = f"raised {error!r}"
    if (after := _outside(ground, forged.scene)) != before:
        keys = before.keys() | after.keys()
        changed = sorted(str(key) for key in keys if before.get(key) != after.get(key))
        problem = f"changed {', '.join(changed[:3])}, outside of the destination"
    own = ground.key("sales/")
    copied = [key for key, body in ground.objects().items() if CANARY in body and key.startswith(own)]
    if copied and not problem:
        problem = f"copied a neighbor's bytes to {copied[0]}"
    return None if problem is None else f"{command} after {forged}: {problem}"


def _outside(ground: Ground, scene: str) -> Mapping[Any, object]:
    """All that must stay. A job that truly has an extra destination may add to that."""
    found = ground.outside()
    if scene != "elsewhere":
        return found
    late = ground.key("late")
    return {key: value for key, value in found.items() if late not in str(key) or "part-000000" in str(key)}


class _Scenes:
    """Scenes on a ground, each with what brings it back."""

    def __init__(self, make: Callable[[], Ground], stack: ExitStack) -> None:
        self.grounds: dict[str, Ground] = {}
        self._restore: dict[str, Callable[[], None]] = {}
        for scene in SCENES:
            ground = make()
            stack.callback(ground.close)
            built(ground, scene)
            self.grounds[scene] = ground
            self._restore[scene] = ground.keep()

    def attack(self, forged: Forgery, command: str, found: Found) -> None:
        """Try one, and bring the ground back."""
        trouble = tried(self.grounds[forged.scene], forged, command)
        found.counts["commands"] += 1
        if trouble is not None:
            found.violations.append(trouble)
        self._restore[forged.scene]()


def fixed() -> Found:
    """Each field of each format once, and of job objects once in each scene; each met by another command."""
    found, commands, met = Found(), itertools.cycle(COMMANDS), set[tuple[str, str, str]]()
    with ExitStack() as stack, impatient():
        scenes = _Scenes(MemoryGround, stack)
        for scene, ground in scenes.grounds.items():
            for forged in forgeries(ground, scene, _SEED):
                whose = forged.kind, forged.field, scene if forged.kind == "job" else ""
                if whose in met:
                    continue
                met.add(whose)
                found.counts["records"] += 1
                scenes.attack(forged, next(commands), found)
    return found


def fuzz(until: float, seed: int) -> Found:
    """Forgeries drawn by a seed: each met by all commands in memory, by one on local files and on S3."""
    found, number = Found(), 0
    with ExitStack() as stack, impatient():
        worlds = [_Scenes(make, stack) for make in (MemoryGround, LocalGround, S3Ground)]
        drawn = [
            [forgeries(ground, scene, seed) for scene, ground in world.grounds.items()] for world in worlds
        ]
        while time.monotonic() < until:
            number += 1
            world = 0 if number % 10 else 1 + number // 10 % 2
            scenes = drawn[world]
            if (forged := next(scenes[number // 10 % len(scenes)], None)) is None:
                continue
            found.counts["records"] += 1
            names = list(COMMANDS)
            chosen = names if world == 0 else [names[number % len(names)]]
            for command in chosen:
                worlds[world].attack(forged, command, found)
    return found
