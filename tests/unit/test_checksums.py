"""Checksums of files: made by the tasks that write them, kept by manifests, and held against the store."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.errors import UsageError
from magicfs.filesystem.upload.stream import taker_for
from magicfs.formats.manifest import Manifest
from magicfs.protocol.parts import PartLimits
from magicfs.report import VerifyReport
from magicfs.stores import checksums
from magicfs.stores.memory.store import World
from magicfs.stores.port import Capabilities, Checksums
from proofs.scenes.arranged import arranged
from proofs.scenes.job_scene import JobScene
from proofs.scenes.manifests import published_manifest

DEST = "env=prod/día 50% + #1"
WAYS: dict[str, dict[str, Any]] = {
    "store": {},
    "memory": {"tracking": "memory"},
    "small files": {"tracking": "memory", "small_files": 100_000},
    "small and large": {"tracking": "memory", "small_files": 3},
    "with footers": {"footers": True},
    "objects": {"hadoop": "3.5"},
}
TELLING = Capabilities(parts=PartLimits(size_min=1), checksums=Checksums(("CRC32",)))


def parquet(count: int = 100) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": list(range(count))}), sink)
    return sink.getvalue()


def crc32(body: bytes) -> str:
    return f"CRC32:{base64.b64encode(zlib.crc32(body).to_bytes(4, 'big')).decode()}"


FILES = {"p=1/a ü%+#.parquet": parquet(), "b.csv": b"n\n1\n", "empty.bin": b"", "c.bin": b"\0" * 70_000}


SIZES = (0, 1, 65_535, 65_536, 65_537, 3_000_001)


class TestCrc32:
    """That of many bytes may be made by zlib-ng."""

    @staticmethod
    def expect_the_sums_of_zlib() -> None:
        body = bytes(range(256)) * 12_000
        for size in SIZES:
            part = body[:size]
            for form in (part, bytearray(part), memoryview(part)):
                assert checksums.crc32(form) == zlib.crc32(part)
            assert checksums.crc32(part, 0xFFFF_FFFF) == zlib.crc32(part, 0xFFFF_FFFF)
        words = memoryview(body[:131_072]).cast("I")
        assert checksums.crc32(words) == zlib.crc32(words)

    @pytest.fixture(autouse=True)
    def looked_for_anew(self) -> Iterator[None]:
        looked_up = checksums._crc32_of_many  # which a test may put another in place of
        looked_up.cache_clear()
        yield
        looked_up.cache_clear()

    def test_with_it(self):
        from zlib_ng import zlib_ng

        self.expect_the_sums_of_zlib()
        assert checksums._crc32_of_many() is zlib_ng.crc32

    def test_without_it(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, "zlib_ng", None)
        self.expect_the_sums_of_zlib()
        assert checksums._crc32_of_many() is zlib.crc32

    def test_small_bodies_do_not_look_for_it(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(checksums, "_crc32_of_many", lambda: pytest.fail("looked for"))
        assert checksums.crc32(b"x" * 65_535) == zlib.crc32(b"x" * 65_535)


def verified(scene: JobScene) -> VerifyReport:
    return magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify(deep=True)


def manifest(scene: JobScene) -> Manifest:
    return published_manifest(scene.url, filesystem=scene.filesystem)


def rot(scene: JobScene, name: str) -> str:
    """Change a byte of an object that stays what it was for all who do not read it."""
    contents = scene.filesystem.world.find("bucket")
    assert contents is not None
    [key] = [key for key in contents.objects if key.startswith(f"{DEST}/{name}")]
    held = contents.objects[key]
    middle = len(held.body) // 2
    body = held.body[:middle] + bytes([held.body[middle] ^ 1]) + held.body[middle + 1 :]
    contents.objects[key] = replace(held, body=body)
    return key.removeprefix(f"{DEST}/")


class TestMaking:
    @pytest.mark.parametrize(
        ("algorithm", "expected"),
        [
            ("CRC32", "y/Q5Jg=="),
            ("CRC32C", "4waSgw=="),
            ("MD5", base64.b64encode(hashlib.md5(b"123456789").digest()).decode()),
            ("SHA1", base64.b64encode(hashlib.sha1(b"123456789").digest()).decode()),
            ("SHA256", base64.b64encode(hashlib.sha256(b"123456789").digest()).decode()),
        ],
    )
    def test_of_pieces_as_of_the_whole(self, algorithm: str, expected: str):
        assert checksums.can_make(algorithm)
        for cuts in ([9], [1, 8], [0, 4, 0, 5]):
            made, at = checksums.running(algorithm), 0
            for size in cuts:
                made.update(memoryview(b"123456789")[at : at + size])
                at += size
            assert made.value() == expected

    def test_what_s3_tells_of_uploads_is_made_where_awscrt_is(self, monkeypatch: pytest.MonkeyPatch):
        """Its function, bit by bit; the value is the check value of CRC-64/NVME."""

        def crc64nvme(data: bytes, before: int = 0) -> int:
            found = before ^ (2**64 - 1)
            for byte in data:
                found ^= byte
                for _ in range(8):
                    found = (found >> 1) ^ (0x9A6C9329AC4BC9B5 if found & 1 else 0)
            return found ^ (2**64 - 1)

        library, module = ModuleType("awscrt"), ModuleType("awscrt.checksums")
        module.crc64nvme = crc64nvme  # type: ignore[attr-defined]
        library.checksums = module  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "awscrt", library)
        monkeypatch.setitem(sys.modules, "awscrt.checksums", module)
        checksums.can_make.cache_clear()
        try:
            assert checksums.best("CRC64NVME") == "CRC64NVME"
            made = checksums.running("CRC64NVME")
            for piece in (b"1234", b"56789"):
                made.update(memoryview(piece))
            assert made.value() == "rosUhgp5mIg="
            monkeypatch.delattr(module, "crc64nvme")
            checksums.can_make.cache_clear()
            assert checksums.best("CRC64NVME") == "CRC32"
        finally:
            checksums.can_make.cache_clear()

    def test_what_cannot_be_made_gives_way(self):
        assert not checksums.can_make("CRC16")
        assert checksums.best("CRC16", "CRC32C", "MD5") == "CRC32C"
        assert checksums.best("CRC16") == checksums.best() == "CRC32"

    @pytest.mark.parametrize(
        "text", [None, "", "CRC32", "crc32:AAAA", "CRC32:", "CRC32:a b", "CRC32:AA==\n", "Ä:AAAA"]
    )
    def test_what_is_no_checksum_is_none(self, text: str | None):
        assert checksums.split(text) is None

    def test_bytes_that_were_not_seen_make_none(self):
        class Wanted:
            footers = False
            checksums = True
            sealed = False

        taker = taker_for(JobScene(DEST).plain, "a.bin", Wanted())
        assert taker is not None
        taker.take(memoryview(b"123"))
        assert taker.taken_now(3).checksum == crc32(b"123")
        assert taker.taken_now(4).checksum is None


class TestTravel:
    @pytest.mark.parametrize("ignores", ["", "put_if_match"])
    @pytest.mark.parametrize("way", WAYS)
    def test_from_the_task_to_the_manifest(self, way: str, ignores: str):
        scene = JobScene(DEST, ignores=frozenset(filter(None, [ignores])))
        scene.published(FILES, {"d/e.jsonl": b'{"a":1}'}, checksums=True, **WAYS[way])
        found = {file.checksum for file in manifest(scene).files}
        assert found == {crc32(body) for body in (*FILES.values(), b'{"a":1}')}
        report = verified(scene)
        assert (report.ok, report.by_store, report.read, report.confirmed) == (True, 0, 5, 5)

    def test_a_file_of_many_parts_that_is_streamed(self):
        scene = JobScene(DEST)
        body = bytes(range(256)) * 100_000
        job = scene.job(checksums=True, part_size=5 * 2**20)
        task = job.task(0).setup()
        with task.filesystem.open(f"{task.path}/large.bin", "wb") as file:
            for start in range(0, len(body), 999_999):
                file.write(body[start : start + 999_999])
        job.commit([task.commit()])
        assert [file.checksum for file in manifest(scene).files] == [crc32(body)]

    @pytest.mark.parametrize("committer", ["directory", "partitioned"])
    @pytest.mark.parametrize("footers", [False, True])
    def test_from_local_files(self, committer: str, footers: bool, tmp_path: Path):
        scene = JobScene(DEST)
        how = {
            "committer": committer,
            "committer_options": {"work_directory": f"{tmp_path}/work"},
            "filesystem": scene.filesystem,
            "checksums": True,
            "footers": footers,
        }
        large = parquet(700_000)
        with magicfs.Job(scene.url, mode="append", **arranged(**how)) as job, job.task(0) as task:
            (Path(task.path) / "p=1").mkdir()
            (Path(task.path) / "p=1" / "a.parquet").write_bytes(large)
            (Path(task.path) / "p=1" / "b.bin").write_bytes(b"")
        assert {file.checksum for file in manifest(scene).files} == {crc32(large), crc32(b"")}

    def test_to_a_local_directory(self, tmp_path: Path):
        url = str(tmp_path / "sales 50% #1")
        with magicfs.Job(url, options={"checksums": True}) as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.bin", b"123")
            with task.filesystem.open(f"{task.path}/b.bin", "wb") as file:
                file.write(b"1" * 100_000)
                file.write(b"2")
        found = {file.key[0]: file.checksum for file in published_manifest(url).files}
        assert found == {"a": crc32(b"123"), "b": crc32(b"1" * 100_000 + b"2")}

    def test_a_recovery_writes_the_same(self):
        scene = JobScene(DEST)
        job = scene.job(checksums=True)
        commits = scene.wrote(job, FILES)
        from magicfs.testing.store_faults import Fault, Kind

        assert (
            scene.commit(job, commits, Fault(Kind.CRASH_BEFORE, operation="complete_upload", skip=1)) is None
        )
        scene.recover()
        assert {file.checksum for file in manifest(scene).files} == {crc32(body) for body in FILES.values()}

    def test_without_asking_nothing_is_kept(self):
        scene = JobScene(DEST)
        scene.published(FILES)
        assert {file.checksum for file in manifest(scene).files} == {None}
        assert b"magicfs.checksum" not in b"".join(body for body, *_ in scene.objects().values())

    def test_sums_rollbacks_and_drops_keep_them(self):
        scene = JobScene(DEST)
        first = scene.published(FILES, checksums=True)
        scene.published({"z.bin": b"1"}, mode="overwrite", keep="1d")
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).rollback(to=first.id, keep=None)
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).compact()
        assert verified(scene).confirmed == len(FILES)
        magicfs.Dataset(scene.url, filesystem=scene.filesystem).drop(where="file.size = 0", keep=None)
        assert verified(scene).confirmed == len(FILES) - 1

    @pytest.mark.parametrize("committer", ["manifest", "file", "direct"])
    def test_committers_that_keep_none_refuse(self, committer: str, tmp_path: Path):
        with pytest.raises(UsageError, match="checksums are recorded in manifests"):
            magicfs.Job(
                f"file://{tmp_path}/x", committer=committer, mode="append", options={"checksums": True}
            )


class TestVerifying:
    @pytest.mark.parametrize("name", ["p=1/a", "b", "c"])
    @pytest.mark.parametrize("telling", [False, True])
    def test_a_byte_that_is_another_one_is_found(self, name: str, telling: bool):
        scene = JobScene(DEST, world=World(capabilities=TELLING if telling else None))
        scene.published(FILES, checksums=True)
        key = rot(scene, name)
        assert magicfs.Dataset(scene.url, filesystem=scene.filesystem).verify().ok, "no listing shows it"
        report = verified(scene)
        assert list(report.damaged) == [key]
        assert "when written" in report.damaged[key]
        assert not report.ok
        assert "rollback" in " ".join(report.advice)
        assert (report.by_store, report.read) == ((4, 0) if telling else (0, 4))

    def test_a_file_that_is_gone_or_short_or_written_over(self):
        scene = JobScene(DEST)
        scene.published(FILES, checksums=True)
        names = {key.partition("-0000")[0]: key for key in scene.data()}
        scene.delete(names["b"])
        scene.put(names["c"], b"\0" * 69_999)
        scene.put(names["empty"], b"")
        report = verified(scene)
        assert report.missing == (names["b"],)
        assert report.altered == tuple(sorted((names["c"], names["empty"])))
        assert (report.read, report.by_store, report.confirmed) == (1, 0, 1)

    def test_what_the_store_tells_is_not_read(self):
        scene = JobScene(DEST, world=World(capabilities=TELLING))
        scene.published({"a.bin": b"1" * 1000, "b.csv": b"n\n"}, checksums=True)
        from magicfs.operate.verify import verify_files
        from magicfs.protocol import paths

        traffic = scene.traffic()
        engine = scene.engine(traffic)
        report = scene.lived(lambda: verify_files(engine, paths.parse_url(scene.url), deep=True))
        assert (report.by_store, report.read) == (2, 0)
        asked = [request.operation for request in traffic.log if f"{DEST}/_magicfs" not in request.key]
        assert (asked.count("checksums"), asked.count("get_range")) == (2, 0)

    def test_ends_of_parquet_files_are_looked_at_all_the_same(self):
        scene = JobScene(DEST, world=World(capabilities=TELLING))
        scene.published(
            {"a.parquet": parquet()[:-1], "b.parquet": b"", "c.parquet": parquet()}, checksums=True
        )
        report = verified(scene)
        assert (report.by_store, report.read) == (3, 0)
        assert [key[0] for key in report.damaged] == ["a", "b"]

    def test_an_older_manifest_without_them_is_read(self):
        scene = JobScene(DEST, world=World(capabilities=TELLING))
        scene.published(FILES)
        report = verified(scene)
        assert (report.ok, report.by_store, report.read, report.confirmed) == (True, 0, 4, 4), (
            "the store's own"
        )

    def test_the_command(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        url = str(tmp_path / "sales 50% #1")
        with magicfs.Job(url, options={"checksums": True}) as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.bin", b"123")
            task.filesystem.pipe_file(f"{task.path}/b.bin", b"1234")
        assert main(["verify", url, "--deep"]) == 0
        assert (
            "0 by a checksum of the store, 2 by reading (2 of them against a checksum)"
            in capsys.readouterr().out
        )
        assert main(["show", f"{url}/_magicfs/{job.id}.json"]) == 0
        [first, _] = sorted(Path(url).glob("*.bin"))
        first.unlink()
        assert main(["verify", url, "--deep"]) == 1
        assert "1 by reading (1 of them against a checksum), 1 not at all" in capsys.readouterr().out
        assert main(["verify", url, "--deep", "--json"]) == 1
        found = json.loads(capsys.readouterr().out)
        assert (found["by_store"], found["read"], found["confirmed"]) == (0, 1, 1)
