"""The log of publications: what it tells, what it costs, and what is left when a process dies."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, FormatError, ObjectNotFound
from magicfs.formats.manifest import Manifest, ManifestFile
from magicfs.manifests import chain, log
from magicfs.manifests import log_files as files_of_log
from magicfs.manifests.chain import READING
from magicfs.manifests.log import job_of_run
from magicfs.operate.adopt import adopt_files
from magicfs.past import log_growth
from magicfs.past.as_of import job_as_of, view_at
from magicfs.past.compact import CompactReport, compact_chain
from magicfs.past.history import history_of
from magicfs.protocol import paths
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Fault, Kind, Request
from proofs.scenes.job_scene import JobScene
from tests.sample import Some

DEST = "env=prod/día 50% + #1"
DAY_MS = 86_400_000
_T = TypeVar("_T")


@pytest.fixture(params=["if-match", "numbered"])
def scene(request: pytest.FixtureRequest) -> JobScene:
    return JobScene(DEST, ignores=frozenset({"put_if_match"} if request.param == "numbered" else ()))


@pytest.fixture
def plain() -> JobScene:
    return JobScene(DEST)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts and files of names so small that twenty jobs fill all levels."""
    for module, name, value in (
        (log_growth, "JOBS_IN_PART", 2),
        (log_growth, "LAST_KEPT", 2),
        (log_growth, "PARTS_IN_PART", 2),
        (log_growth, "_IN_FILE", 2),
        (log_growth, "_TIMES_AS_LARGE", 3),
    ):
        monkeypatch.setattr(module, name, value)


def manifest(number: int, **changes: Any) -> Manifest:
    """A job whose files are ten by name, so that the dataset stays as large as it is."""
    key = f"p={number % 10}/a b.bin"
    how: dict[str, Any] = {"mode": "append", "run_id": f"run {number}/día"} | changes
    return Manifest(
        job_id=f"job-{number}",
        bucket="bucket",
        destination=DEST,
        committed_ms=DAY_MS * (1 + number),
        files=(ManifestFile(key=key, size=1, etag=f'"{number}"'),),
        **how,
    )


async def publish(scene: JobScene, first: int, last: int, every: int = 0) -> None:
    """Jobs from one number up to another, a compaction after so many of them."""
    engine, place = Engine(scene.plain, 4), paths.parse_url(scene.url)
    for number in range(first, last):
        await chain.publish(scene.plain, scene.conditions, DEST, manifest(number))
        if every and number % every == every - 1:
            await compact_chain(engine, place)


def published(scene: JobScene, first: int, last: int, every: int = 0) -> None:
    asyncio.run(publish(scene, first, last, every))


def compact(scene: JobScene) -> CompactReport:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()


def jobs(scene: JobScene, **how: Any) -> list[str]:
    return [one.job_id for one in magicfs.Dataset(scene.url, filesystem=scene.filesystem).history(**how)]


def down(last: int, first: int = 0) -> list[str]:
    return [f"job-{number}" for number in reversed(range(first, last))]


def run_of(scene: JobScene, run: str) -> str | None:
    return scene.elsewhere(lambda engine: job_of_run(engine.store, DEST, READING, run))


def as_of(scene: JobScene, what: str) -> str:
    return scene.elsewhere(lambda engine: job_as_of(engine, paths.parse_url(scene.url), what))


def log_files(scene: JobScene) -> set[str]:
    return {name for name in scene.below("_magicfs/") if name.count("/") == 2}


def named(scene: JobScene) -> set[str]:
    """The files that the log of the pointer names."""

    async def read(engine: Engine) -> set[str]:
        past = await log.read_past(engine.store, DEST, READING)
        assert past is not None
        assert past.log is not None
        assert past.pointer.log is not None
        found = {past.pointer.log.job_id + "/" + past.pointer.log.name}
        parts = list(past.log.parts)
        while parts:
            one = parts.pop()
            found.add(f"{one.job_id}/{one.name}")
            parts += (await log.read_part(engine.store, DEST, one)).parts
        for names in past.log.names:
            found |= {"/".join(files_of_log.file_of_names(names, n)) for n in range(len(names.sha256))}
        return {f"_magicfs/{one}" for one in found | set(past.log.outdated)}

    return scene.elsewhere(read)


