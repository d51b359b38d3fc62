"""One story: a destination with a past, a job with a committer and a feature, and what follows it.

Everything random comes from the story's number and the clock moves by itself, so that two versions of the
code that do the same thing send the same requests and leave the same bytes.
"""

from __future__ import annotations

import asyncio
import base64
import random
import re
import socket
import zlib
from asyncio import AbstractEventLoop
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from getpass import getuser
from tempfile import TemporaryDirectory
from typing import Any, Final, Self
from uuid import UUID

from fsspec.asyn import get_loop

import magicfs
from magicfs import audit
from magicfs.committers.registry import committer_info, committers
from magicfs.datasets.commit import commit
from magicfs.errors import MagicError
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.port import Store
from magicfs.testing.faulty_store import Traffic, faulty
from magicfs.testing.store_faults import Actor, Fault, Kind, Request
from proofs.crash.snapshots import BUCKET, SnapshotWorld
from proofs.crash.trees import tree_store
from proofs.crash.writing import START, Clock
from proofs.doubles.virtual_time import deterministic, replaced
from proofs.scenes.arranged import arranged
from proofs.scenes.known import all_ended

__all__ = ["FEATURES", "Account", "committer_and_feature", "play"]

_URL: Final = f"memory://{BUCKET}/data set"
_OTHER: Final = f"memory://{BUCKET}/elsewhere"
_PATH: Final = f"{BUCKET}/data set/__magic/own/__base"
_PARQUET: Final = zlib.decompress(
    base64.b85decode(
        "c-oawJ#WG=5IqOW%D}>KmMwYk5-Ugsl}csG!p?v?vN<#o3=L^0RP6kk{zJB&0|-=g>B;x0_nz+L#q4#0fEKMsPK7{WrjWBzu`n0_Ktj"
        "$LqZnc+3FFb<!77c2XewpbN<#j}^p_l5yJ*OD@d8ThR_p3LAP4MciR!(DV+M260jOs+NUn|c4h;5nCO~%>q_JGerAv#4)wQ7w0TU>QB"
        "(wugI+4jQOjdWiZ${6R#lP;jYY%VA@{~yKQc959CbS>>>T|Seno(%m?Uy}N?QXNJ?elc}G@fWrN5#9&<O}+OA9SE7q5"
    )
)

_DAY: Final = 86_400.0
_MODES: Final = ("append", "append", "overwrite", "overwrite_partitions", "overwrite_partitions")
_Verb = Callable[["Story"], object]


