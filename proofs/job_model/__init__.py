"""A small explicit-state model of the job object, and its interleavings replayed on the shipped code.

``checker`` goes through every interleaving of a scene (two drivers, a recovery, a rollback, a request that
lands twice; or two jobs on one destination) breadth first and holds every state against ``properties``.
``rules`` lists what the protocol rests on; without any of them the checker prints a shortest trace of what
goes wrong. ``replay`` plays interleavings with the real committers on a store whose requests wait their turn.

A file becomes visible by a complete. A rename is the same to the model: what it moves is gone afterwards, as
an upload is, and discarding that first keeps a late one from landing. So all interleavings at one destination
are replayed with the renames of ``manifest`` and of ``file``, and with the copies of ``file``, as well.

``renames`` is a model of its own of what differs: jobs that go only forward, work files, tasks that publish.
So is ``past``: rollbacks, expiries and jobs at a destination that keeps what is replaced.

Between two requests an executor may die at any moment. That needs no step of its own: a dead executor is one
whose turn never comes again, and from every state that can be reached everybody is taken for dead, one
recovery is played to its end, and what is left is looked at.
"""

from __future__ import annotations

from typing import Any

__all__ = ["run"]


def run(sample: int, seed: int) -> dict[str, Any]:
    """Check the quick scenes whole, break every rule, and replay ``sample`` interleavings on the code.

    Returns:
        Figures: ``scenes``, ``states`` and ``transitions``; ``traces``, ``replayed``, of them ``numbered``
        on a store without If-Match and ``renamed`` with files that become visible by renames; ``turns`` of
        executors, ``unmade`` ones for which the code made no request; ``rules``, ``rules_broken`` and
        ``violations``, which must be 0.
    """
    from proofs.job_model import main

    return main.run(sample, seed)