class TestHistory:
    @pytest.mark.usefixtures("small")
    def test_nobody_can_tell_whether_a_chain_was_ever_summed_up(self, scene: JobScene):
        draw = random.Random(7)
        for number in range(60):
            published(scene, number, number + 1)
            if draw.random() < 0.3:
                compact(scene)
            if number % 7 == 6:
                assert jobs(scene) == down(number + 1)
        assert jobs(scene) == down(60)
        for limit in (1, 2, 3, 5, 40, 60, 61):
            assert jobs(scene, limit=limit) == down(60)[:limit]
        for number in range(60):
            assert run_of(scene, f"run {number}/día") == f"job-{number}"
            assert as_of(scene, f"job-{number}") == f"job-{number}"
        assert run_of(scene, "run 60/día") is None
        with pytest.raises(ObjectNotFound):
            as_of(scene, "job:job-60")

    @pytest.mark.usefixtures("small")
    def test_moments_lead_to_what_manifests_say_whatever_their_order(self, scene: JobScene):
        """Clocks of drivers differ: a moment is of the newest job that says that it was published by then."""
        draw = random.Random(3)
        said = [draw.randrange(1, 40) * DAY_MS for _ in range(40)]

        async def make(engine: Engine) -> None:
            for number, moment in enumerate(said):
                one = manifest(number)
                await chain.publish(
                    engine.store,
                    scene.conditions,
                    DEST,
                    Manifest(
                        **{name: getattr(one, name) for name in ("job_id", "bucket", "destination", "mode")},
                        committed_ms=moment,
                    ),
                )
                if number in {11, 19, 33}:
                    await compact_chain(engine, paths.parse_url(scene.url))

        scene.elsewhere(make)

        async def at(engine: Engine, moment: int) -> str | None:
            return (await log.job_at(engine.store, DEST, READING, moment))[0]

        for day in range(42):
            right = [number for number, one in enumerate(said) if one <= day * DAY_MS]
            found = scene.elsewhere(lambda engine: at(engine, day * DAY_MS))  # noqa: B023
            assert found == (f"job-{right[-1]}" if right else None)
        with pytest.raises(ObjectNotFound, match="before 1970-01-0"):
            as_of(scene, "1970-01-01T00:00Z")

    def test_what_a_publication_is_stands_in_the_log(self, plain: JobScene):
        first = plain.published({"a.bin": b"12"}, run_id="monday")
        plain.published({"b.bin": b"1"}, mode="overwrite", keep="7d")
        magicfs.Dataset(plain.url, filesystem=plain.filesystem).tag("quarter", first.id)
        magicfs.Dataset(plain.url, filesystem=plain.filesystem).rollback(to="quarter", keep=None)
        before = magicfs.Dataset(plain.url, filesystem=plain.filesystem).history()
        assert compact(plain).manifest is not None
        assert magicfs.Dataset(plain.url, filesystem=plain.filesystem).history() == before
        assert before[0].restores == first.id
        assert before[1].kept_until is not None

    def test_a_run_that_is_in_the_log_is_not_published_again(self, scene: JobScene):
        first = scene.published({"a.bin": b"1"}, run_id="monday")
        scene.published({"b.bin": b"2"}, run_id="tuesday")
        compact(scene)
        scene.published({"c.bin": b"3"}, run_id="wednesday")
        for run in ("monday", "tuesday", "wednesday"):
            again = scene.published({"x.bin": b"again"}, run_id=run)
            assert again.report.published_before
        assert scene.job(run_id="monday").found.published == first.id
        assert scene.bodies() == [b"1", b"2", b"3"]

    def test_a_job_that_cannot_know_whether_its_run_was_published_is_refused(self, scene: JobScene):
        for n in range(2):
            scene.published({f"{n}.bin": b"1"}, run_id=f"{n}")
        compact(scene)
        [name] = log_files(scene)
        scene.delete(name)
        before = scene.everything()
        with pytest.raises(FormatError, match="run magicfs adopt"):
            scene.job(run_id="2")
        assert scene.everything() == before
        assert scene.published({"3.bin": b"1"}).report.files == 1
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt()
        assert scene.published({"0.bin": b"1"}, run_id="0").report.published_before

    def test_history_needs_no_manifest_that_the_log_tells_of(self, plain: JobScene):
        published(plain, 0, 5)
        compact(plain)
        published(plain, 5, 6)
        for number in range(5):
            plain.delete(f"_magicfs/job-{number}.json")
        assert jobs(plain) == down(6)
        assert run_of(plain, "run 2/día") == "job-2"

    def test_a_lost_manifest_loses_no_run_that_the_pointer_names(self, scene: JobScene):
        lost = scene.published({"a.bin": b"1"}, run_id="lost")
        scene.published({"b.bin": b"2"}, mode="overwrite")
        scene.delete(f"_magicfs/{lost.id}.json")
        scene.published({"c.bin": b"3"}, run_id="last")
        assert compact(scene).runs == 2
        assert run_of(scene, "lost") == lost.id
        assert len(jobs(scene)) == 2

    def test_a_job_at_a_removed_pointer_makes_nobody_forget_runs(self, plain: JobScene):
        published(plain, 0, 3)
        compact(plain)
        seen = asyncio.run(chain.read_pointer(plain.plain, DEST, READING))
        assert seen is not None
        plain.delete("_magicfs/current.json")
        last = manifest(3, previous=seen[0].job_id)
        asyncio.run(chain.publish(plain.plain, plain.conditions, DEST, last))
        assert jobs(plain) == down(4)
        assert [run_of(plain, f"run {n}/día") for n in range(5)] == [*reversed(down(4)), None]
        compact(plain)
        assert jobs(plain) == down(4)
        assert [run_of(plain, f"run {n}/día") for n in range(5)] == [*reversed(down(4)), None]


