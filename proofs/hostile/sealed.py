"""Records of sealed datasets, as somebody may write them who has no key: not one of them is carried out.

Every sealed record of every scene is forged field by field, stripped of its seal, truncated, put back as it
once was, moved to the place of another, copied from another dataset, given another count, sealed with another
key, planted where none was, or removed. Then a command with the key is run. Whatever it does, it must not
have taken the record apart.
"""

from __future__ import annotations

import itertools
import random
import re
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from unittest.mock import patch

import magicfs
from magicfs import seal
from magicfs.errors import MagicError
from magicfs.formats import document
from magicfs.protocol.job_state import JobState
from magicfs.runtime.interrupt import run_on
from magicfs.seal import store as seal_store
from magicfs.seal.seals import Place, kind_of
from magicfs.stores import resolve
from magicfs.stores.delegating import DelegatingStore
from proofs.crash.snapshots import BUCKET
from proofs.hostile.forgery import forgeries, lay
from proofs.hostile.ground import SCENES, MemoryGround, Objects, built, impatient
from proofs.hostile.part import Found, WrongLine
from proofs.hostile.records import COMMANDS
from proofs.scenes.unfinished import died_in

__all__ = ["MUTANTS", "NAME", "fixed", "fuzz"]

NAME: Final = "sealed"
_T = TypeVar("_T")
_KEY: Final = b"a publisher's key of forty bytes or more"
_THIEF: Final = seal.Key(b"a key that somebody else has made for this")
_ALL: Final = f"memory://{BUCKET}"
_NAMED: Final = re.compile(r"/facts/[^/]+/\d|_magicfs/[^/.][^/]*/")
"""Records that sealed ones name by their SHA-256. What tasks leave is input, with a key as without."""


class _Noted(DelegatingStore):
    """Notes every version of every record that is written."""

    history: Final[dict[str, list[bytes]]] = {}

    async def _around(self, operation: str, key: str, request: Callable[[], Awaitable[_T]]) -> _T:
        done = await request()
        if operation == "put" and kind_of(key) is not None:
            self.history.setdefault(key, []).append(await self.inner.get(key))
        return done


class _Ground(MemoryGround):
    """A bucket in which ``put`` is somebody's who has no key."""

    def put(self, key: str, body: bytes) -> None:
        store = self.store
        plain = store.inner if isinstance(store, seal_store.SealedStore) else store
        run_on(resolve.loop_of(self.filesystem), plain.put, key, body)


@dataclass(frozen=True, slots=True)
class _Attack:
    """What somebody has done to records; None removes one."""

    name: str
    records: Mapping[str, bytes | None]

    def lay(self, ground: MemoryGround) -> None:
        for key, raw in self.records.items():
            if raw is None:
                ground.world.objects.pop(key, None)
            else:
                ground.put(key, raw)


@dataclass(slots=True)
class _Scene:
    """A ground with a sealed dataset, and what its driver has met."""

    ground: _Ground
    history: Mapping[str, Sequence[bytes]]
    restore: Callable[[], None] = field(init=False)

    def __post_init__(self) -> None:
        back = self.ground.keep()
        ring = seal_store.ring_of(BUCKET, "sales")
        seen = {} if ring is None else dict(ring.seen)

        def restore() -> None:
            back()
            if ring is not None:
                ring.seen = dict(seen)

        self.restore = restore


@contextmanager
def _sealed_scene(name: str) -> Iterator[_Scene]:
    """A scene that was built with the key."""
    seal.forget()
    _Noted.history.clear()
    seal.use(_ALL, _KEY)
    ground = _Ground()
    with patch.object(resolve, "AROUND", [_Noted, seal_store.SealedStore]):
        built(ground, name)
    try:
        yield _Scene(ground, {key: list(versions) for key, versions in _Noted.history.items()})
    finally:
        seal.forget()


def _records(ground: MemoryGround) -> Objects:
    found = ground.objects()
    return {key: found[key] for key in sorted(found) if kind_of(key) and key.startswith("sales/")}


