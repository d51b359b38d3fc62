"""Interleavings of the model drawn by chance."""

from __future__ import annotations

import random
from collections.abc import Sequence

from proofs.job_model.checker import Step, successors
from proofs.job_model.rules import Rules
from proofs.job_model.scenes import Scene
from proofs.job_model.world import World

__all__ = ["walk"]

_TWICE = 0.1
_STOP = 0.01


def walk(scene: Scene, rules: Rules, seed: str) -> tuple[list[Step], World, bool]:
    """One interleaving.

    Executors take their turns in bursts of a length that differs from walk to walk. In half of the walks
    everybody dies at some moment; in the others everybody comes to an end.

    Returns:
        The steps, where they lead, and whether everybody died there.
    """
    source = random.Random(seed)  # noqa: S311 - no secret
    burst, dies = source.choice((0.0, 0.5, 0.8, 0.95)), source.random() < 0.5
    world, steps, turn = scene.begin(), list[Step](), -2
    while True:
        choices = list(successors(world, scene, rules))
        if not choices:
            return steps, world, False
        if dies and source.random() < _STOP:
            return steps, world, True
        choices = _of_turn(choices, turn, burst, source)
        step, world = choices[source.randrange(len(choices))]
        steps.append(step)
        turn = step.actor


def _of_turn(
    choices: Sequence[tuple[Step, World]], turn: int, burst: float, source: random.Random
) -> list[tuple[Step, World]]:
    twice = source.random() < _TWICE
    kept = [one for one in choices if one[0].twice <= twice]
    actors = sorted({step.actor for step, _ in kept})
    actor = turn if turn in actors and source.random() < burst else source.choice(actors)
    return [one for one in kept if one[0].actor == actor]
