"""An alias never stays older than its dataset: drivers that die, that are late, and two at once."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

import magicfs
from magicfs.alias import catch_up
from magicfs.alias.extension import Alias
from magicfs.alias.follow import follow
from magicfs.alias.places import AliasPlace
from magicfs.committers import registry
from magicfs.engine import Engine
from magicfs.errors import MagicError
from magicfs.past.rollback import roll_back
from magicfs.protocol import ids, paths
from magicfs.stores.memory.store import MemoryStore
from magicfs.stores.port import PutMode
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from proofs.scenes.job_scene import JobScene

DATASET = "lake 1/sales +#%ü"
NAME = "latest é %+#.csv"
ALIAS = f"lake 1/{NAME}"


class Scene(JobScene):
    """A dataset with an alias."""

    def __init__(self, **how: Any) -> None:
        super().__init__(DATASET, **how)
        self.published({"a.csv": b"one"}, mode="overwrite", alias=NAME, keep="1d")

    def shown(self) -> bytes | None:
        found = self.objects().get(ALIAS)
        return found[0] if found else None

    def check(self) -> None:
        """The alias shows what the dataset shows."""
        assert [self.shown()] == [*self.bodies(), None][:1]

    def later(self, body: bytes = b"two") -> tuple[magicfs.Job, Any]:
        job = self.job("overwrite", alias=NAME, keep="1d")
        return job, self.wrote(job, {"a.csv": body})

    def brought_up(self) -> str:
        found = catch_up(self.url, filesystem=self.filesystem)
        assert found is not None
        return found.done


@pytest.fixture(params=["conditions", "without", "numbered"])
def scene(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """On a store that honours all conditions; one that ignores those of copies; one without If-Match."""
    if request.param == "without":
        copy = MemoryStore.copy

        async def ignoring(self: MemoryStore, *keys: str, etag: str = "", mode: Any = None) -> int:
            return await copy(self, *keys, etag=etag, mode=PutMode.OVERWRITE)

        monkeypatch.setattr(MemoryStore, "copy", ignoring)
    return Scene(ignores=frozenset({"put_if_match"} if request.param == "numbered" else ()))


async def committed(engine: Engine, job: magicfs.Job, commits: Any) -> None:
    committer = registry.make(job.spec.options.committer, job.spec.context, engine)
    await committer.commit_job(commits, job.found.driver)


async def rolled_back(engine: Engine, url: str, to: str) -> None:
    await roll_back(engine, paths.parse_url(url), to=to, job=ids.job_id(uuid4()))


def moments(scene: Scene) -> list[int]:
    """The numbers of the requests of a commit that are about the alias, or come between those at its end."""
    job, commits = scene.later(b"zero")
    traffic = Traffic()
    assert scene.commit(job, commits, traffic=traffic) is not None
    about = [one.number for one in traffic.log if _is_about_alias(one)]
    linked = max(one.number for one in traffic.log if one.operation == "put" and "/current" in one.key)
    return sorted({*about, *range(min(one for one in about if one > linked), max(about) + 2)})


def _is_about_alias(request: Request) -> bool:
    return any("latest" in one or "alias" in one for one in (request.key, request.target))


@pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
def test_a_driver_that_dies_at_any_request_leaves_an_alias_that_recovery_brings_along(
    scene: Scene, kind: Kind
) -> None:
    for number in moments(scene):
        before = scene.shown()
        job, commits = scene.later(b"%d" % number)
        report = scene.commit(job, commits, Fault(kind, number=number))
        assert scene.shown() in (before, b"%d" % number)
        if report is not None:
            break
        scene.recover()
        assert scene.brought_up() == "right"
        scene.check()
    scene.check()


@pytest.mark.parametrize("kind", [Kind.REPLY_LOST, Kind.REFUSED, Kind.ERROR_BEFORE, Kind.CONFLICT])
def test_a_request_that_fails_once_is_made_again(scene: Scene, kind: Kind) -> None:
    for number in moments(scene):
        job, commits = scene.later(b"%d" % number)
        try:
            scene.commit(job, commits, Fault(kind, number=number))
        except MagicError:
            scene.recover()
        if scene.brought_up() != "right":
            assert scene.brought_up() == "right"
        scene.check()


def test_two_drivers_at_once_never_leave_the_older_file(scene: Scene) -> None:
    for number in moments(scene):
        slow, fast = scene.later(b"slow %d" % number), scene.later(b"fast %d" % number)

        def overtake(request: Request, number: int = number, fast: Any = fast) -> None:
            if request.number == number:
                with suppress(MagicError):  # two jobs that overwrite hold each other off
                    scene.elsewhere(lambda engine: committed(engine, *fast))

        with suppress(MagicError):
            scene.commit(*slow, traffic=Traffic(before=overtake))
        for job, _ in (slow, fast):
            with suppress(MagicError):
                job.abort()
        scene.check()
        assert scene.brought_up() == "right"


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("follows", [False, True])
def test_a_late_process_brings_back_no_older_file_of_the_same_bytes(
    scene: Scene, dies: bool, follows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands still while others roll back to what it had seen: equal bytes have equal ETags. Nor does it
    take what they have written for another program's.
    """
    place = AliasPlace.of(paths.parse_url(scene.url), NAME)
    for number in range(1, 30):
        scene.published({"a.csv": b"one"}, mode="overwrite", alias=NAME, keep="1d")
        first = magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()[0].job_id
        with monkeypatch.context() as patch:
            patch.setattr(Alias, "follows", follows)
            scene.published({"a.csv": b"two"}, mode="overwrite", keep="1d")

        def overtake(request: Request, number: int = number, first: str = first) -> None:
            if request.number == number:
                scene.elsewhere(lambda own: rolled_back(own, scene.url, first))

        faults = [Fault(Kind.CRASH_AFTER, operation="copy")] if dies else []
        traffic = Traffic(faults, before=overtake)
        scene.lived(partial(follow, scene.engine(traffic), place))
        if dies:
            scene.brought_up()
        scene.check()
        assert scene.brought_up() == "right"
        if number > traffic.count:
            break