def _attacks(scene: _Scene) -> Iterator[_Attack]:
    """Each attack on each record of a scene."""
    there = _records(scene.ground)
    for key, raw in there.items():
        bare = re.sub(rb',"seal":\{[^{}]*\}\}\Z', b"}", raw)
        yield _Attack(f"stripped {key}", {key: bare})
        for cut in (1, len(raw) // 2, len(raw) - len(bare) - 1):
            yield _Attack(f"truncated {key} by {cut}", {key: raw[:-cut]})
        again = re.sub(rb'"count":(\d+)', lambda found: b'"count":%d' % (int(found[1]) + 10**6), raw)
        yield _Attack(f"recounted {key}", {key: again})
        place = Place(key, str(kind_of(key)), f"{BUCKET}/", key)
        yield _Attack(f"another's seal on {key}", {key: place.sealed(bare, time.time_ns(), _THIEF)})
        for old in scene.history.get(key, [])[:-1]:
            if old != raw:
                yield _Attack(f"put back {key}", {key: old})
                later = re.sub(rb'"count":\d+', b'"count":%d' % (time.time_ns() // 10**5), old)
                yield _Attack(f"put back and recounted {key}", {key: later})
    for one, other in itertools.permutations(there, 2):
        if kind_of(one) == kind_of(other):
            yield _Attack(f"reordered {one} and {other}", {one: there[other], other: there[one]})
            yield _Attack(f"moved {other} to {one}", {one: there[other]})
    for key, versions in scene.history.items():
        if key not in there and key.startswith("sales/"):
            yield _Attack(f"put back what has gone, {key}", {key: versions[0]})
    yield from _planted(scene.ground, there)


def _planted(ground: MemoryGround, there: Objects) -> Iterator[_Attack]:
    """Manifests of jobs that have none, and the records of a neighbor under our names."""
    for key in there:
        if kind_of(key) == "job":
            job = key.split("/job-")[1].partition("/")[0]
            yield _Attack(f"planted a manifest of {job}", {f"sales/_magicfs/{job}.json": b'{"a":1}'})
    theirs = {key: raw for key, raw in ground.objects().items() if key.startswith("finance/_magicfs/")}
    yield _Attack(
        "copied a neighbor", {key.replace("finance", "sales", 1): raw for key, raw in theirs.items()}
    )


def _tried(scene: _Scene, attack: _Attack, command: str) -> str | None:
    """What a command that meets an attack does wrong; None if nothing. The scene is left as it is."""
    ground = scene.ground
    jobs = [key for key in ground.objects() if kind_of(key) == "job" and key.startswith("sales/")]
    job = jobs[0].split("/job-")[1].partition("/")[0] if jobs else "00000000-0000-4000-8000-000000000000"
    attack.lay(ground)
    decide = {key: raw for key, raw in attack.records.items() if kind_of(key) or _NAMED.search(key)}
    forged = {f"{BUCKET}/{key}": raw for key, raw in decide.items() if raw is not None}
    believed, parsed = list[str](), document._parsed  # noqa: SLF001 - everything that is believed is parsed

    def noting(path: str, raw: bytes, *limits: int) -> Any:
        if path in forged and _same(raw, forged[path]):
            believed.append(path)
        return parsed(path, raw, *limits)

    refused, answer = False, ""
    with patch.object(document, "_parsed", noting):
        try:
            answer = repr(COMMANDS[command](ground, ground.url("sales"), job))
        except (MagicError, ExceptionGroup):
            refused = True
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            return f"{command} after {attack.name}: raised {error!r}"
    if believed:
        return f"{command} after {attack.name}: took {believed[0]} apart"
    # A job that was being taken back needs no manifest, and one that is not finished says which seal lacks.
    refused = refused or "action='reverted'" in answer or "seal: is not sealed" in answer
    if attack.name == f"planted a manifest of {job}" and not refused and command in {"recover", "commit"}:
        return f"{command} after {attack.name}: believed that the job is published"
    return None


def _same(raw: bytes, forged: bytes) -> bool:
    """Whether bytes are a forged record, with or without its seal."""
    return raw == forged or raw == re.sub(rb',"seal":\{[^{}]*\}\}\Z', b"}", forged)


def _run(scene: _Scene, attack: _Attack, command: str, found: Found) -> None:
    found.counts["sealed"] += 1
    if (trouble := _tried(scene, attack, command)) is not None:
        found.violations.append(trouble)
    scene.restore()


def fixed() -> Found:
    """Each attack on each record of each scene, met by one command after the other."""
    found, commands = Found(), itertools.cycle(COMMANDS)
    with impatient():
        for name in SCENES:
            with _sealed_scene(name) as scene:
                for attack in list(_attacks(scene)):
                    _run(scene, attack, next(commands), found)
    return found


def fuzz(until: float, seed: int) -> Found:
    """Hostile values in fields, and attacks of ``fixed`` met by other commands, drawn by a seed."""
    found, drawn = Found(), random.Random(seed)  # noqa: S311 - draws a test
    with impatient():
        while time.monotonic() < until:
            name = drawn.choice(list(SCENES))
            with _sealed_scene(name) as scene:
                attacks = list(_attacks(scene))
                values = forgeries(scene.ground, name, drawn.randrange(10**6))
                for _ in range(40):
                    if time.monotonic() >= until:
                        break
                    _run(scene, drawn.choice(attacks), drawn.choice(list(COMMANDS)), found)
                    if (one := next(values, None)) is not None:
                        _run(
                            scene,
                            _forged(scene, partial(lay, forged=one), str(one)),
                            drawn.choice(list(COMMANDS)),
                            found,
                        )
    return found


def _forged(scene: _Scene, write: Callable[[MemoryGround], None], name: str) -> _Attack:
    """What a forgery comes to: the record, and all that names it by its digest."""
    before = scene.ground.objects()
    write(scene.ground)
    after = scene.ground.objects()
    scene.restore()
    return _Attack(f"forged {name}", {key: raw for key, raw in after.items() if before.get(key) != raw})


# -- attacks of mutants --------------------------------------------------------------------------------------


def _all_of(scene_name: str, *commands: str) -> list[str]:
    """All attacks on one scene, met by some commands."""
    found = Found()
    with impatient(), _sealed_scene(scene_name) as scene:
        for attack, command in itertools.product(list(_attacks(scene)), commands):
            _run(scene, attack, command, found)
            if found.violations:
                break
    return found.violations


def _dataset(ground: MemoryGround) -> magicfs.Dataset:
    return magicfs.Dataset(ground.url("sales"), filesystem=ground.filesystem)


def _publish(ground: MemoryGround, name: str = "sales", **how: Any) -> None:
    job = magicfs.Job(ground.url(name), filesystem=ground.filesystem, mode="append", **how)
    with job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.csv", b"a\n1\n")


def _neighbors_records() -> list[str]:
    """A dataset with the same key, and a seal of its own name."""
    ground = _Ground()
    for name in ("sales", "finance"):
        seal.use(ground.url(name), _KEY)
        _publish(ground, name)
    objects = ground.objects()
    theirs = {key: raw for key, raw in objects.items() if key.startswith("finance/_magicfs/")}
    _Attack("", {key.replace("finance", "sales", 1): raw for key, raw in theirs.items()}).lay(ground)
    return _read_is_refused(ground)


def _read_is_refused(ground: MemoryGround) -> list[str]:
    try:
        _dataset(ground).files()
    except MagicError:
        return []
    finally:
        seal.forget()
    return ["a reader with the key read it"]


def _put_back_at_once() -> list[str]:
    """A driver that has read nothing since it wrote."""
    ground = _Ground()
    _publish(ground)
    seal.use(ground.url("sales"), _KEY)
    seal.seal(ground.url("sales"), filesystem=ground.filesystem)
    pointer = "sales/_magicfs/current.json"
    old = ground.objects()[pointer]
    _publish(ground)
    ground.put(pointer, old)
    return _read_is_refused(ground)


def _removed() -> list[str]:
    ground = _Ground()
    seal.use(ground.url("sales"), _KEY)
    _publish(ground)
    del ground.world.objects["sales/_magicfs/current.json"]
    try:
        _publish(ground)
    except MagicError:
        return []
    finally:
        seal.forget()
    return ["a job began anew, where the pointer was removed"]


def _without_key() -> list[str]:
    """A job that asks for a seal, past its commit point, and a recovery without the key."""
    ground = _Ground()
    seal.use(ground.url("sales"), _KEY)
    died_in(JobState.COMMITTING, ground.url("sales"), filesystem=ground.filesystem, options={"seal": True})
    seal.forget()
    before = ground.objects()
    with suppress(MagicError):
        _dataset(ground).recover()
    return [] if ground.objects() == before else ["a process without the key finished the job"]


def _other_key() -> list[str]:
    """The same of a driver whose key is of another dataset."""
    ground = _Ground()
    seal.use(ground.url("other"), _KEY)
    try:
        _publish(ground, options={"seal": True})
    except MagicError:
        return []
    finally:
        seal.forget()
    return ["a job that asks for a seal was published without"]


def _rotated() -> list[str]:
    """A rotation that meets a planted record."""
    ground = _Ground()
    _publish(ground)
    seal.use(ground.url("sales"), _KEY)
    try:
        seal.seal(ground.url("sales"), filesystem=ground.filesystem, rotate=True)
    except MagicError:
        return []
    finally:
        seal.forget()
    return ["a rotation sealed what no key had sealed"]


def _altered(ground: MemoryGround | None = None) -> list[str]:
    """A reader, and a pointer of which somebody has changed the last fields."""
    if ground is None:
        ground = _Ground()
        seal.use(ground.url("sales"), _KEY)
        _publish(ground, run_id="x")
    pointer = "sales/_magicfs/current.json"
    raw = ground.objects()[pointer]
    assert raw.count(b'"runs":[["x",') == 1
    ground.put(pointer, raw.replace(b'"runs":[["x",', b'"runs":[["y",'))
    return _read_is_refused(ground)


def _public_key() -> list[str]:
    """A reader with the public key, and a record that somebody has changed."""
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    made, ground = Ed25519PrivateKey.generate(), _Ground()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "key.pem"
        private = forms.PrivateFormat.PKCS8
        path.write_bytes(made.private_bytes(forms.Encoding.PEM, private, forms.NoEncryption()))
        seal.use(ground.url("sales"), seal.from_file(path))
        _publish(ground, run_id="x")
        public = forms.PublicFormat.SubjectPublicKeyInfo
        path.write_bytes(made.public_key().public_bytes(forms.Encoding.PEM, public))
        seal.use(ground.url("sales"), seal.from_file(path))
    return _altered(ground)


def _mutant(
    name: str, module: str, line: str, instead: str, attack: Callable[[], Sequence[str]]
) -> WrongLine:
    return WrongLine(name, f"magicfs.seal.{module}", line, instead, attack)


_READ: Final = partial(_all_of, "published", "read", "log", "recover all")
_HEAD: Final = 'head = (b"magicfs seal 1", self.kind.encode(), self.dataset.encode(), self.relative.encode())'
_UNREAD: Final = (
    'opened, raw = (Opened(b"", 0, ""), b"") if at[1].kind == "manifest" else '
    "await self._opened(key, *at, None)"
)
MUTANTS: Final = (
    _mutant(
        "a seal is not compared",
        "keys",
        "return hmac.compare_digest(self.made(message), said)",
        "return True",
        _READ,
    ),
    _mutant("a signature is not compared", "signing", "return False", "return True", _public_key),
    _mutant(
        "a wrong seal is let through",
        "seals",
        "if algorithm != key.algorithm or not key.is_right(message, said):",
        "if algorithm != key.algorithm:",
        _READ,
    ),
    _mutant(
        "a seal holds at any place",
        "seals",
        _HEAD,
        'head = (b"magicfs seal 1", self.kind.encode(), self.dataset.encode())',
        _READ,
    ),
    _mutant(
        "a seal holds in any dataset",
        "seals",
        _HEAD,
        'head = (b"magicfs seal 1", self.kind.encode(), self.relative.encode())',
        _neighbors_records,
    ),
    _mutant(
        "a count is not sealed",
        "seals",
        "for one in (*head, str(count).encode(), key.encode(), body):",
        "for one in (*head, key.encode(), body):",
        _READ,
    ),
    _mutant(
        "a record is not sealed whole",
        "seals",
        "for one in (*head, str(count).encode(), key.encode(), body):",
        "for one in (*head, str(count).encode(), key.encode(), body[:64]):",
        _altered,
    ),
    _mutant(
        "a record that was put back is believed", "store", "if opened.count < least:", "if False:", _READ
    ),
    _mutant(
        "what was written is not remembered", "store", "ring.note(key, count)", "pass", _put_back_at_once
    ),
    _mutant(
        "a planted manifest ends a job",
        "store",
        "opened, raw = await self._opened(key, *at, None)",
        _UNREAD,
        partial(_all_of, "open", "recover", "commit"),
    ),
    _mutant(
        "a pointer may go",
        "store",
        'if place.kind == "pointer" and key in ring.seen and key.endswith("/current.json"):',
        "if False:",
        _removed,
    ),
    _mutant(
        "no key is found for a record",
        "store",
        "held = [one for one in _rings if one.holds(bucket, key)]",
        "held = []",
        _READ,
    ),
    _mutant(
        "anybody ends a job that is sealed", "extension", "if not has_keys():", "if False:", _without_key
    ),
    _mutant(
        "any key will do",
        "extension",
        "if ring_of(bucket, context.layout.destination) is None:",
        "if False:",
        _other_key,
    ),
    _mutant(
        "a rotation seals what it meets",
        "take_in",
        "if one.problem and one.sealed_by in doubtful and not (accept and not rotate):",
        "if False:",
        _rotated,
    ),
)
