"""The frame of a small model: its rules, its scenes, and going through every state of each, breadth first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

__all__ = ["Explored", "Model", "Moves", "explore"]

_W = TypeVar("_W", bound=Hashable)
_M = TypeVar("_M", bound=Callable[[Any, Any, Any], tuple[Any, Any]])


@dataclass(slots=True)
class Explored:
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
) -> Explored:
    """Go through every interleaving: the first violation has the shortest trace.

    Args:
        start: The first state.
        moves: What can happen in a state, and which state is next.
        judge: What is wrong with a state, if anything is, and how it ends if all die in it.
    """
    result, before = Explored(states=1), dict[_W, tuple[_W, str] | None]({start: None})
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


class Moves(dict[str, Callable[[Any, Any, Any], tuple[Any, Any]]]):
    """What executors do: of each the program is one request after another, each a function here.

    A function is given the world, the executor, and the rules; it returns the next world, and the executor at
    its next request. An executor whose request is ``stopped`` has none.
    """

    def add(self, function: _M) -> _M:
        """Name a request after its function."""
        self[function.__name__.strip("_").replace("_", "-")] = function
        return function

    def interleaved(self, world: Any, rules: Any) -> Iterator[tuple[str, Any]]:
        """What can happen: each of ``actors`` that has not stopped makes its request."""
        for number, me in enumerate(world.actors):
            if me.at == "stopped":
                continue
            new, actor = self[me.at](world, me, rules)
            actors = (*world.actors[:number], actor, *world.actors[number + 1 :])
            yield f"{me.role} {number}: {me.at}", new._replace(actors=actors)

    def alone(self, world: Any, me: Any, rules: Any) -> Any:
        """All executors are dead, and one comes: the world when it has stopped, or would wait."""
        while me.at != "stopped":
            new, actor = self[me.at](world, me, rules)
            if (new, actor) == (world, me):
                break
            world, me = new, actor
        return world._replace(actors=(me,))


@dataclass(frozen=True, slots=True)
class Model:
    """A protocol.

    Attributes:
        rules: A field for each, all true. One false: what goes wrong without that rule.
        scenes: What is there at the start.
        breaks: For every rule a scene that goes wrong without it.
        moves: What executors do.
        begin: Makes the first world of a scene.
        judge: What is wrong with a world of a scene under some rules, if anything is, and how it ends if all
            die in it.
    """

    rules: Any
    scenes: Mapping[str, Any]
    breaks: Mapping[str, str]
    moves: Moves
    begin: Callable[[Any], Any]
    judge: Callable[[Any, Any, Any], tuple[str | None, Any]]

    def check(self, scene: str, without: str | None = None) -> Explored:
        """Go through every interleaving, of all rules or without one."""
        start = self.scenes[scene]
        rules = replace(self.rules, **({without: False} if without else {}))
        return explore(
            self.begin(start),
            lambda world: self.moves.interleaved(world, rules),
            lambda world: self.judge(world, start, rules),
        )

    def broken(self, rule: str) -> Explored:
        """The first thing that goes wrong without a rule."""
        return self.check(self.breaks[rule], without=rule)

    def run(self, found: list[str]) -> dict[str, int]:
        """Check every scene whole, and break every rule; what is wrong goes to ``found``."""
        figures = dict.fromkeys(("scenes", "states", "transitions", "rules", "rules_broken"), 0)
        for scene in self.scenes:
            result = self.check(scene)
            figures["scenes"] += 1
            figures["states"] += result.states
            figures["transitions"] += result.transitions
            if result.violation is not None:
                found.append(f"{scene}: {result.violation} after {result.trace}")
        for rule, scene in self.breaks.items():
            figures["rules"] += 1
            if self.broken(rule).violation is None:
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
