"""Going through every state of a small model, breadth first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

__all__ = ["PastResult", "explore", "interleavings", "run_all"]

_W = TypeVar("_W", bound=Hashable)


@dataclass(slots=True)
class PastResult:
    """What a check found: how many states, and the shortest way to what was wrong, if anything was."""

    states: int = 0
    transitions: int = 0
    violation: str | None = None
    trace: list[str] = field(default_factory=list)
    ends: frozenset[Any] = frozenset()


def explore(
    start: _W,
    moves: Callable[[_W], Iterable[tuple[str, _W]]],
    judge: Callable[[_W], tuple[str | None, Any]],
) -> PastResult:
    """Go through every interleaving: the first violation has the shortest trace.

    Args:
        start: The first state.
        moves: What can happen in a state, and which state is next.
        judge: What is wrong with a state, if anything is, and how it ends if all die in it.
    """
    result, before = PastResult(states=1), dict[_W, tuple[_W, str] | None]({start: None})
    waiting, ends = deque([start]), set[Any]()
    while waiting:
        world = waiting.popleft()
        wrong, end = judge(world)
        if wrong is not None:
            result.violation, result.trace = wrong, _way(before, world)
            return result
        ends.add(end)
        for told, new in moves(world):
            result.transitions += 1
            if new not in before:
                before[new] = (world, told)
                waiting.append(new)
    result.states, result.ends = len(before), frozenset(ends)
    return result


def interleavings(world: Any, act: Callable[[Any, Any], tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    """What can happen in a world of executors: each of ``actors`` that has not stopped is at one request."""
    for number, me in enumerate(world.actors):
        if me.at == "stopped":
            continue
        new, actor = act(world, me)
        actors = (*world.actors[:number], actor, *world.actors[number + 1 :])
        yield f"{me.role} {number}: {me.at}", new._replace(actors=actors)


def run_all(
    scenes: Iterable[str],
    breaks: Mapping[str, str],
    check: Callable[[str], PastResult],
    broken: Callable[[str], PastResult],
    found: list[str],
) -> dict[str, int]:
    """Check every scene whole, and break every rule; what is wrong goes to ``found``."""
    figures = dict.fromkeys(("scenes", "states", "transitions", "rules", "rules_broken"), 0)
    for scene in scenes:
        result = check(scene)
        figures["scenes"] += 1
        figures["states"] += result.states
        figures["transitions"] += result.transitions
        if result.violation is not None:
            found.append(f"{scene}: {result.violation} after {result.trace}")
    for rule, scene in breaks.items():
        figures["rules"] += 1
        if broken(rule).violation is None:
            found.append(f"{rule} can be left out, and nothing goes wrong in {scene}")
        else:
            figures["rules_broken"] += 1
    return figures


def _way(before: dict[_W, tuple[_W, str] | None], world: _W) -> list[str]:
    steps: list[str] = []
    while (found := before[world]) is not None:
        world, step = found
        steps.append(step)
    return steps[::-1]
