"""Seals: what is sealed, what is refused, and what those see who have no key."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

import magicfs
from magicfs import seal
from magicfs.cli.main import main
from magicfs.errors import FormatError, MagicError, SealBroken, Unavailable, UsageError
from magicfs.protocol.job_state import JobState
from magicfs.runtime.interrupt import run_on
from magicfs.seal import connect, seals
from magicfs.seal import store as seal_store
from magicfs.seal.keys import Key
from magicfs.seal.seals import Place, kind_of
from magicfs.stores import resolve
from magicfs.stores.delegating import DelegatingStore
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.register import DIGEST
from proofs.crash.snapshots import BUCKET, SnapshotWorld
from proofs.scenes.unfinished import died_in

_T = TypeVar("_T")
URL = f"memory://{BUCKET}/sales"
OLD, NEW = b"o" * 32, b"n" * 32
POINTER = "sales/_magicfs/current.json"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(resolve, "AROUND", [])  # before a test sets its own, which is undone first
    seal.forget()
    yield
    seal.forget()


@pytest.fixture
def world() -> SnapshotWorld:
    return SnapshotWorld(time.time)


@pytest.fixture
def fs(world: SnapshotWorld) -> MemoryFileSystem:
    return MemoryFileSystem(world=world, skip_instance_cache=True)


def publish(fs: Any, url: str = URL, body: bytes = b"a\n1\n", **how: Any) -> str:
    job = magicfs.Job(url, filesystem=fs, **{"mode": "append", **how})
    with job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/day=1/part.csv", body)
    return str(job.id)


def dataset(fs: Any, url: str = URL) -> magicfs.Dataset:
    return magicfs.Dataset(url, filesystem=fs)


def body_of(world: SnapshotWorld, key: str) -> bytes:
    return bytes(world.objects[key].body)


class TestPlace:
    place = Place("b/sales/_magicfs/current.json", "pointer", "b/sales", "_magicfs/current.json")
    keys = (Key(NEW), Key(OLD))

    def test_what_is_sealed_is_opened_by_each_key(self) -> None:
        for key in self.keys:
            opened = self.place.opened(self.place.sealed(b'{"a":1}', 7, key), self.keys)
            assert (opened.body, opened.count, opened.key) == (b'{"a":1}', 7, key.id)

    def test_it_is_json_with_one_more_field(self) -> None:
        document = json.loads(self.place.sealed(b'{"a":1}', 7, self.keys[0]))
        assert list(document) == ["a", "seal"]
        assert list(document["seal"]) == ["key", "count", "hmac"]

    def test_every_changed_or_missing_byte_is_noticed(self) -> None:
        raw = self.place.sealed(b'{"a":1,"b":"\xc3\xa9"}', 7, self.keys[0])
        for at in range(len(raw)):
            for other in (
                raw[:at],
                raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :],
                raw[:at] + raw[at + 1 :],
            ):
                with pytest.raises(SealBroken):
                    self.place.opened(other, self.keys)

    @pytest.mark.parametrize("more", [b" ", b"\n", b"{}", b"}"])
    def test_more_bytes_are_noticed(self, more: bytes) -> None:
        with pytest.raises(SealBroken):
            self.place.opened(self.place.sealed(b'{"a":1}', 7, self.keys[0]) + more, self.keys)

    @pytest.mark.parametrize(
        "other",
        [
            Place("", "manifest", "b/sales", "_magicfs/current.json"),
            Place("", "pointer", "b/other", "_magicfs/current.json"),
            Place("", "pointer", "b/sales", "_magicfs/current.00001.json"),
            Place("", "pointer", "b/sale", "s_magicfs/current.json"),
        ],
    )
    def test_another_place_kind_or_dataset_is_refused(self, other: Place) -> None:
        with pytest.raises(SealBroken, match="another place"):
            other.opened(self.place.sealed(b'{"a":1}', 7, self.keys[0]), self.keys)

    def test_a_key_that_is_not_there_is_named(self) -> None:
        with pytest.raises(SealBroken, match=f"key {Key(OLD).id}, and this process has {Key(NEW).id}"):
            self.place.opened(self.place.sealed(b'{"a":1}', 7, Key(OLD)), self.keys[:1])

    @pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b'{"a":1}\n', b"}"])
    def test_only_objects_with_members_are_sealed(self, body: bytes) -> None:
        with pytest.raises(SealBroken, match="only a JSON object"):
            self.place.sealed(body, 7, self.keys[0])


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("_magicfs/current.json", "pointer"),
        ("a/b/_magicfs/current.00012.json", "pointer"),
        ("a/_magicfs/3f.json", "manifest"),
        ("a\n/_magicfs/job.00001.json", "manifest"),
        ("a/_magicfs/.tags/good.json", "tag"),
        ("a/_magicfs/.catalogs/x.json", "registration"),
        ("a/_magicfs/.alias.json", "alias"),
        ("_magicfs_aliases/0123456789abcdef.json", None),
        ("a/__magic_job-7/job-7/job.json", "job"),
        ("a/__magic/job-7/job.00003.json", "job"),
        ("a/__magic_job-7/job-7/job-location.json", "job location"),
        ("a/_magicfs/7/00000-aa.json", None),
        ("a/_magicfs/7/kept-00000-aa.json", None),
        ("a/__magic_job-7/job-7/facts/1/00000.json", None),
        ("a/__magic_job-7/job-7/00/sets/x.pendingset", None),
        ("a/_SUCCESS", None),
        ("a/day=1/job.json", None),
        ("a/my_magicfs/current.json", None),
    ],
)
def test_which_records_are_sealed(key: str, kind: str | None) -> None:
    assert kind_of(key) == kind


class TestKeys:
    @pytest.mark.parametrize("short", [b"", b"k" * 31, "k" * 40, None])
    def test_a_short_key_is_refused(self, short: Any) -> None:
        with pytest.raises(UsageError, match="32 bytes or more"):
            Key(short)

    def test_it_shows_and_pickles_nothing(self, fs: MemoryFileSystem) -> None:
        key = Key(b"secret-" * 5)
        assert key.id in repr(key) or "not asked" in repr(key)
        assert "secret" not in f"{key!r}{key.id}"
        seal.use(URL, key)
        for one in (key, resolve.open_store(fs, BUCKET)):
            with pytest.raises(UsageError, match="not sent to other processes"):
                pickle.dumps(one)

    def test_a_service_is_asked_once_and_late(self) -> None:
        asked = list[int]()

        def service() -> bytes:
            asked.append(1)
            return OLD

        key = Key(service)
        assert asked == []
        assert (key.id, key.id) == (Key(OLD).id, Key(OLD).id)
        assert asked == [1]

    def test_a_service_that_answers_nonsense(self) -> None:
        with pytest.raises(UsageError, match="this is a str"):
            _ = Key(lambda: "x" * 40).id  # type: ignore[arg-type, return-value]

    def test_files(self, tmp_path: Path) -> None:
        (tmp_path / "good").write_bytes(OLD + b"\n")
        assert seal.from_file(tmp_path / "good").id == Key(OLD).id
        (tmp_path / "large").write_bytes(b"x" * 4097)
        for name, why in (("none", "cannot be read"), ("large", "larger than 4096 bytes")):
            with pytest.raises(UsageError, match=why):
                seal.from_file(tmp_path / name)

    def test_a_variable_goes_with_its_first_reader(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SALES_KEY", OLD.decode())
        assert seal.from_environment("SALES_KEY").id == Key(OLD).id
        assert "SALES_KEY" not in os.environ
        with pytest.raises(UsageError, match="SALES_KEY is not set"):
            seal.from_environment("SALES_KEY")

    def test_no_key_and_no_url(self) -> None:
        with pytest.raises(UsageError, match="give a key"):
            seal.use(URL)

    def test_a_public_key_checks_and_makes_nothing(
        self, tmp_path: Path, world: SnapshotWorld, fs: MemoryFileSystem
    ) -> None:
        private, public = _pem(tmp_path)
        seal.use(URL, seal.from_file(private))
        publish(fs)
        seal.use(URL, seal.from_file(public))
        assert len(dataset(fs).files()) == 1
        with pytest.raises(UsageError, match="is public"):
            publish(fs)
        assert len(dataset(fs).files()) == 1
        assert not [key for key in world.objects if "__magic" in key]
        seal.use(URL, OLD)
        with pytest.raises(SealBroken, match="give that key, too"):
            dataset(fs).files()

    @pytest.mark.parametrize("text", ["-----BEGIN PUBLIC KEY-----\nAAAA\n", "-----BEGIN PRIVATE KEY-----\n"])
    def test_a_pem_file_of_another_kind(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "key.pem").write_text(text)
        with pytest.raises(UsageError, match="no Ed25519 key"):
            seal.from_file(tmp_path / "key.pem")


def _pem(directory: Path) -> tuple[Path, Path]:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    made = Ed25519PrivateKey.generate()
    private, public = directory / "sales.pem", directory / "sales.pub"
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private.write_bytes(made.private_bytes(pem, pkcs8, serialization.NoEncryption()))
    info = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(made.public_key().public_bytes(pem, info))
    return private, public


class TestReading:
    def test_those_without_a_key_see_the_same(self, world: SnapshotWorld, fs: MemoryFileSystem) -> None:
        seal.use(URL, OLD)
        publish(fs, run_id="one")
        publish(fs, mode="overwrite", keep="7d")
        dataset(fs).tag("good")
        files = dataset(fs).files()
        for key, held in world.objects.items():
            assert (b'"seal":' in held.body) == (kind_of(key) is not None), key
        seal.forget()
        assert dataset(fs).files() == files
        assert len(dataset(fs).history()) == 2
        told = next(
            one.told for one in dataset(fs).doctor(read_only=True).findings if one.subject == "dataset"
        )
        assert "it is sealed, and this process has no key" in told

    def test_the_name_of_an_alias_is_sealed(self, world: SnapshotWorld, fs: MemoryFileSystem) -> None:
        seal.use(URL, OLD)
        publish(fs, mode="overwrite", options={"alias": "latest.csv"})
        (key,) = (one for one in world.objects if one.endswith("/.alias.json"))
        assert b'"seal":' in body_of(world, key)
        assert magicfs.alias.catch_up(URL, filesystem=fs)
        fs.pipe_file(f"{BUCKET}/{key}", b'{"format":"magicfs.alias/1","alias":"other.csv"}')
        with pytest.raises(SealBroken):
            magicfs.alias.catch_up(URL, filesystem=fs)

    def test_what_is_not_sealed_is_refused_by_name(self, fs: MemoryFileSystem) -> None:
        publish(fs)
        seal.use(URL, OLD)
        with pytest.raises(SealBroken, match=r"sales/_magicfs/current\.json: seal: is not sealed") as caught:
            dataset(fs).files()
        assert isinstance(caught.value, FormatError)
        assert pickle.loads(pickle.dumps(caught.value)).path == f"{BUCKET}/{POINTER}"

    def test_other_datasets_are_not_asked_for_seals(self, fs: MemoryFileSystem) -> None:
        seal.use(URL, OLD)
        publish(fs, f"{URL}2")
        assert len(dataset(fs, f"{URL}2").files()) == 1

    def test_a_job_without_the_key_is_noticed(self, fs: MemoryFileSystem) -> None:
        seal.use(URL, OLD)
        publish(fs)
        seal.forget()
        publish(fs)
        seal.use(URL, OLD)
        with pytest.raises(SealBroken, match=r"current\.json: seal: its seal is wrong"):
            dataset(fs).files()

    def test_an_older_pointer_is_refused_where_a_newer_one_was_met(
        self, world: SnapshotWorld, fs: MemoryFileSystem
    ) -> None:
        seal.use(URL, OLD)
        publish(fs)
        old = body_of(world, POINTER)
        publish(fs)
        rewrite_as_thief(world, POINTER, old)
        for verb in (lambda: dataset(fs).files(), lambda: publish(fs), lambda: dataset(fs).adopt()):
            with pytest.raises(SealBroken, match="put back"):
                verb()
        del world.objects[POINTER]
        with pytest.raises(SealBroken, match="is gone, but this process has read it"):
            dataset(fs).files()

    def test_a_process_that_has_met_nothing_cannot_know(
        self, world: SnapshotWorld, fs: MemoryFileSystem
    ) -> None:
        """What the design note says is not promised: a whole older state is what its publisher published."""
        seal.use(URL, OLD)
        publish(fs)
        old = body_of(world, POINTER)
        publish(fs)
        rewrite_as_thief(world, POINTER, old)
        seal.forget()
        seal.use(URL, OLD)
        assert len(dataset(fs).files()) == 1
        assert len(dataset(fs).verify().unlinked) == 1, "but the newer manifest tells"

    @pytest.mark.parametrize("is_sealed", [True, False])
    def test_a_planted_manifest_above_the_pointer_is_not_linked(
        self, world: SnapshotWorld, fs: MemoryFileSystem, is_sealed: bool
    ) -> None:
        if is_sealed:
            seal.use(URL, OLD)
        job = publish(fs)
        planted = body_of(world, f"sales/_magicfs/{job}.json").replace(b'"seal"', b'"Seal"')
        planted = planted.replace(b'"previous":null', f'"previous":"{job}"'.encode())
        rewrite_as_thief(world, "sales/_magicfs/planted.json", planted.replace(job.encode(), b"planted", 1))
        before = body_of(world, POINTER)
        expected = () if is_sealed else ("planted",)
        assert (dataset(fs).verify().unlinked, dataset(fs).adopt().linked) == (expected, expected)
        assert (body_of(world, POINTER) == before) is is_sealed

    def test_records_of_another_dataset_are_refused(self, world: SnapshotWorld, fs: MemoryFileSystem) -> None:
        seal.use(f"memory://{BUCKET}", OLD)
        publish(fs, f"memory://{BUCKET}/finance")
        publish(fs)
        job = json.loads(body_of(world, "finance/_magicfs/current.json"))["jobId"]
        for name in ("current", job):
            body = body_of(world, f"finance/_magicfs/{name}.json")
            rewrite_as_thief(world, f"sales/_magicfs/{name}.json", body)
        with pytest.raises(SealBroken, match="another place"):
            dataset(fs).files()

    def test_a_dataset_that_was_moved_keeps_its_name(
        self, world: SnapshotWorld, fs: MemoryFileSystem
    ) -> None:
        seal.use(URL, OLD)
        publish(fs)
        moved = f"memory://{BUCKET}/archive/sales-2026"
        for key in [key for key in world.objects if key.startswith("sales/")]:
            rewrite_as_thief(world, key.replace("sales/", "archive/sales-2026/", 1), body_of(world, key))
        seal.use(moved, OLD)
        with pytest.raises(SealBroken, match="give the name that it was sealed under"):
            dataset(fs, moved).files()
        seal.use(moved, OLD, name=f"{BUCKET}/sales")
        assert len(dataset(fs, moved).files()) == 1

    def test_a_planted_manifest_does_not_end_a_job(self, world: SnapshotWorld, fs: MemoryFileSystem) -> None:
        seal.use(URL, OLD)
        publish(fs)
        job = died_in(JobState.OPEN, URL, filesystem=fs)
        rewrite_as_thief(world, f"sales/_magicfs/{job.id}.json", b"{}")
        with pytest.raises(SealBroken, match=f"{job.id}"):
            dataset(fs).recover()
        assert [key for key in world.objects if key.endswith("job.json")]

    def test_a_forged_manifest_is_not_mended(self, world: SnapshotWorld, fs: MemoryFileSystem) -> None:
        seal.use(URL, OLD)
        job = publish(fs)
        publish(fs)
        rewrite_as_thief(world, "sales/planted.csv", b"a\n666\n")
        key = f"sales/_magicfs/{job}.json"
        rewrite_as_thief(world, key, body_of(world, key).replace(b'"seal"', b'"Seal"'))
        before = set(world.objects)
        for verb in (lambda: dataset(fs).files(), lambda: dataset(fs).adopt(), lambda: dataset(fs).compact()):
            with pytest.raises(SealBroken, match=f"{job}.json: seal: is not sealed"):
                verb()
        assert set(world.objects) == before

    def test_a_head_that_is_overtaken_is_repeated(self, world: SnapshotWorld, fs: MemoryFileSystem) -> None:
        seal.use(URL, OLD)
        publish(fs)
        rewrite_as_thief(world, POINTER, body_of(world, POINTER), digest="0" * 64)
        with pytest.raises(Unavailable, match="10 times"):
            dataset(fs).files()

    def test_many_keys_do_not_fill_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(seal_store, "_SEEN_MAX", 3)
        seal.use(URL, OLD)
        ring = seal_store.ring_of(BUCKET, "sales/x")
        assert ring is not None
        for number in range(5):
            ring.note("pointer", number)
            ring.note(str(number), 1)
        assert list(ring.seen) == ["3", "pointer", "4"]
        ring.note("pointer", 1)
        assert ring.seen["pointer"] == 4


def rewrite_as_thief(world: SnapshotWorld, key: str, body: bytes, digest: str = "") -> None:
    """Write an object past every seal, as somebody who has no key and knows how a register is described."""
    kept, resolve.AROUND[:] = resolve.AROUND[:], []
    try:
        fs = MemoryFileSystem(world=world, skip_instance_cache=True)
        store = resolve.open_store(fs, BUCKET)
        metadata = {DIGEST: digest or hashlib.sha256(body).hexdigest()}
        run_on(resolve.loop_of(fs), store.put, key, body, metadata=metadata)
    finally:
        resolve.AROUND[:] = kept


class TestJobs:
    def test_a_job_that_asks_for_a_seal_needs_the_key(
        self, world: SnapshotWorld, fs: MemoryFileSystem
    ) -> None:
        for _ in range(2):
            with pytest.raises(UsageError, match="no key"):
                publish(fs, options={"seal": True})
            assert not world.objects
            seal.use(f"memory://{BUCKET}/other", OLD)
        seal.use(URL, OLD)
        publish(fs, options={"seal": True})
        [file] = dataset(fs).files()
        assert (file.checksum or "").startswith("SHA256:")

    def test_a_store_that_was_opened_before_is_noticed(
        self, fs: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seal.use(URL, OLD)
        monkeypatch.setattr(resolve, "AROUND", [])
        with pytest.raises(UsageError, match="before the key was given"):
            publish(fs, options={"seal": True})

    def test_nobody_without_the_key_ends_it(self, world: SnapshotWorld, fs: MemoryFileSystem) -> None:
        seal.use(URL, OLD)
        died_in(JobState.COMMITTING, URL, filesystem=fs, options={"seal": True})
        seal.forget()
        before = {key: held.body for key, held in world.objects.items()}
        with pytest.raises(UsageError, match="this process has no key"):
            dataset(fs).recover()
        assert {key: held.body for key, held in world.objects.items()} == before
        seal.use(URL, OLD)
        assert [one.action for one in dataset(fs).recover().jobs] == ["finished"]
        assert dataset(fs).verify(deep=True).ok

    def test_a_predecessor_with_a_wrong_seal_is_not_finished(
        self, world: SnapshotWorld, fs: MemoryFileSystem
    ) -> None:
        seal.use(URL, OLD)
        publish(fs)
        died_in(JobState.COMMITTING, URL, filesystem=fs, run_id="today", completed=0)
        key = next(key for key in world.objects if key.endswith("job.json"))
        raw = body_of(world, key)
        rewrite_as_thief(world, key, raw.replace(b'"committer"', b'"Committer"'))
        with pytest.raises(MagicError):
            publish(fs, mode="overwrite", run_id="today")
        assert len(dataset(fs).files()) == 1
        with pytest.raises(SealBroken, match=r"job\.json: seal"):
            dataset(fs).recover()
        rewrite_as_thief(world, key, raw)
        publish(fs, mode="append", run_id="today")
        assert len(dataset(fs).files()) > 1

    def test_an_older_state_of_a_job_is_refused(self, world: SnapshotWorld, fs: MemoryFileSystem) -> None:
        seal.use(URL, OLD)
        job = magicfs.Job(URL, filesystem=fs, mode="append")
        job.setup()
        key = next(key for key in world.objects if key.endswith("job.json"))
        old = body_of(world, key)
        with job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.csv", b"a\n1\n")
        job.commit()
        rewrite_as_thief(world, key, old)
        with pytest.raises(SealBroken, match="put back"):
            dataset(fs).recover(abort=True)
        assert len(dataset(fs).files()) == 1

    def test_verify_reads_what_was_written_over_under_its_name(self, tmp_path: Path) -> None:
        url = str(tmp_path / "sales")
        seal.use(url, OLD)
        with (
            magicfs.Job(url, mode="append", committer="magic", options={"seal": True}) as job,
            job.task(0) as task,
        ):
            task.filesystem.pipe_file(f"{task.path}/a.csv", b"amount\n100\n")
        [path] = Path(url).glob("a*.csv")
        assert magicfs.Dataset(url).verify(deep=True).confirmed == 1
        times = path.stat()
        with path.open("r+b") as file:
            file.write(b"amount\n999\n")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        report = magicfs.Dataset(url).verify(deep=True)
        assert "SHA256" in report.damaged[path.name] or report.altered

    @pytest.mark.process
    def test_a_forked_process_has_no_key(self, fs: MemoryFileSystem) -> None:
        seal.use(URL, OLD)
        child = os.fork()
        if not child:
            os._exit(3 if seal_store.has_keys() else 0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert seal_store.has_keys()


class _Died(RuntimeError):
    pass


class _Dying(DelegatingStore):
    """A store of a process that dies before, or after, one of its writes."""

    left = 0
    late = False

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        if operation != "put" or "probe-" in key:
            return await request()
        if _Dying.left == 0 and not _Dying.late:
            raise _Died
        found = await request()
        _Dying.left -= 1
        if _Dying.left == -1:
            raise _Died
        return found


class TestTakingIn:
    @pytest.fixture
    def published(self, fs: MemoryFileSystem) -> MemoryFileSystem:
        publish(fs, run_id="one")
        publish(fs, mode="overwrite", keep="7d")
        dataset(fs).tag("good")
        publish(fs)
        return fs

    def test_it_seals_all_and_a_second_call_does_nothing(
        self, published: MemoryFileSystem, world: SnapshotWorld
    ) -> None:
        files = dataset(published).files()
        seal.use(URL, OLD)
        before = {key: held.body for key, held in world.objects.items()}
        would = seal.seal(URL, filesystem=published, dry_run=True)
        assert {key: held.body for key, held in world.objects.items()} == before
        report = seal.seal(URL, filesystem=published)
        assert would.sealed == report.sealed
        assert report.sealed[-1] == "_magicfs/current.json"
        assert (len(report.sealed), report.records, report.rotated) == (5, 5, 0)
        assert dataset(published).files() == files
        assert dataset(published).verify().ok
        assert seal.seal(URL, filesystem=published).sealed == ()

    @pytest.mark.parametrize("late", [False, True])
    @pytest.mark.parametrize("rotate", [False, True])
    def test_it_may_die_anywhere(
        self,
        published: MemoryFileSystem,
        world: SnapshotWorld,
        monkeypatch: pytest.MonkeyPatch,
        late: bool,
        rotate: bool,
    ) -> None:
        files = dataset(published).files()
        keys: tuple[bytes, ...] = (OLD,)
        if rotate:
            seal.use(URL, OLD)
            seal.seal(URL, filesystem=published)
            keys = (NEW, OLD)
        saved = world.copy()
        for cut in range(5):
            now = saved.copy()
            here = MemoryFileSystem(world=now, skip_instance_cache=True)
            seal.use(URL, *keys)
            monkeypatch.setattr(resolve, "AROUND", [_Dying, seal_store.SealedStore])
            _Dying.left, _Dying.late = cut, late
            with pytest.raises(_Died):
                seal.seal(URL, filesystem=here, rotate=rotate)
            monkeypatch.setattr(resolve, "AROUND", [seal_store.SealedStore])
            seal.forget()
            assert dataset(here).files() == files  # without a key, at every moment
            seal.use(URL, *keys)
            if rotate:
                assert dataset(here).files() == files
            seal.seal(URL, filesystem=here, rotate=rotate)
            assert dataset(here).files() == files
            seal.use(URL, keys[0])
            assert dataset(here).verify().ok
            seal.forget()

    def test_numbered_versions_are_records(self, world: SnapshotWorld, fs: MemoryFileSystem) -> None:
        world.ignores = frozenset({"put_if_match"})
        for _ in range(3):
            publish(fs)
        seal.use(URL, OLD)
        assert "_magicfs/current.00002.json" in seal.seal(URL, filesystem=fs).sealed
        publish(fs, options={"seal": True})
        assert len(dataset(fs).files()) == 4
        newest = body_of(world, "sales/_magicfs/current.00003.json")
        rewrite_as_thief(world, "sales/_magicfs/current.00004.json", newest)
        with pytest.raises(SealBroken, match="another place"):
            dataset(fs).files()

    def test_rotation_refuses_what_no_key_has_sealed(
        self, published: MemoryFileSystem, world: SnapshotWorld
    ) -> None:
        seal.use(URL, NEW, OLD)
        with pytest.raises(SealBroken, match="is not sealed"):
            seal.seal(URL, filesystem=published, rotate=True)
        seal.seal(URL, filesystem=published)
        rewrite_as_thief(world, "sales/_magicfs/planted.json", body_of(world, POINTER))
        ways: list[dict[str, Any]] = [{}, {"rotate": True}, {"accept": True}]
        for how in ways:
            with pytest.raises(FormatError):
                seal.seal(URL, filesystem=published, **how)

    def test_what_a_job_without_the_key_left_is_accepted_if_you_say_so(
        self, published: MemoryFileSystem
    ) -> None:
        seal.use(URL, OLD)
        seal.seal(URL, filesystem=published)
        seal.forget()
        publish(published)
        seal.use(URL, OLD)
        ways: list[dict[str, Any]] = [{}, {"rotate": True}]
        for how in ways:
            with pytest.raises(SealBroken):
                seal.seal(URL, filesystem=published, **how)
        assert len(seal.seal(URL, filesystem=published, accept=True).sealed) == 2
        assert len(dataset(published).files()) == 3

    def test_it_refuses_without_a_key_a_dataset_or_an_end(
        self, fs: MemoryFileSystem, world: SnapshotWorld
    ) -> None:
        with pytest.raises(UsageError, match="no key of"):
            seal.seal(URL, filesystem=fs)
        seal.use(URL, OLD)
        with pytest.raises(UsageError, match="has not published anything"):
            seal.seal(URL, filesystem=fs)
        died_in(JobState.OPEN, URL, filesystem=fs)
        with pytest.raises(UsageError, match="unfinished"):
            seal.seal(URL, filesystem=fs)

    def test_a_publication_in_between_is_not_lost(
        self, published: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seal.use(URL, OLD)
        original = seal_store.SealedStore.put

        async def put(self: Any, key: str, body: Any, **how: Any) -> Any:
            if key == POINTER and not done:
                done.append(key)
                found = await self.inner.get(key)
                await self.inner.put(key, found.replace(b'"changed":', b'"changed": '))
            return await original(self, key, body, **how)

        done: list[str] = []
        monkeypatch.setattr(seal_store.SealedStore, "put", put)
        with pytest.raises(Unavailable, match="seal again"):
            seal.seal(URL, filesystem=published)
        seal.seal(URL, filesystem=published)
        assert len(dataset(published).files()) == 2


class TestCommand:
    def connected(self, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
        monkeypatch.setenv("MAGICFS_CONNECT_SEAL", value)
        resolve.connect.cache_clear()

    def test_it_seals_and_verifies(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        url = str(tmp_path / "sales")
        publish(None, url)
        (tmp_path / "new.key").write_bytes(NEW)
        monkeypatch.setenv("OLD_KEY", OLD.decode())
        self.connected(monkeypatch, json.dumps({url: [str(tmp_path / "new.key"), "env:OLD_KEY"]}))
        assert main(["seal", url, "--dry-run"]) == 1
        assert "would seal" in capsys.readouterr().out
        assert not {"MAGICFS_CONNECT_SEAL", "OLD_KEY"} & os.environ.keys()
        assert main(["seal", url, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["key"] == Key(NEW).id
        assert main(["seal", url, "--rotate"]) == 0
        assert "sealed already" in capsys.readouterr().out
        assert main(["verify", url, "--deep"]) == 0
        seal.forget()
        assert main(["seal", url]) == 2
        assert "no key" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "value", ["", "[]", "{}", "{", '{"s3://a/b": 7}', '{"s3://a/b": []}', '{"s3://a/b": [1]}', "\udcff"]
    )
    def test_nonsense_is_refused_each_time(self, value: str, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="MAGICFS_CONNECT_SEAL cannot be read"):
            connect.connect(value)

    def test_a_key_that_cannot_be_had_stops_all_of_them(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "good.key").write_bytes(OLD)
        url = str(tmp_path / "sales")
        self.connected(monkeypatch, json.dumps({url: str(tmp_path / "good.key"), "s3://b/x": "/nowhere"}))
        for _ in range(2):
            with pytest.raises(UsageError, match="cannot be read"):
                publish(None, url)
        assert not seal_store.has_keys()

    @pytest.mark.process
    def test_importing_magicfs_loads_no_seal(self) -> None:
        code = "import magicfs, sys; magicfs.Job; assert 'magicfs.seal' not in sys.modules"
        subprocess.run(["python", "-c", code], check=True)


def test_a_seal_is_short() -> None:
    raw = TestPlace.place.sealed(b'{"a":1}', 10**15, Key(OLD))
    assert len(raw) - len(b'{"a":1}') < seals.SEAL_MAX


def test_the_lines_of_the_page(tmp_path: Path) -> None:
    """Those of docs/sealing.md."""
    text = (Path(__file__).parents[2] / "docs" / "sealing.md").read_text()
    [code] = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    (tmp_path / "sales.key").write_bytes(OLD)
    code = code.replace("/run/secrets/sales.key", str(tmp_path / "sales.key"))
    exec(compile(code.replace("s3://bucket/", f"memory://{tmp_path.name}/"), "example", "exec"), {})
    for name in re.findall(r"--([a-z]+)", text):
        assert name in {"deep", "accept", "rotate"}
