"""Jobs that flip beside other jobs, and beside a recovery, in every order that a seed draws."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal

from magicfs.protocol import flip, ids, paths
from proofs.crash.chain import read_chain
from proofs.crash.processes import Outcome
from proofs.flip.scene import DESTINATION, FlipScene, body_of

__all__ = ["Other", "beside_others"]

Other = Literal["append", "flip", "rollback", "compact", "recover"]
"""Who meets a job that flips: a job that publishes file by file, one that flips as well, a recovery that
takes the job back while its driver is alive, a compaction, or one that flips and recoveries beside both.
"""

_NEAR: Final[dict[Other, str]] = {"rollback": "/flip.json", "append": "/_SUCCESS", "compact": "/flip.json"}
"""What lies there when the commit point is near, where the other one matters most."""

_STARTS: Final = 450  # turns of the loop after which the other one begins, at most
_PAUSE_S: Final = 0.5  # of virtual time, between two recoveries that nobody needs
_NOT_PUBLISHED: Final = "has ended without being published"


def beside_others(model: str, other: Other, seed: int) -> tuple[list[str], str]:
    """A job that flips and somebody else at the same destination, at once, in an order that the seed draws.

    Whoever is told that a job is published finds its files, unless the other one replaced them later; whoever
    is refused finds nothing of it; a job that could be set up is published. Returns what was seen otherwise,
    and how the two ended.
    """
    begun = FlipScene.begin(model, "replace")
    one = begun.at(begun.world, seen_new=False)
    one.alone = other == "rollback"
    one.watch()
    two = replace(one, conflict="append" if other == "append" else "replace", new={}, violations=[])
    if other not in {"rollback", "compact"}:
        two.job = ids.job_id("7a4c2d1e-8a4b-4f0e-9d5a-0c1b2a3d4e5f")
    two.traffic = one.traffic

    async def both() -> tuple[Outcome, Outcome]:
        async def later() -> Outcome:
            near = _NEAR.get(other, "") if seed % 2 else ""
            prefix = flip.listing_prefix(DESTINATION) if other == "append" else DESTINATION
            while near and not any(k.startswith(prefix) and k.endswith(near) for k in [*one.world.objects]):
                if first.done():
                    break
                await asyncio.sleep(0)
            for _ in range(seed * 7 % (_STARTS // 3 if near else _STARTS)):
                await asyncio.sleep(0)
            match other:
                case "rollback":
                    return await two.recover("rollback")
                case "compact":
                    return await two.compact()
                case "append":
                    return await two.play_files("other", ("x",))
                case _:
                    return await two.play_flip()

        async def needless() -> None:
            while other == "recover" and not (first.done() and second.done()):
                await two.recover_needlessly()
                await asyncio.sleep(_PAUSE_S)

        first = asyncio.ensure_future(one.play_flip())
        second = asyncio.ensure_future(later())
        ended = await asyncio.gather(first, second, needless())
        return ended[0], ended[1]

    outcomes = one.stage(both(), order=str(seed))
    one.stage(one.settle("forward"))
    if other not in {"rollback", "compact"}:
        two.stage(two.settle("forward"))
    done = [outcome.error is None and not outcome.died for outcome in outcomes]
    problems = _seen_wrong(one, two, other, outcomes, done)
    return [f"{model} beside {other}, seed {seed}: {each}" for each in problems], str(done)


def _seen_wrong(
    one: FlipScene, two: FlipScene, other: Other, outcomes: tuple[Outcome, Outcome], done: list[bool]
) -> list[str]:
    problems = [
        f"{who} ended with {outcome.error!r}"
        for who, outcome in zip(("the flip", "the other"), outcomes, strict=True)
        if outcome.surprising
    ]
    if other == "append" and two.is_set_up and not done[1]:
        problems.append(f"the other was set up, and ended with {outcomes[1].error!r}")
    if other in {"flip", "recover"}:
        problems += [
            f"nobody has aborted it: {one.error}" for one in outcomes if _NOT_PUBLISHED in str(one.error)
        ]
    problems += _ended_wrong(one, two, other, done)
    if other == "rollback":
        problems += one.violations
        if one.seen_new and (done_with := {"reverted", "aborted"} & (outcomes[1].result or set())):
            problems.append(f"the recovery said {done_with}, and the job is published")
    for scene in (one, two):
        problems += [each for each in scene.violations if "raised" in each]
    problems += [f"{key} is left" for key in one.world.objects if "__magic" in key or "magicfs-" in key]
    problems += [f"an upload of {upload.key} is left" for upload in one.world.uploads.values()]
    return problems


def _ended_wrong(one: FlipScene, two: FlipScene, other: Other, done: list[bool]) -> Iterator[str]:
    listed = body_of(one.world.objects)
    old, flipped, added = one.old, one.new, two.new
    first, second = done
    match other:
        case "append":
            right = [flipped, flipped | added] if first and second else [flipped if first else old | added]
            right = right if first or second else [old]
        case "flip" | "recover":
            right = [flipped] * first + [added] * second or [old]
        case _:
            right = [flipped if first else old]
    if listed not in right:
        yield f"ended as {done}, and readers see {sorted(listed)}"
    view = read_chain(one.world.objects, DESTINATION)
    known = {paths.relative_to(key, DESTINATION) for key in view.files}
    if view.problem or known != {key for key in listed if key != "p=0/older.bin"}:
        yield f"manifests show {sorted(known)} ({view.problem}), and a listing {sorted(listed)}"