def requests(scene: JobScene, work: Callable[[Engine], Coroutine[Any, Any, _T]]) -> tuple[int, int, _T]:
    """How many requests a look costs, how many bytes it gets, and what it finds."""
    traffic = Traffic()
    found = asyncio.run(work(scene.engine(traffic, 4)))
    objects = scene.objects()
    size = sum(len(objects[one.key][0]) for one in traffic.log if one.operation == "get")
    return traffic.count, size, found


@pytest.mark.slow
def test_a_long_chain_costs_its_readers_what_a_short_one_does() -> None:
    """After 100 publications, and after 5,000, with a compaction after each hundred."""
    place = paths.parse_url(JobScene(DEST).url)
    looks: dict[str, Callable[[Engine, int], Coroutine[Any, Any, Any]]] = {
        "view": lambda engine, _: chain.view(engine.store, DEST, READING),
        "an old run": lambda engine, _: job_of_run(engine.store, DEST, READING, "run 3/día"),
        "the last run": lambda engine, n: job_of_run(engine.store, DEST, READING, f"run {n - 1}/día"),
        "no run": lambda engine, _: job_of_run(engine.store, DEST, READING, "never"),
        "history of 20": lambda engine, _: history_of(engine, place, 20),
        "as of a job": lambda engine, n: _view_as_of(engine, f"job:job-{n - 95}"),
        "as of a moment": lambda engine, _: _view_as_of(engine, "1970-01-07T00:00:00Z"),
        "as of a name": lambda engine, n: _view_as_of(engine, f"run {n - 95}/día"),
        "whole history": lambda engine, _: history_of(engine, place, None),
    }
    costs: dict[int, dict[str, tuple[int, int, Any]]] = {}
    scene = JobScene(DEST)
    for first, last in ((0, 100), (100, 5000)):
        published(scene, first, last, every=100)
        costs[last] = {
            name: requests(scene, lambda engine, look=look, last=last: look(engine, last))
            for name, look in looks.items()
        }
    short, long = costs[100], costs[5000]
    assert short["view"][0] == long["view"][0] == 4
    assert short["history of 20"][0] == long["history of 20"][0] == 4
    assert [one.job_id for one in long["history of 20"][2]] == down(5000)[:20]
    assert len(long["whole history"][2]) == 5000
    # The pointer, the log and a file of each set of names: there is one set where there are few jobs.
    assert (short["an old run"][0], short["no run"][0], short["the last run"][0]) == (3, 3, 3)
    assert (long["an old run"][2], long["no run"][2]) == ("job-3", None)
    for name in looks:
        if name != "whole history":
            assert long[name][0] <= 2 * short[name][0], name
        assert long[name][1] <= 5 * max(short[name][1], 20_000) or name == "whole history", name
    assert long["whole history"][0] <= 4 + 5000 / log_growth.JOBS_IN_PART * 1.1
    # What a compaction writes does not grow either.
    asyncio.run(publish(scene, 5000, 5010))
    traffic = Traffic()
    asyncio.run(compact_chain(scene.engine(traffic, 4), place))
    done = Counter(one.operation for one in traffic.log)
    assert done["put"] <= 4, done
    assert done["get"] <= 30, done


