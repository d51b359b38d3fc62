"""What files say of themselves, from the bytes that tasks write to ``Dataset.footers``."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import magicfs
from magicfs.cli.main import main
from magicfs.errors import CommitFailed, FormatError, UsageError
from magicfs.filesystem.upload.footers import taker_of
from magicfs.formats.footer import FOOTER, SCHEMA, Field, Footer, Schema, Values, carried_by, footers_in
from magicfs.formats.manifest import Manifest
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.task_commit import TaskCommit, unpack
from magicfs.manifests import footers as lists
from magicfs.manifests import parts
from magicfs.manifests.chain import manifest_key
from magicfs.testing.store_faults import Fault, Kind
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import JobScene
from proofs.scenes.manifests import published_manifest
from tests.sample import examples

pytestmark = pytest.mark.sample(most=2)

DEST = "env=prod/día 50% + #1"


def parquet(*values: Any, **how: Any) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(
        pa.table({"n": pa.array(values, pa.int64()), "s": [f"{one}" for one in values]}), buffer, **how
    )
    return buffer.getvalue()


@pytest.fixture(params=["if-match", "numbered"])
def scene(request: pytest.FixtureRequest) -> JobScene:
    return JobScene(DEST, ignores=frozenset({"put_if_match"} if request.param == "numbered" else ()))


@pytest.fixture
def plain() -> JobScene:
    return JobScene(DEST)


def footers(scene: JobScene, **how: Any) -> dict[str, Footer | None]:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).footers(**how)


def rows(scene: JobScene, **how: Any) -> list[int | None]:
    return sorted((one.rows if one else None for one in footers(scene, **how).values()), key=str)


def manifest(scene: JobScene, job: str | None = None) -> Manifest:
    return published_manifest(scene.url, job, filesystem=scene.filesystem)


WAYS: dict[str, dict[str, Any]] = {
    "store": {},
    "memory": {"tracking": "memory"},
    "small files": {"tracking": "memory", "small_files": 100_000},
    "small and large": {"tracking": "memory", "small_files": 1_000},
    "old layout": {"hadoop": "3.3"},
    "checksums": {"hadoop": "3.5"},
}


class TestTravel:
    @pytest.mark.parametrize("way", WAYS)
    def test_from_the_task_to_the_manifest(self, scene: JobScene, way: str):
        files = {"p=1/a ü.parquet": parquet(3, None, 1), "b.csv": b'a,b\n1,"2\n3"\n', "c.bin": b"1\n2\n"}
        job = scene.published(files, {"d.jsonl": b'{"a":1}\n{"a":2}'}, footers=True, **WAYS[way])
        found = {key.partition("-0000")[0]: one for key, one in footers(scene).items()}
        assert {key: one and (one.rows, one.format) for key, one in found.items()} == {
            "p=1/a ü": (3, "parquet"),
            "b": (2, "csv"),
            "c": None,
            "d": (2, "json lines"),
        }
        one = found["p=1/a ü"]
        assert one is not None
        assert {name: (c.nulls, c.min, c.max) for name, c in one.columns.items()} == {
            "n": (1, 1, 3),
            "s": (0, "1", "None"),
        }
        told = manifest(scene, job.id)
        assert told.footers is not None
        assert told.footers.rows is None, "of one file nobody knows"
        assert told.footers.schemas == (one.schema.fingerprint,) if one.schema else ()
        assert sorted(str(file.rows) for file in told.files) == ["2", "2", "3", "None"]
        assert sum(part.files for part in told.footers.lists) == 3
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok

    @pytest.mark.parametrize("committer", ["directory", "partitioned"])
    @pytest.mark.parametrize("shared", [False, True])
    def test_from_local_files(self, scene: JobScene, committer: str, shared: bool, tmp_path: Path):
        options = {"work_directory": f"{tmp_path}/work"}
        if shared:
            options["cluster_directory"] = f"{tmp_path}/shared"
        how = {"committer": committer, "committer_options": options, "filesystem": scene.filesystem}
        with (
            magicfs.Job(scene.url, mode="append", **arranged(footers=True, **how)) as job,
            job.task(0) as task,
        ):
            directory = Path(task.path) / "p=1"
            directory.mkdir()
            (directory / "a.parquet").write_bytes(parquet(*range(5), None))
            (directory / "large.parquet").write_bytes(
                parquet(*range(200_000), compression="NONE", use_dictionary=False)
            )
            (directory / "b.csv").write_bytes(b'"x"\n' * 700_000)
        found = {key.partition("-0000")[0]: one for key, one in footers(scene).items()}
        assert {key: one and one.rows for key, one in found.items()} == {
            "p=1/a": 6,
            "p=1/large": 200_000,
            "p=1/b": 700_000,
        }
        assert manifest(scene).footers is not None

    def test_without_asking_nothing_is_kept(self, plain: JobScene):
        job = plain.published({"a.parquet": parquet(1)})
        told = manifest(plain, job.id)
        assert told.footers is None
        assert b"footer" not in b"".join(body for body, *_ in plain.objects().values())
        assert b'"rows"' not in b"".join(body for body, *_ in plain.objects().values())
        assert rows(plain) == [None]

    @pytest.mark.parametrize("size", [1, 7, 4096, 6 * 2**20])
    def test_however_it_is_written(self, plain: JobScene, size: int):
        raw = parquet(*range(900_000 if size > 2**20 else 3_000), compression="NONE", use_dictionary=False)
        job = plain.job(footers=True, part_size=5 * 2**20)
        task = job.task(0).setup()
        with task.filesystem.open(f"{task.path}/a.parquet", "wb") as file:
            for start in range(0, len(raw), size):
                file.write(raw[start : start + size])
        job.commit([task.commit()])
        assert rows(plain) == [900_000 if size > 2**20 else 3_000]

    def test_through_every_method_that_writes(self, plain: JobScene, tmp_path: Path):
        local = tmp_path / "x.parquet"
        local.write_bytes(parquet(1, 2))
        plain.filesystem.pipe_file("bucket/elsewhere.parquet", parquet(1, 2, 3))
        job = plain.job(footers=True)
        with job.task(0) as task:
            fs, path = task.filesystem, task.path
            fs.put_file(str(local), f"{path}/put.parquet")
            fs.cp_file("bucket/elsewhere.parquet", f"{path}/copied.parquet")
            fs.pipe_file(f"{path}/piped.parquet", parquet(1))
            fs.pipe_file(f"{path}/was.parquet", parquet(*range(6)))
            fs.mv(f"{path}/was.parquet", f"{path}/is.parquet")
            fs.touch(f"{path}/empty.parquet")
            with fs.transaction:
                fs.pipe_file(f"{path}/together.parquet", parquet(1, 2, 3, 4))
            with fs.open(f"{path}/frame.csv", "w") as file:
                pd.DataFrame({"n": range(5)}).to_csv(file, index=False)
            with fs.open(f"{path}/text.csv.gz", "wt", compression="gzip") as file:
                file.write("a\n1\n")
        job.commit(job.commits)
        found = {key.partition("-0000")[0]: one and one.rows for key, one in footers(plain).items()}
        assert found == {
            "put": 2,
            "copied": 3,
            "piped": 1,
            "is": 6,
            "empty": None,
            "together": 4,
            "frame": 6,
            "text": None,
        }

    def test_local_destinations(self, tmp_path: Path):
        url = f"file://{tmp_path}/dataset 1"
        with magicfs.Job(url, options={"footers": True}) as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.parquet", parquet(1, 2))
            with task.filesystem.open(f"{task.path}/b.csv", "w") as file:
                for _ in range(100):
                    file.write('"a""b"\n')
        assert sorted(one.rows for one in magicfs.Dataset(url).footers().values() if one) == [2, 100]

    def test_extra_destinations_have_their_own(self, plain: JobScene):
        extra = "memory://bucket/raw"
        job = plain.job(footers=True, extra_destinations=[extra])
        with job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.parquet", parquet(1, 2))
            task.filesystem.pipe_file(f"{task.path_to(extra)}/b.parquet", parquet(1, 2, 3))
        job.commit(job.commits)
        assert rows(plain) == [2]
        there = magicfs.Dataset(extra, filesystem=plain.filesystem).footers()
        assert [one and one.rows for one in there.values()] == [3]

    def test_a_schema_stands_in_a_pending_set_once(self, plain: JobScene):
        job = plain.job(footers=True)
        [commit] = plain.wrote(job, {f"{n}.parquet": parquet(n) for n in range(5)})
        assert commit.content is not None
        one = PendingSet.from_bytes("x", unpack("x", commit.content))
        assert sum(SCHEMA in file.extra_data for file in one.commits) == 1
        assert sum(FOOTER in file.extra_data for file in one.commits) == 5
        job.commit([commit])
        assert all(one and one.columns["n"].min is not None for one in footers(plain).values())

    @pytest.mark.parametrize("committer", ["manifest", "file", "direct", "stocator", "task-completing"])
    def test_committers_without_manifests_or_uploads_refuse(self, tmp_path: Path, committer: str):
        with pytest.raises(UsageError, match="footers are recorded in manifests"):
            magicfs.Job(f"file://{tmp_path}/x", committer=committer, mode="append", options={"footers": True})

    def test_other_processes_read_it_from_the_job_object(self, plain: JobScene):
        from proofs.scenes.known import forget_job

        job = plain.job(footers=True)
        task = job.task(0).setup()
        forget_job(job)
        task.filesystem.pipe_file(f"{task.path}/a.parquet", parquet(1, 2))
        job.commit([task.commit()])
        assert rows(plain) == [2]


class TestChain:
    def test_the_dataset_has_those_of_all_jobs(self, scene: JobScene):
        first = scene.published({"a.parquet": parquet(1)}, footers=True)
        scene.published({"a.parquet": parquet(1, 2)})
        scene.published({"a.parquet": parquet(1, 2, 3)}, footers=True)
        assert rows(scene) == [1, 3, None]
        assert rows(scene, last=True) == [3]
        assert rows(scene, as_of=first.id) == [1]

    def test_replaced_files_have_none(self, scene: JobScene):
        scene.published({"p=1/a.parquet": parquet(1)}, {"p=2/a.parquet": parquet(1, 2)}, footers=True)
        scene.published({"p=1/a.parquet": parquet(1, 2, 3)}, footers=True, mode="overwrite_partitions")
        assert rows(scene) == [2, 3]
        scene.published({"p=1/a.parquet": parquet(*range(4))}, footers=True, mode="overwrite")
        assert rows(scene) == [4]

    def test_a_sum_has_those_of_all(self, plain: JobScene):
        for count in range(1, 5):
            plain.published({"a.parquet": parquet(*range(count))}, footers=count != 3)
        before = footers(plain)
        magicfs.Dataset(plain.url, filesystem=plain.filesystem).compact()
        assert footers(plain) == before
        plain.published({"a.parquet": parquet(*range(5))}, footers=True)
        magicfs.Dataset(plain.url, filesystem=plain.filesystem).compact()
        assert rows(plain) == [1, 2, 4, 5, None]
        head = plain.elsewhere(_head)
        assert head.mode == "compact"
        assert head.footers is not None
        assert head.footers.rows is None

    def test_a_rollback_shows_those_of_then(self, plain: JobScene):
        first = plain.published({"a.parquet": parquet(1)}, footers=True)
        plain.published({"a.parquet": parquet(1, 2)}, footers=True, mode="overwrite", keep="7d")
        back = magicfs.Dataset(plain.url, filesystem=plain.filesystem).rollback(to=first.id, keep=None)
        assert rows(plain) == [1]
        told = manifest(plain, back.job_id).footers
        assert told is not None
        assert told.rows == 1
        magicfs.Dataset(plain.url, filesystem=plain.filesystem).compact()
        assert rows(plain) == [1]

    def test_names_that_others_have_had_are_not_confused(self, plain: JobScene):
        plain.published({"a.parquet": parquet(1)}, footers=True, unique_names=False)
        plain.published({"a.parquet": parquet(1, 2)}, mode="overwrite", unique_names=False)
        assert rows(plain) == [None]
        plain.published({"a.parquet": parquet(1, 2, 3)}, mode="overwrite", unique_names=False, footers=True)
        assert rows(plain) == [3]

    def test_lists_of_a_sum_that_was_not_linked_go(self, plain: JobScene, monkeypatch: pytest.MonkeyPatch):
        from importlib import import_module

        compact = import_module("magicfs.past.compact")
        for count in range(1, 3):
            plain.published({"a.parquet": parquet(*range(count))}, footers=True)
        real, calls = compact._linked, []

        async def late(*given: Any) -> bool:
            calls.append(given)
            return len(calls) > 1 and await real(*given)

        monkeypatch.setattr(compact, "_linked", late)
        magicfs.Dataset(plain.url, filesystem=plain.filesystem).compact()
        assert len(calls) == 2
        sums = {one.split("/")[1] for one in plain.below("_magicfs/compact-") if one.count("/") == 2}
        assert len(sums) == 1
        assert rows(plain) == [1, 2]

    @pytest.mark.slow
    def test_lists_of_a_compaction_that_died_go_with_the_next(self, plain: JobScene):
        from magicfs.past.compact import compact_chain
        from magicfs.protocol import paths

        for number in range(1, 40):
            one = JobScene(DEST)
            for count in range(1, 3):
                one.published({"a.parquet": parquet(*range(count))}, footers=True)
            engine = one.engine(one.traffic(Fault(Kind.CRASH_BEFORE, number=number)))
            done = one.lived(lambda: compact_chain(engine, paths.parse_url(one.url)))  # noqa: B023
            assert rows(one) == [1, 2]
            if done is not None:
                break
            magicfs.Dataset(one.url, filesystem=one.filesystem).compact()
            one.published({"a.parquet": parquet(*range(3))}, footers=True)
            magicfs.Dataset(one.url, filesystem=one.filesystem).compact()
            assert rows(one) == [1, 2, 3]
        assert number > 8

    def test_very_many_files_are_listed_in_parts(self, plain: JobScene, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(parts, "FILES_IN_MANIFEST", 3)
        monkeypatch.setattr(lists, "_FILES_IN_LIST", 2)
        job = plain.published(
            {f"{n}.parquet": parquet(*range(n)) for n in range(5)}, {"x.bin": b"1"}, footers=True
        )
        told = manifest(plain, job.id)
        assert told.footers is not None
        assert [one.files for one in told.footers.lists] == [2, 2, 1]
        assert rows(plain) == [0, 1, 2, 3, 4, None]
        assert len(list(plain.below(f"_magicfs/{job.id}/"))) == 3 + len(told.parts)

    def test_an_altered_list_is_refused(self, plain: JobScene):
        job = plain.published({"a.parquet": parquet(1)}, footers=True)
        [name] = plain.below(f"_magicfs/{job.id}/")
        plain.put(name, b"{}")
        with pytest.raises(FormatError, match="SHA-256"):
            footers(plain)
        plain.delete(name)
        with pytest.raises(FormatError, match="missing"):
            footers(plain)


async def _head(engine: Any) -> Manifest:
    from magicfs.manifests import chain

    seen = await chain.read_pointer(engine.store, DEST, chain.READING)
    assert seen is not None
    found = await chain.read(engine.store, DEST, seen[0].job_id, chain.READING)
    assert found is not None
    return found


class TestDeaths:
    @pytest.mark.slow
    @pytest.mark.parametrize("kind", [Kind.CRASH_BEFORE, Kind.CRASH_AFTER])
    @pytest.mark.parametrize("mode", ["append", "overwrite"])
    def test_whoever_finishes_a_job_writes_the_same(self, kind: Any, mode: str):
        ends: set[Any] = set()
        for number in range(1, 99):
            scene = JobScene(DEST)
            scene.published({"old.parquet": parquet(*range(9))}, footers=True)
            job = scene.job(mode, footers=True)
            files = ({"a.parquet": parquet(1), "b.csv": b"1\n"}, {"c.parquet": parquet(1, 2)})
            done = scene.commit(job, scene.wrote(job, *files), Fault(kind, number=number))
            scene.recover()
            found = rows(scene)
            if scene.work():
                scene.recover(abort=True)
                found = rows(scene)
            ends.add(tuple(found))
            new = [1, 1, 2] if mode == "overwrite" else [1, 1, 2, 9]
            assert found in ([9], new)
            if found == new:
                told = manifest(scene, job.id)
                assert told.footers is not None
                assert told.footers.rows == 4
                assert len(scene.below(f"_magicfs/{job.id}/")) == 1, "one list, whoever wrote it"
            if done is not None:
                break
        assert 15 < number < 98, "every request"
        assert len(ends) == 2


class TestCsv:
    @settings(deadline=None, max_examples=examples(300))
    @given(
        records=st.lists(
            st.lists(st.text(st.sampled_from('ab,"\n\r;é '), max_size=6), min_size=2, max_size=3), max_size=6
        ),
        cuts=st.lists(st.integers(0, 200), max_size=5),
        quote_all=st.booleans(),
    )
    def test_rows_are_right_or_not_known(self, records: Any, cuts: list[int], quote_all: bool):
        import csv

        text = io.StringIO(newline="")
        quoting = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
        csv.writer(text, lineterminator="\n", quoting=quoting).writerows(records)
        raw = text.getvalue().encode()
        found = taken("x.csv", raw, cuts)
        assert found is None or found.rows == len(records)

    @pytest.mark.parametrize(
        ("raw", "count"),
        [
            (b"", 0),
            (b"a", 1),
            (b"a\n", 1),
            (b"a\r\nb\r\n", 2),
            (b'"a\nb"\n', 1),
            (b'"a""b\n"\n"c"\n', 2),
            (b'a,"","b"\n1,"",""\n', 2),
            (b'"""quoted"""\n', 1),
            (b'"a\nb",1\n"c\n', None),
            (b'a\n5" pipe\n6" pipe\n', None),
            (b'"a\\"b"\n"c"\n', None),
        ],
    )
    @pytest.mark.parametrize("step", [1, 2, 3, 100])
    def test_known_files(self, raw: bytes, count: int | None, step: int):
        found = taken("x.CSV", raw, range(0, len(raw), step))
        if count is None or step == 100:
            assert (found and found.rows) == count
        else:
            assert found is None or found.rows == count

    @given(
        lines=st.lists(st.text('ab{}"', min_size=1, max_size=5)),
        ended=st.booleans(),
        cuts=st.lists(st.integers(0, 60)),
    )
    def test_json_lines(self, lines: list[str], ended: bool, cuts: list[int]):
        raw = "\n".join(lines).encode() + (b"\n" if ended and lines else b"")
        found = taken("x.ndjson", raw, cuts)
        assert found == Footer(rows=len(lines), format="json lines")


def taken(name: str, raw: bytes, cuts: Any) -> Footer | None:
    taker = taker_of(name)
    places = sorted({0, len(raw), *(one % (len(raw) + 1) for one in cuts)})
    for start, end in itertools.pairwise(places):
        taker.take(memoryview(raw[start:end]))
    return taker.footer()


class TestFilesAtTheirPlace:
    """Of local files only the ends are read, once they are whole."""

    @pytest.mark.parametrize(
        ("columns", "rows"),
        [(1, 0), (2, 10), (900, 3), (2, 200_000)],
        ids=["empty", "small", "long footer", "larger than what is kept"],
    )
    def test_tell_the_same_as_their_bytes_do(self, tmp_path: Path, columns: int, rows: int):
        table = pa.table({f"column {n} ü": range(n, n + rows) for n in range(columns)})
        raw = io.BytesIO()
        pq.write_table(table, raw, use_dictionary=False, compression="none")
        url = (tmp_path / "day=1 %+#").as_uri()
        with (
            magicfs.Job(url, options={"footers": True, "tracking": "memory"}) as job,
            job.task(0) as task,
            task.filesystem.open(f"{task.path}/a.parquet", "wb") as file,
        ):
            file.write(raw.getvalue()[:-100])
            file.write(raw.getvalue()[-100:])
        [found] = magicfs.Dataset(url).footers().values()
        assert found == taken("a.parquet", raw.getvalue(), [])
        assert found is not None
        assert found.rows == rows

    def test_what_is_no_parquet_tells_nothing(self, tmp_path: Path):
        bodies = {"a.parquet": b"", "b.parquet": b"PAR1", "c.parquet": b"PAR1" + b"\xff" * 12 + b"PAR1"}
        with (
            magicfs.Job(tmp_path.as_uri(), options={"footers": True, "tracking": "memory"}) as job,
            job.task(0) as task,
        ):
            for name, body in bodies.items():
                with task.filesystem.open(f"{task.path}/{name}", "wb") as file:
                    file.write(body)
        assert list(magicfs.Dataset(tmp_path.as_uri()).footers().values()) == [None] * 3


class TestLimits:
    def test_many_columns_lose_the_statistics_of_the_last(self):
        schema = Schema.of([Field((f"column {n}",), "string", 1) for n in range(1000)])
        one = Footer(rows=5, format="parquet", schema=schema, values=(Values(1, "a" * 60, "b" * 60),) * 1000)
        [found] = footers_in([carried_by(one)])
        assert found is not None
        assert len(one.to_text()) <= 16 * 1024
        assert 0 < len(found.values) < 1000
        assert (found.rows, found.schema) == (5, schema)
        assert found.column("column 0") == one.column("column 0")
        assert found.column("column 999") is None

    def test_of_a_huge_schema_the_fingerprint_stays(self):
        schema = Schema.of([Field((f"column {n}",), "string", 1) for n in range(10_000)])
        assert schema.fields == ()
        [found] = footers_in([carried_by(Footer(rows=5, format="parquet", schema=schema))])
        assert found is not None
        assert found.schema == schema
        assert found.columns == {}

    def test_what_cannot_be_read_is_not_known(self):
        assert list(footers_in([{}, {FOOTER: "x"}, {FOOTER: '{"rows":1}'}, {FOOTER: "{}", SCHEMA: "["}])) == [
            *([None] * 4)
        ]

    def test_names_that_several_columns_have_are_nobodys(self):
        schema = Schema.of([Field(("a.b",), "int64"), Field(("a", "b"), "int64")])
        one = Footer(rows=1, format="parquet", schema=schema, values=(Values(0, 1, 2), Values(0, 3, 4)))
        assert one.columns == {}
        assert one.column("a.b") is None

    @pytest.mark.slow
    def test_a_million_files_stay_readable(self, plain: JobScene):
        """Bytes for each file: in the manifest, and in the lists beside it."""
        plain.published({f"{n}.parquet": parquet(n) for n in range(200)}, footers=True)
        bare = plain.published({f"{n}.parquet": parquet(n) for n in range(200)})
        told = manifest(plain)
        other = JobScene(DEST)
        job = other.published({f"{n}.parquet": parquet(n) for n in range(200)}, footers=True)
        with_rows = len(other.objects()[manifest_key(DEST, job.id)][0])
        without = len(plain.objects()[manifest_key(DEST, bare.id)][0])
        assert told.footers is None
        assert (with_rows - without) / 200 < 15
        [name] = other.below(f"_magicfs/{job.id}/")
        assert len(other.objects()[f"{DEST}/{name}"][0]) / 200 < 260


class TestCraftedRecords:
    """What a task recorded of a file is no reason to leave a job unfinished."""

    def crafted(self, scene: JobScene, **extra: str) -> tuple[magicfs.Job, list[TaskCommit]]:
        """A job of two files, of whose first one the record says something else."""
        job = scene.job(footers=True)
        task = job.task(0)
        task.setup()
        for name in ("a.parquet", "b.parquet"):
            task.filesystem.pipe_file(f"{task.path}/{name}", parquet(1, 2))
        [record] = [one for one in scene.work() if one.endswith("a.parquet.pending")]
        document = json.loads(scene.objects()[f"{DEST}/{record}"][0])
        document["extraData"] |= extra
        scene.put(record, json.dumps(document).encode())
        return job, [task.commit()]

    @pytest.mark.parametrize(
        "extra",
        [
            {SCHEMA: "[" * 5000 + "]" * 5000},
            {SCHEMA: r'[["\ud800","int64",0,0]]'},
            {FOOTER: '{"rows":1,"format":"csv","schema":""}'},
            {FOOTER: '{"rows":1,"format":"csv","x":' + "[" * 5000 + "]" * 5000 + "}"},
            {FOOTER: f'{{"rows":1,"format":"csv","columns":[[{2**70}]]}}'},
        ],
        ids=["deep schema", "half a character", "not a schema fingerprint", "deep footer", "many nulls"],
    )
    def test_a_job_is_finished_without_what_cannot_be_read(self, plain: JobScene, extra: dict[str, str]):
        job, commits = self.crafted(plain, **extra)
        [said] = job.commit(commits).warnings
        assert said.startswith("1 files are published without rows, schema and statistics")
        assert (plain.work(), plain.recover().jobs) == ([], ())
        assert sorted(found is None for found in footers(plain).values()) == [False, True]
        assert manifest(plain).footers.rows is None

    def test_a_record_that_is_too_long_fails_the_job_before_its_commit_point(self, plain: JobScene):
        job, commits = self.crafted(plain, **{FOOTER: " " * 20_000})
        with pytest.raises(CommitFailed, match="20000 characters, and the limit is 16384"):
            job.commit(commits)
        assert (plain.work(), plain.data()) == ([], {})

    def test_rows_beyond_64_bits_are_not_known(self, plain: JobScene):
        job, commits = self.crafted(plain, **{FOOTER: f'{{"rows":{2**63 - 1},"format":"csv"}}'})
        assert not job.commit(commits).warnings
        assert manifest(plain).footers.rows is None
        assert len(footers(plain)) == 2


class TestShow:
    def test_manifest_and_lists(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        url = f"{tmp_path}/d"
        with magicfs.Job(url, options={"footers": True}) as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.parquet", parquet(1, None))
            task.filesystem.pipe_file(f"{task.path}/b.csv", b"1\n")
        assert main(["show", f"{url}/_magicfs/{job.id}.json"]) == 0
        out = capsys.readouterr().out
        assert "rows          3" in out
        assert "SIZE" in out
        assert "ROWS" in out
        [name] = [one.name for one in Path(f"{url}/_magicfs/{job.id}").iterdir()]
        assert main(["show", f"{url}/_magicfs/{job.id}/{name}"]) == 0
        out = capsys.readouterr().out
        assert "file statistics" in out
        assert any(line.split() == ["n", "int64", "1", "1", "1"] for line in out.splitlines())
        assert main(["show", "--json", f"{url}/_magicfs/{job.id}/{name}"]) == 0
        assert json.loads(capsys.readouterr().out)["kind"] == "footers"
