"""Links, pipes, sockets and other people's files in every place where magicfs looks on local files.

Each case lays one thing in one place of a dataset with an ended job, a dead job and open uploads, then runs
every command. Nothing outside the dataset may change or be read into a file that others can read, nothing but
errors of magicfs may come out, nothing may hang, and commands that say that they only read change nothing.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from magicfs.stores.local import uploads as local_uploads
from proofs.hostile.local_attacks import (
    attack_above,
    attack_directory,
    attack_names_in_uploads,
    attack_private_success,
    attack_records,
    attack_second_name,
    attack_staging,
    attack_task_files,
)
from proofs.hostile.local_world import (
    CHANGING,
    KINDS,
    READING,
    UPLOAD,
    Command,
    Kind,
    World,
    lay,
    leaks,
    outside_of,
    places,
    problem_of,
    snapshot,
    world,
)
from proofs.hostile.part import Found, WrongLine

__all__ = ["MUTANTS", "NAME", "fixed", "fuzz"]

NAME: Final = "local"


def attack(place: int | str, kind: Kind, first: int | str = 0, *, quick: bool = False) -> list[str]:
    """Lay one thing in one place, run the commands, and return what must not have happened.

    ``first`` is the changing command to begin with, by number or name. A quick attack runs fewer commands.
    """
    if isinstance(first, str):
        first = [name for name, _ in CHANGING].index(first)
    first %= len(CHANGING)
    with world() as found:
        there, uploads = places(found), list(found.destination.glob(".magicfs-uploads/*/data"))
        where = place if isinstance(place, str) else there[place % len(there)]
        where = next((one for one in there if one.endswith(where)), where)
        lay(found, where, kind)
        local_uploads._tidied.clear()  # noqa: SLF001 - as in a process that has just begun
        laid, inside = found.destination.parent / where, snapshot(found.destination)
        order = [*CHANGING[first:], *CHANGING[:first]]
        violations = [] if len(uploads) == 3 else ["somebody has removed uploads that were open"]
        violations += _obeyed(found, laid, kind, READING[: 4 if quick else None])
        if snapshot(found.destination) != inside:
            violations.append("commands that only read changed the destination")
        violations += _obeyed(found, laid, kind, order[: 3 if quick else None])
        if leaking := leaks(found):
            violations.append(f"others can read what is private in {', '.join(leaking)}")
    return [f"{kind} at {where}: {one}" for one in violations]


def _obeyed(found: World, laid: Path, kind: Kind, commands: Sequence[Command]) -> list[str]:
    """Run commands; what must not have happened."""
    violations: list[str] = []
    outside = outside_of(found, laid, kind)
    for name, command in commands:
        if (problem := problem_of(found, command)) is not None:
            violations.append(f"{name} {problem}")
        if (now := outside_of(found, laid, kind)) != outside:
            changed = sorted(one for one in now.keys() | outside.keys() if now.get(one) != outside.get(one))
            violations.append(f"{name} changed {', '.join(changed[:3])}")
            outside = now
    return violations


_ATTACKS: Final[Sequence[Callable[[], list[str]]]] = (
    attack_private_success,
    attack_records,
    attack_names_in_uploads,
    attack_second_name,
    attack_task_files,
    attack_staging,
    partial(attack_directory, at_once=True),
    partial(attack_directory, at_once=False),
    *((attack_above,) if os.geteuid() == 0 else ()),
)
_EVERY_KIND_AT: Final = ("sales/_SUCCESS", UPLOAD, "_magicfs/current.json")


def _attacked(cases: Iterator[tuple[int | str, Kind, int]], until: float | None = None) -> Found:
    found = Found()
    for place, kind, first in cases:
        if until is not None and time.monotonic() >= until:
            break
        found.violations += attack(place, kind, first, quick=until is None)
        as_somebody = kind == "somebody else's" and os.geteuid() != 0
        found.counts["local_cases_without_another_user" if as_somebody else "local_cases"] += 1
    return found


def fixed() -> Found:
    """Each place once, with each kind in turn, and all kinds in three places."""
    with world() as found:
        number = len(places(found))
    cases: list[tuple[int | str, Kind, int]] = [(n, KINDS[n % len(KINDS)], n) for n in range(number)]
    cases += [(place, kind, 0) for place in _EVERY_KIND_AT for kind in KINDS]
    done = _attacked(iter(cases))
    for one in _ATTACKS:
        done.violations += one()
        done.counts["local_cases"] += 1
    return done


def fuzz(until: float, seed: int) -> Found:
    """Any kind in any place, beginning with any command, until a moment of ``time.monotonic``."""
    drawn = random.Random(seed)  # noqa: S311 - repeatable

    def cases() -> Iterator[tuple[int | str, Kind, int]]:
        while True:
            yield drawn.randrange(10_000), drawn.choice(KINDS), drawn.randrange(len(CHANGING))

    return _attacked(cases(), until)


_HELD: Final = "magicfs.stores.local.held"
_PLACES: Final = "magicfs.stores.local.places"
_FILES: Final = "magicfs.stores.local.files"

MUTANTS: Sequence[WrongLine] = (
    WrongLine(
        "a link in the place of a directory of uploads is followed",
        _HELD,
        "descriptor = os.open(path, DIRECTORY | NO_LINK, dir_fd=above)",
        "descriptor = os.open(path, DIRECTORY, dir_fd=above)",
        partial(attack, "sales/.magicfs-uploads", "moved away and linked", "the run again"),
    ),
    WrongLine(
        "a link in the place of an upload is followed",
        _HELD,
        "descriptor = os.open(name, DIRECTORY | NO_LINK, dir_fd=place)",
        "descriptor = os.open(name, DIRECTORY, dir_fd=place)",
        partial(attack, UPLOAD, "link to a private directory", "a replacing job"),
    ),
    WrongLine(
        "any name in an upload is removed",
        _HELD,
        "for name in filter(MADE.fullmatch, os.listdir(self.descriptor)):",
        "for name in os.listdir(self.descriptor):",
        attack_names_in_uploads,
    ),
    WrongLine(
        "a listing of uploads removes some",
        "magicfs.stores.local.uploads",
        "_, is_open = find(root, key, upload_id)",
        "is_open = abort(root, key, upload_id)",
        partial(attack, "sales/__magic", "directory"),
    ),
    WrongLine(
        "a part is written into a file with a second name",
        "magicfs.stores.local.parts",
        "if os.fstat(descriptor).st_nlink > 1:",
        "if False:",
        attack_second_name,
    ),
    WrongLine(
        "links below a name of ours are followed at once",
        _PLACES,
        'quick = _opened_at_once(descriptor, "/".join(names))',
        'quick = None if make else os.open("/".join(names), DIRECTORY, dir_fd=descriptor)',
        partial(attack_directory, at_once=True),
    ),
    WrongLine(
        "links below a name of ours are followed one by one",
        _PLACES,
        "return os.open(name, DIRECTORY | NO_LINK, dir_fd=above)",
        "return os.open(name, DIRECTORY, dir_fd=above)",
        partial(attack_directory, at_once=False),
    ),
    WrongLine(
        "a record that is a link is read",
        _FILES,
        "descriptor = os.open(name, os.O_RDONLY | REGULAR, dir_fd=directory)",
        "descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=directory)",
        attack_records,
    ),
    WrongLine(
        "a pipe is taken for a record",
        _FILES,
        "_check_record(found, root, key)",
        "pass",
        attack_records,
    ),
    WrongLine(
        "a directory in the place of a record is taken for nothing",
        _FILES,
        "if directory is not None and (_is_record(key) or not stat.S_ISDIR(found.st_mode)):",
        "if directory is not None and not stat.S_ISDIR(found.st_mode):",
        attack_records,
    ),
    WrongLine(
        "a copy is readable by all",
        _FILES,
        "os.fchmod(descriptor, mode)",
        "os.fchmod(descriptor, 0o644)",
        attack_private_success,
    ),
    WrongLine(
        "the copy of the old _SUCCESS does not keep its mode",
        "magicfs.transaction.facts",
        "await store.put(copy.key, raw, metadata=rights_of(engine, key))",
        "await store.put(copy.key, raw)",
        attack_private_success,
    ),
    WrongLine(
        "the old _SUCCESS that is restored does not keep its mode",
        "magicfs.transaction.revert",
        "rights = facts.rights_of(engine, old.key)",
        "rights = None",
        attack_private_success,
    ),
    WrongLine(
        "a directory for temporary files of somebody else is used",
        "magicfs.committers.staging.attempts",
        "if is_own(str(parent)):  # raises for somebody else's, in a directory where everybody may make one",
        "if True:",
        attack_staging,
    ),
    WrongLine(
        "a hidden link is left out or published by a task",
        "magicfs.cli.task_files",
        "if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):",
        "if False:",
        attack_task_files,
    ),
)
if os.geteuid() == 0:  # only root can make what belongs to another user
    MUTANTS = (
        *MUTANTS,
        WrongLine(
            "a directory of uploads of another user is used",
            _HELD,
            "if found.st_uid != os.geteuid():",
            "if False:",
            partial(attack, "sales/.magicfs-uploads", "somebody else's", "the run again"),
        ),
        WrongLine(
            "an upload of another user is ended",
            _HELD,
            "if found.st_uid == os.geteuid() or is_trusted(found, os.fstat(place)):",
            "if True:",
            partial(
                attack, "sales/.magicfs-uploads/0123456789abcdef.new", "somebody else's", "a replacing job"
            ),
        ),
        WrongLine(
            "uploads are looked for above directories of others",
            "magicfs.stores.local.uploads",
            "if found != owner:",
            "if False:",
            attack_above,
        ),
    )