async def _view_as_of(engine: Engine, what: str) -> Any:
    place = paths.parse_url(f"memory://bucket/{DEST}")
    return await view_at(engine, place, await job_as_of(engine, place, what))


class TestSize:
    @pytest.mark.slow
    def test_most_of_a_log_is_written_once(self, plain: JobScene):
        """Of many compactions each writes a few files, and those that are not needed go."""
        published(plain, 0, 3000, every=25)
        there, known = log_files(plain), named(plain)
        assert known <= there
        assert len(there) < 3000 / log_growth.JOBS_IN_PART + 60, "what is outdated is deleted"
        assert there == known, "only its own uploads"
        assert jobs(plain) == down(3000)
        for number in range(0, 3000, 97):
            assert run_of(plain, f"run {number}/día") == f"job-{number}"


class TestDying:
    @pytest.mark.slow
    @pytest.mark.sample
    @pytest.mark.usefixtures("small")
    @pytest.mark.parametrize(
        "kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER, Kind.REPLY_LOST, Kind.ERROR_BEFORE]
    )
    def test_a_compaction_that_dies_anywhere_loses_nothing_and_leaves_nothing(
        self, scene: JobScene, kind: Kind, some: Some
    ):
        published(scene, 0, 23, every=6)
        every = Traffic()
        scene.lived(lambda: compact_chain(scene.engine(every), paths.parse_url(scene.url)))
        assert every.count > 20
        for number in some(range(1, every.count + 2), 10):
            place = JobScene(DEST, ignores=scene.filesystem.world.ignores)
            published(place, 0, 23, every=6)
            traffic = Traffic((Fault(kind, number=number),))
            engine = place.engine(traffic)
            try:
                done = place.lived(lambda: compact_chain(engine, paths.parse_url(place.url)))  # noqa: B023
            except magicfs.errors.MagicError:
                done = None
            assert jobs(place) == down(23)
            assert run_of(place, "run 1/día") == "job-1"
            published(place, 23, 25)
            compact(place)
            published(place, 25, 27)
            compact(place)
            assert jobs(place) == down(27)
            assert [run_of(place, f"run {n}/día") for n in range(28)] == [*reversed(down(27)), None]
            assert log_files(place) == named(place)
        assert done is not None
        assert traffic.count == every.count < number, "the last is one too many"

    @pytest.mark.slow
    @pytest.mark.usefixtures("small")
    def test_a_compaction_beside_each_request_of_another(self, plain: JobScene, some: Some):
        published(plain, 0, 23, every=6)
        every = Traffic()
        plain.lived(lambda: compact_chain(plain.engine(every), paths.parse_url(plain.url)))
        assert every.count > 20
        for number in some(range(1, every.count + 2), 10):
            place = JobScene(DEST)
            published(place, 0, 23, every=6)

            def join(request: Request, number: int = number, place: JobScene = place) -> None:
                if request.number == number:
                    place.elsewhere(lambda other: compact_chain(other, paths.parse_url(place.url)))
                    place.elsewhere(lambda _: publish(place, 23, 24))

            traffic = Traffic(before=join)
            engine = place.engine(traffic)
            place.lived(lambda: compact_chain(engine, paths.parse_url(place.url)))  # noqa: B023
            last = 24 if traffic.count >= number else 23
            assert jobs(place) == down(last)
            published(place, last, 26)
            compact(place)
            published(place, 26, 27)
            compact(place)
            assert jobs(place) == down(27)
            assert [run_of(place, f"run {n}/día") for n in range(28)] == [*reversed(down(27)), None]
            assert log_files(place) == named(place)
        assert traffic.count == every.count < number, "the last is one too many"

    @pytest.mark.slow
    @pytest.mark.usefixtures("small")
    @pytest.mark.parametrize("what", ["run", "no run", "job", "moment", "history", "few"])
    def test_who_reads_a_log_that_is_superseded_and_deleted_finds_all(self, what: str):
        """Before each request of a reader three more sums are made: the log that he reads is gone by then."""

        async def look(engine: Engine) -> Any:
            place = paths.parse_url(f"memory://bucket/{DEST}")
            match what:
                case "run":
                    return await job_of_run(engine.store, DEST, READING, "run 3/día")
                case "no run":
                    return await job_of_run(engine.store, DEST, READING, "never")
                case "job":
                    return await job_as_of(engine, place, "job:job-3")
                case "moment":
                    return await job_as_of(engine, place, "1970-01-05T00:00Z")
                case "history":
                    return [one.job_id for one in await history_of(engine, place, None)][-20:]
                case _:
                    return len(await history_of(engine, place, 20))

        right: list[Any] = []
        for number in range(1, 60):
            place = JobScene(DEST)
            published(place, 0, 24, every=6)

            def join(request: Request, number: int = number, place: JobScene = place) -> None:
                if request.number == number:
                    for more in range(3):
                        place.elsewhere(lambda _: publish(place, 24 + 4 * more, 28 + 4 * more))  # noqa: B023
                        place.elsewhere(lambda engine: compact_chain(engine, paths.parse_url(place.url)))

            traffic = Traffic(before=join)
            right.append(asyncio.run(look(place.engine(traffic))))
            if traffic.count < number:
                break
        assert all(one == right[-1] for one in right)
        assert 3 <= number < 59


