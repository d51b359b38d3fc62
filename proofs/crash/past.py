"""What lies in the bucket before a job, and beside it: old data, neighbours, other people's work."""

from __future__ import annotations

import functools
from collections.abc import Coroutine
from typing import Any, Final

from magicfs.committers.magic import MagicCommitter
from magicfs.protocol import ids
from magicfs.protocol.ids import JobId
from magicfs.testing.faulty_store import Traffic
from proofs.crash.beside import lay_neighbour
from proofs.crash.processes import Process, apart
from proofs.crash.settings import SHAPES, Setting
from proofs.crash.snapshots import SnapshotWorld
from proofs.crash.store_models import plain_store
from proofs.crash.writing import DESTINATION, START, Clock, context_of, write_attempt
from proofs.doubles import virtual_time

__all__ = ["before_of"]

_EARLIER: Final = JobId("00000000-0000-4000-8000-00000000000a")
_RIVAL: Final = JobId("00000000-0000-4000-8000-00000000000b")
_OLD_FILES: Final = ("p=0/part-0.bin", "p=0/old.bin", "p=9/old.bin")
_FOREIGN: Final = ("_temporary/0/task/part", ".hidden/part", "_magic/part", "p=0/_part.crc")


def before_of(setting: Setting) -> SnapshotWorld:
    """The world before a job; shared, so copy it."""
    success = SHAPES[setting.shape].success
    return _built(setting.layout, setting.store, setting.past, success, setting.names == "unique")


@functools.cache
def _built(layout: str, store: str, past: str, success: bool, unique: bool) -> SnapshotWorld:
    world = SnapshotWorld(Clock(START))
    names = "unique" if unique else "equal"
    setting = Setting.of(f"{layout},store,handed,append,two,{store},{names}")
    with apart(), virtual_time.deterministic("the past", world.clock):
        virtual_time.run(_build(world, setting, past, success))
    return world


async def _build(world: SnapshotWorld, setting: Setting, past: str, success: bool) -> None:
    plain = plain_store(world, setting.store)
    for name in (f"{DESTINATION}0/part", f"{DESTINATION}0/_SUCCESS", f"{DESTINATION} /part"):
        await plain.put(name, f"a neighbour's {name}".encode())
    for name in _FOREIGN:
        await plain.put(f"{DESTINATION}/{name}", f"somebody's {name}".encode())
    for name in (f"{DESTINATION}0/part", f"{DESTINATION}/p=0/part-0.bin", f"{DESTINATION}/p=1/new.bin"):
        await plain.create_upload(name, metadata={})
    if past in {"foreign", "elsewhere"}:
        for name in _OLD_FILES if past == "foreign" else _OLD_FILES[2:]:
            await plain.put(f"{DESTINATION}/{name}", f"old {name}".encode())
    if past == "chain":
        await _sound(Process("earlier", world, Traffic(), setting.store), _earlier(world, setting))
    if success and past != "chain":
        await plain.put(f"{DESTINATION}/_SUCCESS", b'{"jobId": "somebody"}')
    if not success:
        await plain.delete([f"{DESTINATION}/_SUCCESS"])
    await _sound(Process("rival", world, Traffic(), setting.store), _rival(world, setting))
    lay_neighbour(world, _RIVAL)


async def _sound(process: Process, program: Coroutine[Any, Any, None]) -> None:
    outcome = await process.play(program)
    if outcome.error is not None:
        raise outcome.error


async def _earlier(world: SnapshotWorld, setting: Setting) -> None:
    """A job that was published before."""
    driver = Process("earlier", world, Traffic(), setting.store)
    context = context_of(setting, _EARLIER)
    committer = MagicCommitter(context, driver.engine)
    await committer.setup_job()
    task = ids.task_id(0)
    attempt = ids.attempt_id(task, "0a")
    await write_attempt(driver, context, attempt, _OLD_FILES)
    report = await committer.commit_job([await committer.commit_task(task, attempt)])
    assert not report.warnings, report.warnings


async def _rival(world: SnapshotWorld, setting: Setting) -> None:
    """A job that is open, and stays so: its driver is thinking."""
    driver = Process("rival", world, Traffic(), setting.store)
    context = context_of(setting, _RIVAL)
    committer = MagicCommitter(context, driver.engine)
    await committer.setup_job()
    for number, end in enumerate(("committed", "writing")):
        task = ids.task_id(number)
        attempt = ids.attempt_id(task, f"{number:02x}")
        await write_attempt(driver, context, attempt, (f"p={number}/part-0.bin",))
        if end == "committed":
            await committer.commit_task(task, attempt)
