"""Small files that become larger ones by a job of their own."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.datasets import commit
from magicfs.errors import CommitDenied, ObjectNotFound, UsageError
from magicfs.protocol.ids import job_id
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.port import Store
from magicfs.tables.rewrite import RewriteReport, rewrite
from magicfs.tables.rewriting import groups_of
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Crash, Fault, Kind, Request
from proofs.scenes.job_scene import JobScene
from tests.sample import Some

pytestmark = pytest.mark.sample(most=2)

DEST = "env=prod/día 50% + #1"


def parquet(*values: int, name: str = "n", metadata: dict[str, str] | None = None, **options: Any) -> bytes:
    sink = io.BytesIO()
    schema = pa.schema([pa.field(name, pa.int64())], metadata=metadata)
    pq.write_table(pa.table({name: list(values)}, schema=schema), sink, **options)
    return sink.getvalue()


@pytest.fixture(params=["if-match", "numbered"])
def scene(request: pytest.FixtureRequest) -> JobScene:
    return JobScene(DEST, ignores=frozenset({"put_if_match"} if request.param == "numbered" else ()))


@pytest.fixture
def plain() -> JobScene:
    return JobScene(DEST)


def rows(scene: JobScene, **how: Any) -> list[int]:
    """All rows, in the order in which a dataset reads them."""
    found = magicfs.Dataset(scene.url, filesystem=scene.filesystem).to_arrow(**how)
    return list(found.to_table(columns=["n"], use_threads=False)["n"].to_pylist())


def rewritten(scene: JobScene, **how: Any) -> RewriteReport:
    return rewrite(scene.url, filesystem=scene.filesystem, **how)


def names(scene: JobScene) -> list[str]:
    return sorted(scene.manifest_files())


class TestRewriting:
    def test_neighbours_become_one_file(self, scene: JobScene):
        scene.published(
            {"p=1/a b.parquet": parquet(3, 1), "p=1/c.parquet": parquet(2), "p=2/d.parquet": parquet(9)}
        )
        scene.published({"p=1/b%.parquet": parquet(7), "p=1/ü.parquet": parquet()})
        before = rows(scene)
        report = rewritten(scene)
        assert (report.files, report.new_files, report.rows, report.left) == (4, 1, 4, 0)
        assert rows(scene) == before
        assert len(names(scene)) == len(scene.data()) == 2
        assert scene.work() == [] == scene.uploads()
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
        again = rewritten(scene)
        assert (again.job_id, again.files) == (None, 0)
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()[0].mode == "rewrite"

    def test_files_of_a_good_size_stay_and_divide_the_others(self, plain: JobScene):
        big = parquet(*range(100, 4000))
        files = {f"{n}.parquet": parquet(n) for n in range(6)}
        files["2.parquet"] = big
        plain.published(files)
        before = rows(plain)
        report = rewritten(plain, target_size=len(big))
        assert (report.files, report.new_files) == (5, 2)
        assert rows(plain) == before
        assert len(names(plain)) == 3

    def test_what_was_rewritten_before_is_rewritten_with_what_was_added(self, plain: JobScene):
        for round_ in range(6):
            plain.published({f"p=1/part-{n}.parquet": parquet(10 * round_ + n) for n in range(3)})
            before = rows(plain)
            rewritten(plain)
            assert rows(plain) == before
            assert len(names(plain)) == 1
        assert len(names(plain)[0]) < 120, "names do not grow"

    def test_files_of_several_kinds_are_not_mixed(self, plain: JobScene):
        plain.published(
            {
                "1.parquet": parquet(1, metadata={"a": "1"}),
                "2.parquet": parquet(2, metadata={"a": "1"}, compression="zstd"),
                "3.parquet": parquet(3, metadata={"a": "2"}),
                "4.parquet": parquet(4, metadata={"a": "2"}),
                "5.parquet": parquet(5, version="1.0"),
                "6.csv": b"n\n1\n",
            }
        )
        report = rewritten(plain)
        assert (report.files, report.new_files) == (4, 2)
        first = next(body for name, body in sorted(plain.data().items()) if name.startswith("1"))
        schema = pq.read_schema(io.BytesIO(first))
        assert schema.metadata == {b"a": b"1"}
        assert b"n\n1\n" in plain.bodies()

    def test_columns_of_views_become_one(self, plain: JobScene):
        sink = io.BytesIO()
        pq.write_table(pa.table({"text": pa.array(["x", None], pa.string_view())}), sink)
        plain.published({f"{n}.parquet": sink.getvalue() for n in range(3)})
        report = rewritten(plain)
        assert (report.files, report.new_files, report.left) == (3, 1, 0)

    def test_files_of_polars_become_one_of_equal_rows_and_types(self, plain: JobScene):
        import polars as pl

        frames = []
        for n, text in enumerate(["x", "y", None]):
            made = pl.DataFrame(
                {
                    "n": [n],
                    "text": pl.Series([text], dtype=pl.String),
                    "kind": pl.Series([text], dtype=pl.Categorical),
                    "enum": pl.Series([text], dtype=pl.Enum(["y", "x"])),
                    "at": pl.Series([n], dtype=pl.Datetime("us", "Europe/Berlin")),
                    "ns": pl.Series([n + 1], dtype=pl.Datetime("ns")),
                    "list": pl.Series([[text]], dtype=pl.List(pl.String)),
                    "array": pl.Series([[n, 2]], dtype=pl.Array(pl.Int16, 2)),
                    "struct": pl.Series(
                        [{"a": n, "b": text}], dtype=pl.Struct({"a": pl.Int64, "b": pl.String})
                    ),
                    "price": pl.Series([n], dtype=pl.Decimal(10, 2)),
                    "big": pl.Series([n], dtype=pl.Decimal(38, 2)),
                    "small": pl.Series([n], dtype=pl.UInt8),
                    "time": pl.Series([n], dtype=pl.Time),
                    "long": pl.Series([n], dtype=pl.Duration("ms")),
                    "bytes": [b"x"],
                    "null": [None],
                }
            )
            frames.append(made)
        for single in [*frames[0].columns, None]:
            scene = JobScene(DEST)
            bodies = {}
            for n, frame in enumerate(frames):
                sink = io.BytesIO()
                frame.select(single or pl.all()).write_parquet(sink)
                bodies[f"{n}.parquet"] = sink.getvalue()
            scene.published(bodies)
            report = rewritten(scene)
            assert (report.files, report.new_files, report.left) == (3, 1, 0), single
            [body] = scene.data().values()
            whole = pl.read_parquet(io.BytesIO(body))
            assert whole.equals(pl.concat(frames).select(single or pl.all())), single
            assert whole.schema == frames[0].select(single or pl.all()).schema

    def test_the_schema_stays(self, plain: JobScene):
        table = pa.table(
            {
                "n": pa.array([1, 2], pa.int32()),
                "day": pa.array([1, None], pa.date32()),
                "at": pa.array([1, 2], pa.timestamp("ms", "UTC")),
                "price": pa.array([1, 2], pa.decimal128(9, 2)),
                "names": pa.array([["a"], None], pa.list_(pa.string())),
                "kind": pa.array(["x", "y"]).dictionary_encode(),
                "place": pa.array([{"x": 1.5}, None]),
            }
        )
        for options in (
            {},
            {"compression": "gzip", "version": "1.0"},
            {"use_deprecated_int96_timestamps": True, "store_schema": False},
            {"store_decimal_as_integer": True, "use_compliant_nested_type": False},
        ):
            sink = io.BytesIO()
            pq.write_table(table, sink, **options)
            scene = JobScene(DEST)
            scene.published({"a.parquet": sink.getvalue(), "b.parquet": sink.getvalue()})
            report = rewritten(scene)
            assert (report.files, report.rows) == (2, 4), options
            old, [new] = pq.ParquetFile(sink), scene.bodies()
            found = pq.ParquetFile(io.BytesIO(new))
            assert found.schema.equals(old.schema)
            assert found.schema_arrow.equals(old.schema_arrow, check_metadata=True)
            assert found.read().equals(pa.concat_tables([old.read(), old.read()]))
            codecs = [one.metadata.row_group(0).column(0).compression for one in (old, found)]
            assert codecs[0] == codecs[1]

    def test_partitions_alone(self, plain: JobScene):
        plain.published({f"p={p}/{n}.parquet": parquet(n) for p in (1, 10) for n in range(2)})
        assert rewritten(plain, partitions="p=1").files == 2
        assert len(names(plain)) == 3

    def test_a_dry_run_changes_nothing(self, scene: JobScene):
        scene.published({"a.parquet": parquet(1), "b.parquet": parquet(2)})
        before = scene.everything()
        report = rewritten(scene, dry_run=True)
        assert (report.job_id, report.files, report.new_files) == (None, 2, 1)
        assert scene.everything() == before

    def test_old_files_can_be_kept_and_shown_again(self, scene: JobScene):
        first = scene.published({"a.parquet": parquet(1), "b.parquet": parquet(2)})
        assert rewritten(scene, keep="7d").kept
        assert len(scene.data()) == 1, "the others lie aside"
        assert rows(scene) == rows(scene, as_of=first.id) == [1, 2]
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).rollback(to=first.id, keep=None)
        assert len(names(scene)) == 2
        assert rewritten(scene).files == 2
        assert rows(scene) == rows(scene, as_of=first.id) == [1, 2], "as an earlier job has promised"

    def test_what_is_refused(self, plain: JobScene):
        with pytest.raises(ObjectNotFound):
            rewritten(plain)
        plain.published({"a.parquet": parquet(1), "b.parquet": parquet(2)})
        for wrong in (0, -1, "1X", "", None):
            with pytest.raises(UsageError, match=r"target_size=.* is not a size; write it as 64M or 1G"):
                rewritten(plain, target_size=wrong)
        assert rewritten(plain, target_size="1M", dry_run=True).files == 2
        plain.published({"c.parquet": b"PAR1 no more PAR1"})
        before = plain.everything()
        with pytest.raises(UsageError, match="cannot be read as Parquet"):
            rewritten(plain)
        assert plain.everything() == before
        plain.put(next(name for name in plain.data() if name.startswith("a")), b"PAR1 another file PAR1")
        with pytest.raises(ObjectNotFound, match="it was overwritten since it was published"):
            rewritten(plain)


class TestGroups:
    @pytest.mark.parametrize("seed", range(40))
    def test_order_and_sizes(self, seed: int):
        import random

        chance = random.Random(seed)
        job = job_id("3b6c046c-dfe0-44bc-a5d9-4128a88cfb53")
        pieces = ["a", "a.b", "a-b", "part-0", "part-0-000000-" + job, "x ü%", "0", "a-0", "Z"]
        sizes = {}
        for _ in range(chance.randrange(1, 25)):
            directory = chance.choice(["", "p=1/", "p=1/q=2/", "p=10/"])
            sizes[f"{directory}{chance.choice(pieces)}{chance.randrange(4)}.parquet"] = chance.choice(
                [1, 5, 20, 90]
            )
        found = list(groups_of(sizes, 100, "000000", job))
        place_of = lambda key: (key.rpartition("/")[0], key.rpartition("/")[2])  # noqa: E731
        place = {key: group.name for group in found for key in group.keys}
        assert len(place) == sum(len(group.keys) for group in found), "no file twice"
        in_order = [place.get(key, key) for key in sorted(sizes, key=place_of)]
        once = list(dict.fromkeys(in_order))
        assert once == sorted(once, key=place_of), "the order of rows"
        for group in found:
            assert len(group.keys) > 1
            assert sum(sizes[key] for key in group.keys) <= 100
            assert {key.rpartition("/")[0] for key in group.keys} == {group.name.rpartition("/")[0]}


class TestOthers:
    def beside(self, monkeypatch: pytest.MonkeyPatch, work: Any) -> None:
        """Have somebody do something once the files were read, and before the job commits."""
        from magicfs.tables import rewrite as module

        real = module._Work.written

        def written(self: Any) -> Any:
            found = real(self)
            work()
            return found

        monkeypatch.setattr(module._Work, "written", written)

    def test_what_is_added_meanwhile_stays(self, scene: JobScene, monkeypatch: pytest.MonkeyPatch):
        scene.published({"p=1/a.parquet": parquet(1), "p=1/b.parquet": parquet(2)})
        self.beside(monkeypatch, lambda: scene.published({"p=1/c.parquet": parquet(3)}))
        assert rewritten(scene).files == 2
        assert rows(scene) == [1, 2, 3]

    @pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions"])
    def test_what_was_replaced_meanwhile_is_not_shown_again(
        self, scene: JobScene, monkeypatch: pytest.MonkeyPatch, mode: str
    ):
        scene.published({"p=1/a.parquet": parquet(1), "p=1/b.parquet": parquet(2)})
        self.beside(monkeypatch, lambda: scene.published({"p=1/c.parquet": parquet(3)}, mode=mode))
        with pytest.raises(CommitDenied, match=r"2 of 2 files .* nothing was changed; call again"):
            rewritten(scene)
        assert rows(scene) == [3]
        assert scene.work() == [] == scene.uploads()
        assert len(scene.data()) == 1

    def test_two_at_once(self, scene: JobScene, monkeypatch: pytest.MonkeyPatch):
        scene.published({"p=1/a.parquet": parquet(1), "p=1/b.parquet": parquet(2)})
        others: list[Any] = []

        def other() -> None:
            monkeypatch.undo()
            others.append(rewritten(scene))

        self.beside(monkeypatch, other)
        with pytest.raises(CommitDenied):
            rewritten(scene)
        assert rows(scene) == [1, 2]
        assert others[0].files == 2
        assert scene.work() == [] == scene.uploads()


class TestReading:
    def test_small_files_are_read_many_at_once_by_a_request_each(self, plain: JobScene):
        plain.published({f"p={n % 4}/{n:02}.parquet": parquet(n) for n in range(40)})
        at_once, most, reads = 0, 0, 0

        def latency(request: Request) -> float:
            nonlocal at_once, most, reads
            if request.operation == "get_range":
                at_once, reads = at_once + 1, reads + 1
                most = max(most, at_once)
            return 0.01

        def after(request: Request) -> None:
            nonlocal at_once
            at_once -= request.operation == "get_range"

        traffic = Traffic(latency=latency, after=after)
        report = rewrite(plain.url, filesystem=Dying(traffic=traffic, world=plain.filesystem.world))
        assert (report.files, report.new_files, report.rows) == (40, 4, 40)
        assert reads == 2 * 40, "a footer each to plan, then the file"
        assert most > 8
        assert rows(plain) == [*range(0, 40, 4), *range(1, 40, 4), *range(2, 40, 4), *range(3, 40, 4)]

    def test_a_file_that_goes_while_it_is_read_says_what_to_do(
        self, plain: JobScene, monkeypatch: pytest.MonkeyPatch
    ):
        from magicfs.tables import rewrite as module

        plain.published({"a.parquet": parquet(1)}, {"b.parquet": parquet(2)})
        before = plain.data()
        real, opened = module._opened, []

        def going(destination: Any, file: Any) -> Any:
            opened.append(file.key)
            if len(opened) == 4:
                plain.delete(file.key)
            return real(destination, file)

        monkeypatch.setattr(module, "_opened", going)
        with pytest.raises(ObjectNotFound, match=r"perhaps replaced by another job meanwhile.*call again"):
            rewritten(plain)
        assert len(plain.data()) == len(before) - 1
        assert plain.work() == [] == plain.uploads()


class Dying(MemoryFileSystem):
    """A filesystem whose process dies at a request."""

    def __init__(self, *, traffic: Traffic, **options: Any) -> None:
        super().__init__(**options)
        self.traffic = traffic

    def store(self, bucket: str) -> Store:
        return faulty(super().store(bucket), self.traffic, Actor("process"))


def until_it_dies(scene: JobScene, fault: Fault, **how: Any) -> bool:
    """Rewrite in a process that dies at a request; False if it has come to its end."""
    traffic = Traffic([fault])
    try:
        rewrite(scene.url, filesystem=Dying(traffic=traffic, world=scene.filesystem.world), **how)
    except BaseException:  # noqa: BLE001 - where fsspec reads a file it hides of what the process died
        assert traffic.met
    return bool(traffic.met)


class TestRuns:
    def test_a_run_rewrites_once(self, scene: JobScene):
        scene.published({"a.parquet": parquet(1), "b.parquet": parquet(2)})
        first = rewritten(scene, run_id="tidy 50% #1")
        assert (first.files, first.published_before) == (2, False)
        scene.published({"c.parquet": parquet(3)})
        before = scene.everything()
        second = rewritten(scene, run_id="tidy 50% #1")
        assert (second.job_id, second.files, second.published_before) == (first.job_id, 0, True)
        assert scene.everything() == before
        assert rewritten(scene, run_id="tidy 50% #10").files == 2
        assert rows(scene) == [1, 2, 3]
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()[0].run_id == "tidy 50% #10"

    def test_one_that_finds_nothing_is_not_remembered(self, scene: JobScene):
        scene.published({"a.parquet": parquet(1)})
        before = scene.everything()
        report = rewritten(scene, run_id="tidy")
        assert (report.job_id, report.files, report.published_before) == (None, 0, False)
        assert scene.everything() == before
        scene.published({"b.parquet": parquet(2)})
        assert rewritten(scene, run_id="tidy").files == 2

    def test_a_dry_run_asks_no_run(self, scene: JobScene):
        scene.published({"a.parquet": parquet(1), "b.parquet": parquet(2)})
        before = scene.everything()
        assert rewritten(scene, run_id="tidy", dry_run=True).files == 2
        assert scene.everything() == before

    def test_nothing_stays_where_nothing_was_published(self, scene: JobScene):
        with pytest.raises(ObjectNotFound):
            rewritten(scene, run_id="tidy")
        assert scene.below() == []

    def test_a_file_that_cannot_be_read_ends_the_job(self, plain: JobScene):
        plain.published({"a.parquet": parquet(1), "b.parquet": parquet(2)})
        plain.published({"c.parquet": b"PAR1 no more PAR1"})
        before = plain.everything()
        with pytest.raises(UsageError, match="cannot be read as Parquet"):
            rewritten(plain, run_id="tidy")
        assert plain.everything() == before

    @pytest.mark.slow
    @pytest.mark.sample(most=1)
    @pytest.mark.parametrize(("kind", "keep"), [(Kind.CRASH_BEFORE, "7d"), (Kind.CRASH_AFTER, None)])
    def test_the_call_repeated_ends_one_that_died_at_any_request(
        self, kind: Kind, keep: str | None, some: Some
    ):
        """Nobody runs recover: the second call does what the first could not."""
        ways = set()
        for number in some(range(1, 200), 50):
            scene = JobScene(DEST)
            scene.published({"p=1/a.parquet": parquet(1), "p=10/ü+.parquet": parquet(10)})
            scene.published({"p=1/b.parquet": parquet(2)})
            scene.published({"x.parquet": parquet(7)}, mode="append", run_id="tidy0")
            died = until_it_dies(scene, Fault(kind, number=number), run_id="tidy", keep=keep)
            assert sorted(rows(scene)) == [1, 2, 7, 10]
            second = rewritten(scene, run_id="tidy", keep=keep)
            ways.add((second.files, second.published_before))
            assert sorted(rows(scene)) == [1, 2, 7, 10]
            assert len(names(scene)) == 3
            assert scene.work() == [] == scene.uploads()
            assert len(scene.data()) == 3
            assert scene.success() is not None
            jobs = magicfs.Dataset(scene.url, filesystem=scene.filesystem).history()
            assert [one.run_id for one in jobs] == ["tidy", "tidy0", None, None]
            assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
            if not died:
                break
        assert 40 < number < 199, "every request"
        assert ways == {(2, False), (0, True)}


@pytest.mark.sample(most=1)
class TestDeaths:
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    def test_of_the_commit_at_each_request(self, kind: Kind, monkeypatch: pytest.MonkeyPatch):
        """The process dies in its commit, which recover ends one way or the other."""
        from magicfs.engine import Engine
        from magicfs.tables import rewrite as module

        ends = set()
        real = module.committed
        for number in range(1, 100):
            scene = JobScene(DEST)
            scene.published({"p=1/a.parquet": parquet(1)}, {"p=1/b.parquet": parquet(2)})
            traffic = Traffic([Fault(kind, number=number)])

            async def dying(transaction: Any, *given: Any) -> Any:
                store = faulty(scene.plain, traffic, Actor("process"))  # noqa: B023
                dies = type(transaction)(Engine(store, 1), transaction.context)
                return await real(dies, *given)

            monkeypatch.setattr(module, "committed", dying)
            died = False
            try:
                rewritten(scene)
            except Crash:
                died = True
            assert rows(scene) == [1, 2]
            for _ in range(2):
                magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover()
            if scene.work():
                job = scene.work()[0].split("/")[0].removeprefix("__magic_job-")
                with pytest.raises(UsageError, match="only its own process knew which files"):
                    commit(
                        scene.url,
                        job,
                        filesystem=scene.filesystem,
                    )
                magicfs.Dataset(scene.url, filesystem=scene.filesystem).recover(abort=True)
            assert rows(scene) == [1, 2]
            assert scene.work() == [] == scene.uploads()
            ends.add(len(names(scene)))
            assert len(scene.data()) == len(names(scene))
            assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok
            if not died:
                break
        assert 20 < number < 99, "every request"
        assert ends == {1, 2}


class TestCommand:
    def test_it_rewrites_and_says_what(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        url = str(tmp_path / "sales 50% #1")
        with magicfs.Job(url) as job, job.task(0) as task:
            for n in (1, 2, 3):
                task.filesystem.pipe_file(f"{task.path}/p=1/{n}.parquet", parquet(n))

        def said(*words: str, code: int = 0) -> str:
            assert main(["maintain", url, "--only", "rewrite", "--rewrite", "1 MB", *words]) == code
            return capsys.readouterr().out

        assert "rewrite  would replace 3 files" in said("--dry-run", code=1)
        found = json.loads(said("--partition", "p=1", "--json"))["rewrite"]
        assert (found["files"], found["new_files"], found["rows"]) == (3, 1, 3)
        assert "rewrite  no small files" in said("--run-id", "tidy")
        with magicfs.Job(url, mode="append") as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/p=1/4.parquet", parquet(4))
        assert "replaced 2 files" in said("--run-id", "tidy")
        again = said("--run-id", "tidy")
        assert "rewrite  job " in again
        assert main(["maintain", url, "--rewrite", "much"]) == 2
        assert main(["maintain", url, "--run-id", "tidy"]) == 2, "which rewrite?"
