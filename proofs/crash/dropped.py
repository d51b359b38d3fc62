"""Uploads that the store drops, being days old or because somebody writes to their name; old files that
somebody writes again; and bundles of small files that somebody alters.

How a store drops them its model tells. On a model that drops none a job may wait as long as it likes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from proofs.crash import days, grid
from proofs.crash.grid import Grid, Side
from proofs.crash.invariants import Violation
from proofs.crash.scene import Moment, Scene
from proofs.crash.settings import Setting
from proofs.crash.store_models import MODELS, plain_store

__all__ = ["KINDS", "altered_of", "overwritten_of", "reproduce", "rewritten_of", "waited_of"]

KINDS: Final = ("waited", "later", "overwritten", "rewritten", "altered")
"""What reproductions begin with."""

_HOUR_S: Final = 3600.0
_WEEK_H: Final = 24 * 8
"""More than any store keeps uploads."""


def waited_of(setting: Setting, hours: Sequence[int] = days.HOURS) -> Grid:
    """Let a job wait between its tasks and its commit; whoever waits too long is refused.

    Where uploads expire, a job that has waited nearly too long is also cut at every moment of its commit, and
    recovered later: if it replaces names in place, when it must still come to its end; otherwise when its
    uploads are gone, so that it is taken back.

    Args:
        setting: The job.
        hours: How long it waits, one after the other.
    """
    grid_ = Grid(setting)
    for hour in hours:
        grid_.found(_waited(setting, hour).violations, f"waited:{setting.text}:{hour}")
        grid_.cuts += 1
    if MODELS[setting.store].upload_days is not None:
        for hour in days.CUT_H:
            driver = grid.recorded_job(setting, hour)
            for moment, (number, side) in _moments(driver):
                scene = _later(driver.scene, moment)
                grid_.found(scene.violations, f"later:{setting.text}:{hour}:{number}:{side}")
                grid_.cuts += 1
    return grid_


def _waited(setting: Setting, hours: int) -> Scene:
    scene = Scene.new(setting, hours)

    async def play() -> None:
        scene.watch()
        await scene.play_job()
        if scene.history.state is not None:
            await scene.recover("forward")
        await scene.end()

    scene.stage(play())
    return scene


def _later(original: Scene, moment: Moment) -> Scene:
    scene = original.at(moment)
    hours = _WEEK_H if scene.setting.names == "unique" else days.GOING_H - 1
    scene.clock.now += hours * _HOUR_S
    scene.stage(grid.finish(scene, "forward"))
    return scene


def overwritten_of(setting: Setting) -> Grid:
    """At every moment of the commit let somebody write to the name of a file that is not visible yet.

    That drops the upload. The job must be taken back, and what was written must stay. Only for jobs that can
    be taken back, on a store where uploads of a name are not apart.
    """
    grid_ = Grid(setting)
    driver = grid.recorded_job(setting)
    grid_.requests = driver.scene.traffic.count
    for moment, (number, side) in _moments(driver):
        if not _hidden_keys(moment):
            continue
        scene = _overwritten(driver.scene, moment)
        grid_.found(scene.violations, f"overwritten:{setting.text}:{number}:{side}")
        grid_.cuts += 1
    return grid_


def _overwritten(original: Scene, moment: Moment) -> Scene:
    scene = original.at(moment)
    if not (keys := _hidden_keys(moment)):
        raise ValueError(f"at this moment {scene.setting.text} has no file that is not visible")

    async def play() -> None:
        await plain_store(scene.world, scene.setting.store).put(keys[-1], b"somebody's own")
        # As if it had always been there: the job must not touch it.
        scene.before = scene.before.copy()
        scene.before.objects[keys[-1]] = scene.world.objects[keys[-1]]
        await grid.finish(scene, "forward")

    scene.stage(play())
    return scene


def _hidden_keys(moment: Moment) -> list[str]:
    """Keys of files that the job publishes, whose uploads are pending."""
    plan = moment.history.plan
    pending = {upload.key for upload in moment.world.uploads.values()}
    return sorted(pending & plan.files.keys() - moment.world.objects.keys()) if plan is not None else []


def rewritten_of(setting: Setting) -> Grid:
    """At every moment of the commit let somebody write an old file again that the job is about to delete.

    The bytes are the same, the object is another one, and must stay. Only for stores on which every write has
    an ETag of its own.
    """
    grid_ = Grid(setting)
    driver = grid.recorded_job(setting)
    grid_.requests = driver.scene.traffic.count
    for moment, cuts in driver.worlds():
        if not _old_keys(moment):
            continue
        scene = _rewritten(driver.scene, moment)
        number, side = cuts[0]
        grid_.found(scene.violations, f"rewritten:{setting.text}:{number}:{side}")
        grid_.cuts += 1
    return grid_


def _rewritten(original: Scene, moment: Moment) -> Scene:
    scene = original.at(moment)
    if not (keys := _old_keys(moment)):
        raise ValueError(f"at this moment {scene.setting.text} has no old file to delete")
    key = keys[-1]

    async def play() -> None:
        body = scene.world.objects[key].body
        await plain_store(scene.world, scene.setting.store).put(key, body)
        written = scene.world.objects[key]
        await grid.finish(scene, "forward")
        # Of the rest this is no test: what nobody but the job writes to is either old or new.
        scene.violations.clear()
        if scene.history.state is not None or not scene.history.reached("completed"):
            scene.violations.append(
                Violation("b", f"the job was not published, it went {scene.history.states}")
            )
        if scene.world.objects.get(key) is not written:
            scene.violations.append(Violation("e", f"{key} was somebody's own, and is gone"))

    scene.stage(play())
    return scene


def _old_keys(moment: Moment) -> list[str]:
    """Keys of old files that the job is about to delete."""
    plan = moment.history.plan
    return sorted(plan.deletions & moment.world.objects.keys()) if plan is not None else []


def altered_of(setting: Setting) -> Grid:
    """At every moment of the commit let somebody write something else, as long, into the bundles of a job.

    Nothing of that may ever be published. Once the bundles are restored the job must come to its end. Only
    for jobs with small files.
    """
    grid_ = Grid(setting)
    driver = grid.recorded_job(setting)
    grid_.requests = driver.scene.traffic.count
    for moment, cuts in driver.worlds():
        if moment.history.state != "committing" or not _bundles(moment):
            continue
        scene = _altered(driver.scene, moment)
        number, side = cuts[0]
        grid_.found(scene.violations, f"altered:{setting.text}:{number}:{side}")
        grid_.cuts += 1
    return grid_


def _altered(original: Scene, moment: Moment) -> Scene:
    scene = original.at(moment)
    if not (bundles := _bundles(moment)):
        raise ValueError(f"at this moment {scene.setting.text} has no bundle")

    async def play() -> None:
        store = plain_store(scene.world, scene.setting.store)
        for key, body in bundles.items():
            await store.put(key, body[::-1])
        scene.watch()
        await scene.recover("forward", "in vain")
        # It may raise, and no more than that.
        scene.violations = [one for one in scene.violations if one.letter != "x"]
        if scene.history.state is not None:
            for key, body in bundles.items():
                await store.put(key, body)
        await grid.finish(scene, "forward")

    scene.stage(play())
    return scene


def _bundles(moment: Moment) -> dict[str, bytes]:
    """The bundles of small files of a job."""
    objects = moment.world.objects.items()
    return {key: bytes(found.body) for key, found in objects if "/bundles/attempt-" in key}


def _moments(driver: grid.Recorder) -> Iterator[tuple[Moment, tuple[int, Side]]]:
    """Moments past the commit point at which uploads of the job are pending, and the first cut of each."""
    for moment, cuts in driver.worlds():
        own = moment.world.uploads.keys() - driver.scene.before.uploads.keys()
        if moment.history.state == "committing" and own:
            yield moment, cuts[0]


def reproduce(text: str) -> Scene:
    """Run one of these scenes again.

    Raises:
        ValueError: It is none.
    """
    kind, setting, *rest = text.split(":")
    job = Setting.of(setting)
    match kind, rest:
        case "waited", [hours]:
            return _waited(job, int(hours))
        case "later", [hours, number, ("before" | "after") as side]:
            return _later(*grid.at_cut(job, (int(number), side), int(hours)))
        case "overwritten", [number, ("before" | "after") as side]:
            return _overwritten(*grid.at_cut(job, (int(number), side)))
        case "rewritten", [number, ("before" | "after") as side]:
            return _rewritten(*grid.at_cut(job, (int(number), side)))
        case "altered", [number, ("before" | "after") as side]:
            return _altered(*grid.at_cut(job, (int(number), side)))
        case _:
            raise ValueError(f"{text!r} reproduces nothing; give the text that a finding was printed with")