@dataclass(frozen=True, slots=True)
class Feature:
    """One thing that a job can be asked for, or that somebody does afterwards.

    Attributes:
        options: Arguments of the job.
        parquet: Whether its files are Parquet.
        keeps_versions: Whether the bucket keeps versions.
        ends: How the job ends: by its ``commit``, its ``abort``, or the ``silence`` of the store.
        then: What follows.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    parquet: bool = False
    keeps_versions: bool = False
    ends: str = "commit"
    then: tuple[_Verb, ...] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """What a story came to, a line each.

    Attributes:
        requests: To the store, in their order, without what they carry.
        contents: What the bucket holds at the end, bytes included.
        said: Errors and reports, in their words.
    """

    requests: list[str] = field(default_factory=list)
    contents: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


class _Watched(MemoryFileSystem):
    """A filesystem whose requests pass the traffic of the moment."""

    world: SnapshotWorld

    def __init__(self, clock: Clock, *, renames: bool) -> None:
        super().__init__(world=SnapshotWorld(clock))
        self.traffic = Traffic()
        self.sent: list[str] = []
        self.renames = renames

    def store(self, bucket: str) -> Store:
        actor = Actor("story")
        if self.renames:
            return tree_store(self.world, "local", self.traffic, actor)
        return faulty(super().store(bucket), self.traffic, actor)

    def meet(self, *faults: Fault) -> None:
        """Let other things go wrong from now on, in the stores that are opened from now on."""
        self.sent += [_sent(one) for one in self.traffic.log]
        self.traffic = Traffic(faults)


def _sent(request: Request) -> str:
    condition = f" {request.condition}" if request.condition else ""
    return f"{request.operation}{condition} {request.key} {request.target}".rstrip()


class Story:
    """One story while it is played.

    Args:
        number: What it is drawn by.
        work: A directory for committers that write local files.
    """

    def __init__(self, number: int, work: str, clock: Clock) -> None:
        self.draw = random.Random(number)  # noqa: S311 - no secret
        self.committer, self.feature = committer_and_feature(number)
        self.clock, self.work = clock, work
        self.fs = _Watched(clock, renames=self.committer == "manifest")
        self.account = Account()
        self.first = self.last = ""

    def play(self) -> Self:
        """From an empty bucket to the end."""
        feature = FEATURES[self.feature]
        if feature.keeps_versions:
            self.fs.world.keep_every_version()
        if self.draw.random() < 0.8:
            self.publish("magic", 2, mode="append", footers=feature.parquet)
        options = {"mode": self.draw.choice(_MODES), **feature.options}
        modes: tuple[str, ...] = committer_info(self.committer).modes
        if options["mode"] not in modes:
            options["mode"] = next((one for one in modes if one.startswith("overwrite")), "append")
        if self.draw.random() < 0.2:
            options.setdefault("unique_names", False)
        files = 0 if options.get("allow_empty") else self.draw.choice((1, 2))
        self.publish(self.committer, files, ends=feature.ends, **options)
        for verb in feature.then:
            verb(self)
            self.fs.meet()
        for key, one in sorted(self.fs.world.objects.items()):
            self.account.contents.append(_plain(f"{key} {one.body!r}", self.work))
        self.account.contents.extend(f"upload {key}" for key in sorted(self.fs.world.uploads))
        self.account.requests.extend(self.fs.sent)
        return self

    @property
    def dataset(self) -> magicfs.Dataset:
        """What is published."""
        return magicfs.Dataset(_URL, filesystem=self.fs)

    def ask(self, verb: Callable[..., object], **options: Any) -> object:
        """Do something with the dataset, and note what comes of it."""
        try:
            answer = verb(**options)
        except (MagicError, ValueError) as error:
            self._say(error)
            return None
        self._say(answer)
        return answer

    def publish(self, committer: str, files: int, *, ends: str = "commit", **options: Any) -> None:
        """Publish by a job of some tasks, attempts of which die or begin again."""
        try:
            self._say(self._publish(committer, files, ends, options))
        except (MagicError, ValueError) as error:
            self._say(error)
        self.fs.meet()

    def _publish(self, committer: str, files: int, ends: str, options: dict[str, Any]) -> object:
        if committer_info(committer).writes == "local files":
            options["committer_options"] = {"work_directory": self.work}
        name = UUID(int=self.draw.getrandbits(128), version=4)
        job = magicfs.Job(_URL, committer=committer, filesystem=self.fs, job_id=name, **arranged(**options))
        self.first, self.last = self.first or job.id, job.id
        job.setup()
        places = [None, *options.get("extra_destinations", ())]
        commits = []
        for task in range(self.draw.choice((1, 2, 3)) if files else 0):
            for end in self.draw.choice((("commit",), ("abort", "commit"), ("lost", "commit"))):
                one = job.task(task).setup()
                for number in range(files):
                    self._write(one, number, f"{task} {number} {end}", self.draw.choice(places))
                if end == "commit":
                    commits.append(one.commit())
                elif end == "abort":
                    one.abort()
        if ends == "abort":
            job.abort()
            return "aborted"
        if ends == "silence":
            self.fs.meet(*(Fault(Kind.ERROR_BEFORE, skip=self.draw.randrange(40), times=None),))
        return job.commit(commits if self.draw.random() < 0.7 else None)

    def _write(self, task: magicfs.Task, number: int, text: str, place: str | None) -> None:
        parquet = FEATURES[self.feature].parquet
        name = f"p={self.draw.randrange(3)}/part-{number}.{'parquet' if parquet else 'csv'}"
        body = _PARQUET if parquet else f"x\n{text}\n".encode() * (1 + 9 * number)
        path = task.path if place is None else task.path_to(place)
        with task.filesystem.open(f"{path}/{name}", "wb") as file:
            file.write(body)
        all_ended()

    def _say(self, answer: object) -> None:
        if isinstance(answer, BaseException):
            notes = "; ".join(getattr(answer, "__notes__", ()))
            answer = f"{type(answer).__name__}: {answer} {notes}".rstrip()
        self.account.said.append(_plain(f"{answer}", self.work))


def _plain(text: str, work: str) -> str:
    """A text without what is this machine's."""
    text = text.replace(work, "WORK").replace(socket.gethostname(), "HOST").replace(getuser(), "USER")
    return re.sub(r"(in |seconds=|age_s=|job commit +)\d+(\.\d+)?(e-\d+)?", r"\1T", text)


# -- what follows a job ------------------------------------------------------------------------------------


def _later(story: Story) -> None:
    story.clock.now += 3 * _DAY


def _replace(story: Story) -> None:
    story.publish("magic", 1, mode="overwrite", keep="2d")


def _again(story: Story) -> None:
    story.publish(story.committer, 1, **{**FEATURES[story.feature].options, "mode": "append"})


def _asks(verb: Callable[..., object], **options: Any) -> _Verb:
    return lambda story: story.ask(partial(verb, story.dataset), **options)


def _rollback(story: Story) -> None:
    story.ask(story.dataset.rollback, to=f"job:{story.first}", keep=None, job_id=UUID(int=5, version=4))


def _rollback_partition(story: Story) -> None:
    options: dict[str, Any] = {"partitions": ["p=1"], "keep": "1d", "job_id": UUID(int=6, version=4)}
    story.ask(story.dataset.rollback, to=f"job:{story.first}", **options)


def _drop(story: Story) -> None:
    story.ask(story.dataset.drop, partitions=["p=0"], keep=None, job_id=UUID(int=7, version=4))