class TestLost:
    def files(self, scene: JobScene) -> list[str]:
        outdated = {one for one in log_files(scene) if one not in _needed(scene)}
        return sorted(log_files(scene) - outdated)

    @pytest.mark.slow
    @pytest.mark.usefixtures("small")
    @pytest.mark.parametrize("how", ["gone", "cut", "altered"])
    @pytest.mark.sample(most=2)
    def test_each_file_of_a_log_can_be_lost(self, scene: JobScene, how: str, some: Some):
        published(scene, 0, 23, every=6)
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt().problem == ""
        count = len(self.files(scene))
        assert count > 12
        for number in some(range(count), 4):
            place = JobScene(DEST, ignores=scene.filesystem.world.ignores)
            published(place, 0, 23, every=6)
            name = self.files(place)[number]
            raw = place.objects()[f"{DEST}/{name}"][0]
            if how == "gone":
                place.delete(name)
            else:
                place.put(name, raw[:-5] if how == "cut" else raw.replace(b"job-1", b"job-2"))
                if how == "altered" and b"job-1" not in raw:
                    continue
            view = place.elsewhere(lambda engine: chain.view(engine.store, DEST, READING))
            assert view is not None
            assert len(view.files) == 10, "readers of the dataset need no log"
            if b'"runs":[],"jobs":[]' not in raw:  # of no id at all
                with pytest.raises(FormatError, match="run magicfs adopt"):
                    _all_of_it(place, 23)
            before = place.everything()
            would = magicfs.Dataset(place.url, filesystem=place.filesystem).adopt(dry_run=True)
            assert place.everything() == before
            report = magicfs.Dataset(place.url, filesystem=place.filesystem).adopt()
            assert (report, report.manifest, report.adopted, len(report.lost)) == (would, None, (), 1)
            assert name.rpartition("/")[2] in report.problem
            _all_of_it(place, 23)
            assert magicfs.Dataset(place.url, filesystem=place.filesystem).adopt().problem == ""
            published(place, 23, 30, every=3)
            _all_of_it(place, 30)
            assert named(place) <= log_files(place)

    def test_a_chain_that_is_broken_above_a_log_is_mended_and_keeps_its_history(self, scene: JobScene):
        first = [scene.published({f"{n}.bin": b"1"}, run_id=f"{n}") for n in range(2)]
        compact(scene)
        lost = scene.published({"c.bin": b"2"}, run_id="c")
        scene.published({"d.bin": b"3"}, run_id="d")
        scene.delete(f"_magicfs/{lost.id}.json")
        with pytest.raises(FormatError):
            jobs(scene)
        assert lost.id in magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt().problem
        assert jobs(scene)[-2:] == [one.id for one in reversed(first)]
        assert run_of(scene, "c") == lost.id
        compact(scene)
        assert [run_of(scene, run) is not None for run in ("0", "1", "c", "d", "e")] == [True] * 4 + [False]

    @pytest.mark.slow
    @pytest.mark.usefixtures("small")
    def test_adopt_dies_at_each_request_and_beside_a_job(self, some: Some):
        def begun() -> JobScene:
            place = JobScene(DEST)
            published(place, 0, 13, every=6)
            place.delete([one for one in self.files(place) if "/log-" in one][-1])
            return place

        ends, every, sound = set(), Traffic(), begun()
        assert sound.lived(lambda: adopt_files(sound.engine(every), paths.parse_url(sound.url)))
        assert every.count > 10
        for how in ("dies", "a job joins"):
            for number in some(range(1, every.count + 2), 12):
                place = begun()

                def join(request: Request, number: int = number, place: JobScene = place) -> None:
                    if request.number == number:
                        place.elsewhere(lambda _: publish(place, 13, 14))

                faults = (Fault(Kind.CRASH_AFTER, number=number),) if how == "dies" else ()
                traffic = Traffic(faults, before=join if how != "dies" else None)
                engine = place.engine(traffic)
                try:
                    done = place.lived(lambda: adopt_files(engine, paths.parse_url(place.url)))  # noqa: B023
                    ends.add("adopted" if done else "died")
                except CommitDenied:
                    ends.add("denied")
                magicfs.Dataset(place.url, filesystem=place.filesystem).adopt()
                _all_of_it(place, 14 if how != "dies" and traffic.count >= number else 13)
            assert traffic.count < number, "the last is one too many"
        assert {"adopted", "died"} <= ends <= {"adopted", "died", "denied"}

    def test_adopt_makes_a_pointer_again_that_knows_its_log(self, scene: JobScene):
        for n in range(3):
            scene.published({f"{n}.bin": b"1"}, run_id=f"{n}")
        compact(scene)
        last = scene.published({"3.bin": b"1"}, run_id="3")
        before = jobs(scene)
        scene.delete("_magicfs/current.json")
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).adopt().manifest is None
        assert jobs(scene) == before
        assert run_of(scene, "3") == last.id
        assert [run_of(scene, f"{n}") is not None for n in range(5)] == [True] * 4 + [False]

    def test_the_command_says_what_is_lost(self, capsys: pytest.CaptureFixture[str]):
        url = "memory://log-command/sales"
        for n in range(3):
            with magicfs.Job(url, mode="append", run_id=f"{n}") as job, job.task(0) as task:
                task.filesystem.pipe_file(f"{task.path}/{n}.bin", b"12")
        report = magicfs.Dataset(url).compact()
        assert report.manifest is not None
        fs = magicfs.MagicFileSystem(target_protocol="memory").fs
        directory = report.manifest.removeprefix("memory://").removesuffix(".json")
        [name] = [one for one in fs.find(directory) if "/log-" in one]
        assert main(["show", f"memory://{name.lstrip('/')}"]) == 0
        assert "what was published (log)" in capsys.readouterr().out
        fs.rm_file(name)
        assert main(["log", url]) != 0
        assert "magicfs adopt" in capsys.readouterr().err
        assert main(["adopt", url, "--dry-run"]) == 1
        assert "log-" in capsys.readouterr().out
        assert main(["adopt", url, "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["lost"]) == 1
        assert main(["adopt", url]) == 0
        assert "nothing to adopt" in capsys.readouterr().out
        assert main(["log", url]) == 0


def _root(scene: JobScene) -> str:
    """The name of the file that the pointer names."""
    seen = scene.elsewhere(lambda engine: chain.read_pointer(engine.store, DEST, READING))
    assert seen is not None
    assert seen[0].log is not None
    return seen[0].log.name


def _needed(scene: JobScene) -> set[str]:
    async def outdated(engine: Engine) -> set[str]:
        past = await log.read_past(engine.store, DEST, READING)
        assert past is not None
        assert past.log is not None
        return {f"_magicfs/{one}" for one in past.log.outdated}

    return named(scene) - scene.elsewhere(outdated)


def _all_of_it(scene: JobScene, last: int) -> None:
    assert jobs(scene) == down(last)
    assert [run_of(scene, f"run {n}/día") for n in range(last)] == list(reversed(down(last)))
    assert [as_of(scene, f"job:job-{n}") for n in range(last)] == list(reversed(down(last)))
