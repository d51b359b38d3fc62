"""Jobs that flip, cut at every request of theirs, of the recovery and of both."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from magicfs.protocol.conflict import Conflict
from proofs.flip.scene import FlipScene

__all__ = ["Tally", "cut"]


@dataclass
class Tally:
    """What was tried, and what was seen that must not be."""

    cuts: int = 0
    pairs: int = 0
    worlds: int = 0
    windows: int = 0
    findings: list[str] = field(default_factory=list)

    def take(self, scene: FlipScene, where: str) -> None:
        """Take over what a scene has seen."""
        self.windows = max(self.windows, scene.windows)
        self.findings += [f"{where}: {one}" for one in dict.fromkeys(scene.violations)]


def cut(model: str, conflict: Conflict, *, step: int = 1, pairs: bool = True) -> Tally:
    """Cut a job at every request, recover; cut the recovery at every request, and recover again."""
    tally = Tally()
    whole = FlipScene.begin(model, conflict)
    first = whole.at(whole.world, False)
    first.watch(record=True)
    outcome = first.stage(first.play_flip())
    if outcome.error is not None or outcome.died:
        tally.findings.append(f"{model} {conflict}: the job ended with {outcome.error!r}")
        return tally
    first.check_end(published=True)
    tally.take(first, f"{model} {conflict} whole")
    tally.cuts = first.cuts
    for number, (world, seen) in [*enumerate(first.moments)][::step]:
        for wish in ("forward", "rollback"):
            scene = replace(first, old=whole.old).at(world, seen)
            scene.new = first.new
            scene.watch(record=pairs)
            scene.stage(scene.settle(wish))
            where = f"{model} {conflict} cut {number} {wish}"
            scene.check_end()
            tally.take(scene, where)
            tally.worlds += 1
            for again, (left, new) in enumerate(scene.moments):
                last = scene.at(left, new)
                last.watch()
                last.stage(last.settle("rollback" if again % 3 == 2 else "forward", "second recovery"))
                last.check_end()
                tally.take(last, f"{where} cut {again}")
                tally.worlds += 1
            tally.pairs += scene.cuts
    return tally