def _accept(story: Story) -> None:
    story.ask(commit, url=_URL, filesystem=story.fs, job=story.last, accept="seen")


def _own_path(story: Story) -> None:
    magic = magicfs.MagicFileSystem(story.fs)
    magic.pipe_file(f"{_PATH}/p=1/own.csv", b"x\n7\n")
    magic.pipe_file(f"{_PATH}/p=2/own.csv", b"x\n8\n")
    story.ask(magic.publish, path=f"memory://{_PATH.removesuffix('/__base')}", mode="append")


def _discard(story: Story) -> None:
    magic = magicfs.MagicFileSystem(story.fs)
    magic.pipe_file(f"{_PATH}/p=1/own.csv", b"x\n7\n")
    story.ask(magic.discard, path=f"memory://{_PATH.removesuffix('/__base')}")


_RECOVER = _asks(magicfs.Dataset.recover)
_PAST = {"mode": "append", "unique_names": True}
_KEEPS = {"mode": "overwrite", "keep": "1d"}

FEATURES: Final[Mapping[str, Feature]] = {
    "nothing": Feature(),
    "new only": Feature({"mode": "error"}),
    "memory": Feature({"tracking": "memory"}),
    "small files": Feature({"tracking": "memory", "small_files": 20}),
    "footers": Feature({"footers": True}, parquet=True),
    "checksums": Feature({"checksums": True}),
    "no marker": Feature({"success_marker": False}),
    "equal names": Feature({"unique_names": False, "mode": "overwrite"}, then=(_again,)),
    "empty": Feature({"allow_empty": True, "mode": "overwrite"}),
    "run": Feature({"run_id": "today"}, then=(_again,)),
    "run again": Feature({"run_id": "today", "rerun": "overwrite"}, then=(_again,)),
    "run once": Feature({"run_id": "today", "rerun": "error"}, then=(_again,)),
    "extra": Feature({"extra_destinations": [_OTHER]}),
    "also replace": Feature({"also_overwrite": [f"{_URL}/p=1"], "mode": "overwrite"}),
    "keep": Feature(_KEEPS, then=(_later, _asks(magicfs.Dataset.expire))),
    "versions": Feature(_KEEPS, keeps_versions=True, then=(_rollback, _later, _asks(magicfs.Dataset.expire))),
    "keep in place": Feature(_KEEPS | {"keep_in_place": True}, keeps_versions=True, then=(_rollback,)),
    "partitions": Feature({"mode": "overwrite_partitions", "keep": "1d"}, then=(_rollback_partition,)),
    "audit": Feature({"audit": [audit.Rows(min=1)]}, parquet=True),
    "quarantine": Feature({"audit": [audit.Rows(min=99)]}, parquet=True, then=(_accept,)),
    "audit aborts": Feature({"audit": [audit.Rows(min=99)], "audit_failure": "abort"}, parquet=True),
    "hadoop": Feature({"hadoop": "3.4"}),
    "hadoop 3.3": Feature({"hadoop": "3.3"}),
    "rollback": Feature(_PAST, then=(_replace, _rollback, _asks(magicfs.Dataset.history))),
    "drop": Feature(_PAST, then=(_drop, _asks(magicfs.Dataset.verify))),
    "compact": Feature(
        _PAST, then=(_replace, _asks(magicfs.Dataset.compact), _asks(magicfs.Dataset.history))
    ),
    "tag": Feature(
        _PAST, then=(_asks(magicfs.Dataset.tag, name="gold"), _replace, _asks(magicfs.Dataset.history))
    ),
    "own path": Feature(_PAST, then=(_own_path, _discard)),
    "abort": Feature(ends="abort", then=(_asks(magicfs.Dataset.recover, dry_run=True),)),
    "silence": Feature(ends="silence", then=(_asks(magicfs.Dataset.recover, dry_run=True), _RECOVER)),
    "silence, back": Feature(ends="silence", then=(_asks(magicfs.Dataset.recover, abort=True), _RECOVER)),
}
"""What each story is about: one of these with each committer."""


def committer_and_feature(number: int) -> tuple[str, str]:
    """The committer and the feature of a story, by turns, so that consecutive numbers have each pair."""
    features = tuple(FEATURES)
    names = tuple(committers())
    return names[number // len(features) % len(names)], features[number % len(features)]


def play(number: int) -> Account:
    """Play a story; the same in every process, for the same code."""
    clock = Clock(START)
    loop = get_loop()
    with (
        TemporaryDirectory() as work,
        deterministic(number, clock),
        replaced(loop, "run_in_executor", partial(_at_once, loop)),
    ):
        return Story(number, work, clock).play().account


def _at_once(
    loop: AbstractEventLoop, _executor: object, work: Callable[..., Any], *args: Any
) -> asyncio.Future[Any]:
    """Do what is meant for a thread on the loop, so that its end has one moment in every run."""
    done = loop.create_future()
    try:
        done.set_result(work(*args))
    except Exception as error:  # noqa: BLE001 - raised again where it is awaited
        done.set_exception(error)
    return done
