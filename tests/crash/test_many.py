"""Many simulated jobs: every seed once, every side, and a report that names them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from magicfs.committers import registry
from magicfs.engine import Engine
from magicfs.formats.limits import MANIFEST_SIZE_LIMIT, ROOM
from magicfs.formats.manifest import Manifest
from magicfs.past.compact import compact_chain
from magicfs.protocol import paths
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Request
from magicfs.transaction import prepare
from proofs.crash.chain import read_chain
from proofs.crash.company import near_limits
from proofs.crash.many import SIDES, main, run_seed
from proofs.crash.simulation import Result, Simulation, simulate
from proofs.scenes.job_scene import BUCKET, JobScene


def test_every_side_has_seeds_and_no_seed_two() -> None:
    result = Result()
    assert {run_seed(seed, result) for seed in range(len(SIDES))} == {one.rstrip(".-") for one in SIDES}
    assert result.jobs >= len(SIDES)
    assert result.findings == []


def test_a_reader_of_the_chain_passes_a_sum_over_below_a_job_that_replaced_less() -> None:
    """An appending job and a compaction join the chain between the moment in which a replacing job looks and
    the one in which it joins. As seed maintenance-188517 once had it.
    """
    scene = JobScene()
    for name in ("old.txt", "older.txt"):  # a sum is of two jobs at least
        scene.published({name: b"old"})
    appending, replacing = scene.job(), scene.job("overwrite")
    appended = scene.wrote(appending, {"beside.txt": b"beside"})
    committer = registry.make(
        appending.spec.options.committer, appending.spec.context, Engine(scene.plain, 1)
    )
    meanwhile: list[str] = []

    async def join(engine: Engine) -> None:
        await committer.commit_job(appended, appending.found.driver)
        assert (await compact_chain(engine, paths.parse_url(scene.url))).manifest

    def look(request: Request) -> None:
        if request.operation == "complete_upload" and not meanwhile:
            meanwhile.append(request.key)
            scene.elsewhere(join)

    scene.commit(replacing, scene.wrote(replacing, {"new.txt": b"new"}), traffic=Traffic(before=look))
    assert meanwhile
    bucket = scene.filesystem.world.find(BUCKET)
    assert bucket is not None
    seen = read_chain(bucket.objects, scene.destination)
    assert [job.startswith("compact-") for job in seen.jobs[:2]] == [False, True]
    assert sorted(scene.bodies()) == [b"beside", b"new"]
    assert {key.removeprefix("sales/") for key in seen.files} == scene.manifest_files() == set(scene.data())


def test_a_driver_whose_job_was_taken_over_in_its_setup_leaves_the_sets_of_the_other() -> None:
    # On the old code it removed the directory of the cluster, in which tasks of the other had committed.
    result = Result()
    simulate("directory.142", result)
    assert result.findings == []


@pytest.mark.process
def test_the_report_names_the_seeds_that_were_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--first", "32", "--seeds", "20"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["first_seed"], figures["last_seed"], figures["seeds"]) == (32, 51, 20)
    assert figures["jobs"] == sum(figures["jobs_of_sides"].values()) >= 20
    assert figures["violations"] == 0
    assert sum(figures["endings"].values()) == figures["jobs"]


@pytest.fixture
def _small() -> Iterator[None]:
    source = Simulation.of("limits-0")._company("limits", 0.0)
    with near_limits(source):
        yield


@pytest.mark.usefixtures("_small")
def test_limits_are_near_for_writers_and_readers() -> None:
    assert prepare.MANIFEST_SIZE_LIMIT < 2_000 > prepare._OTHERS
    defaults = Manifest.__dict__["from_bytes"].__func__.__kwdefaults__
    assert defaults == {"size_limit": prepare.MANIFEST_SIZE_LIMIT}


def test_limits_are_far_afterwards() -> None:
    with near_limits(Simulation.of("limits-0")._company("limits", 0.0)):
        pass
    assert (prepare.MANIFEST_SIZE_LIMIT, prepare._OTHERS) == (MANIFEST_SIZE_LIMIT, ROOM)
