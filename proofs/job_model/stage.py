"""The scenes of the model, set up with the shipped code; and what lies in the store, in the model's words."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from magicfs import datasets
from magicfs.engine import Engine
from magicfs.errors import CommitDenied, MagicError, OutputExists, Unavailable, UsageError
from magicfs.filesystem.tracking import StoreRecorder
from magicfs.filesystem.upload import AsyncDelayedFile, Upload
from magicfs.formats.job_object import JobObject
from magicfs.formats.manifest import Manifest
from magicfs.formats.pending import DEFAULT_ETAG_FORMAT
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.task_commit import TaskCommit
from magicfs.manifests.chain import ADOPT, COMPACT, manifest_key, pointer_key
from magicfs.operate.adopt import adopt_files
from magicfs.past.compact import _stem_of_sums, compact_chain
from magicfs.protocol import ids
from magicfs.protocol.ids import JobId
from magicfs.protocol.layout import WorkLayout
from magicfs.protocol.magic import locate
from magicfs.protocol.paths import Location
from magicfs.stores.conditions import Conditions, assume
from magicfs.stores.memory.store import MemoryStore
from magicfs.stores.port import Body, Store
from magicfs.stores.trees import tree_of
from magicfs.testing.faulty_store import Traffic
from magicfs.testing.store_faults import Actor
from magicfs.transaction.context import JobContext
from magicfs.transaction.record import JobMoved
from proofs.crash.snapshots import BUCKET, SnapshotWorld
from proofs.crash.trees import tree_store
from proofs.job_model import world as model
from proofs.job_model.jobs import (
    DESTINATION,
    AnyCommitter,
    Listening,
    Way,
    committer_of,
    context_of,
    destination_of,
)
from proofs.job_model.scenes import HAND, UPKEEP, Scene
from proofs.job_model.turnstile import Label

__all__ = ["START", "Stage"]

START: Final = 1_780_000_000.0
_TRIES = 4
_VERSION = re.compile(r"\.[0-9]{5,9}\.json\Z")
_MANIFESTS = f"{DESTINATION}/_magicfs/"


_LOOKS = {f"{destination_of(job)}/__magic": "jobs" for job in (model.PARENT, model.CHILD)}
_LOOKS |= {f"{destination_of(job)}/": "list" for job in (model.PARENT, model.CHILD)}
_LOOKS |= {f"{DESTINATION}/_": "jobs-above", f"{_MANIFESTS}{COMPACT}-": "sums"}
"""What the model calls listings, by their prefixes."""


@dataclass
class Stage:
    """A scene, set up: all jobs open, all tasks committed.

    Attributes:
        scene: The scene.
        world: What lies in the store.
        jobs: The id of each job, by the model's name.
        links: The name of each manifest that is no job's, by its id.
        names: What the model calls an object, by its key.
        uploads: What the model calls an upload, by its id.
        writes: What the model calls an upload's object, by its write id.
        commits: What the tasks of each job committed, by job and winner.
        drivers: Who may commit each job.
        setup: The request that wrote the first version of job A's object: key, body and metadata.
        numbered: Whether the store takes If-Match for nothing, so that versions are keys of their own.
        way: How files become visible: by completes; by the renames of ``manifest`` or ``file``, or the copies
            of ``file``, and then what the model calls an upload is the file that is renamed or copied.
    """

    scene: Scene
    world: SnapshotWorld
    jobs: dict[str, JobId] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    uploads: dict[str, str] = field(default_factory=dict)
    writes: dict[str, str] = field(default_factory=dict)
    commits: dict[tuple[str, str], list[TaskCommit]] = field(default_factory=dict)
    drivers: dict[str, str] = field(default_factory=dict)
    setup: tuple[str, Body, Mapping[str, str] | None] = ("", b"", None)
    numbered: bool = False
    way: Way = "completes"
    _read: dict[tuple[object, ...], model.Value] = field(default_factory=dict)

    @property
    def renames(self) -> bool:
        """Whether files become visible by renames, or by copies."""
        return self.way != "completes"

    @property
    def one_step(self) -> bool:
        """Whether by renames."""
        return self.way in {"manifest", "file"}

    async def build(self) -> Stage:
        """Set everything up."""
        store = self.store(self.world)
        for job in (model.PARENT, model.CHILD):
            place = destination_of(job)
            self.names |= {pointer_key(place): model.pointer_of(job)}
            self.names |= {f"{place}/_SUCCESS": model.success_of(job)}
        if self.scene.old:
            await self._open(store, "old", "append", ("x",))
            await self._committer(store, "old", "append").commit_job(
                self.commits["old", "x"], self.drivers["old"]
            )
        if self.scene.by_hand:
            self.names[f"{DESTINATION}/by hand.bin"] = HAND
            await store.put(f"{DESTINATION}/by hand.bin", b"by hand")
        for job, mode in self.scene.jobs:
            winners = ["x", *("y" for role, its in self.scene.actors if (role, its) == ("second", job))]
            await self._open(store, job, mode, winners)
        return self

    def store(self, world: SnapshotWorld) -> Store:
        """The bucket. It is known what it honours."""
        if self.one_step:
            return tree_store(world, "local" if self.numbered else "azure", Traffic(()), Actor("nobody"))
        store = MemoryStore(BUCKET, world)
        assume(store, Conditions(put_if_match=not self.numbered, bulk_delete=False))
        return store

    def _layout(self, job: str) -> WorkLayout:
        return WorkLayout(destination_of(job), self.jobs[job], 0, "__magic_job")

    def _committer(self, store: Store, job: str, mode: str, attempt: int = 0) -> AnyCommitter:
        context = context_of(destination_of(job), self.jobs[job], mode, attempt)
        return committer_of(context, Engine(store, 4), self.way)

    async def _open(self, store: Store, job: str, mode: str, winners: Sequence[str]) -> None:
        self.jobs[job] = JobId(str(uuid4()))
        self.names |= {
            self._layout(job).job_object_key: f"{job}.job",
            manifest_key(destination_of(job), self.jobs[job]): f"{job}.manifest",
        }
        listening = Listening(store)
        self.drivers[job] = (await self._committer(listening, job, mode).setup_job()).driver
        if job == "A":
            self.setup = listening.first
        for attempt, winner in enumerate(winners):
            committer = self._committer(store, job, mode, attempt)
            name = ids.attempt_id(task := ids.task_id(0), winner)
            if self.one_step:  # a second driver, which makes it, sets the job up only later
                await tree_of(store).make_directory(committer.context.temporary.manifests_directory)
            for number in (1, 2):
                await self._write(store, committer.context, name, job, winner, number)
            self.commits[job, winner] = [await committer.commit_task(task, name)]

    async def _write(
        self, store: Store, context: JobContext, attempt: ids.AttemptId, job: str, winner: str, number: int
    ) -> None:
        label = f"{job}{number}"
        place = "inner #1/" if job == model.PARENT and model.is_below(label) else ""
        key = f"{destination_of(job)}/{place}part-{number}-000000-{context.job}"
        self.names[key] = label
        if self.renames:
            await self._write_source(store, context, attempt, f"{place}part-{number}", f"{label}{winner}")
            return
        path = locate(f"{BUCKET}/{context.layout.work_directory(attempt)}/{place}part-{number}")
        assert path is not None
        upload = Upload(store, key, 1 << 20, StoreRecorder(store, path, etag_format=DEFAULT_ETAG_FORMAT))
        async with await AsyncDelayedFile(upload).open() as file:
            await file.write(f"{label}{winner}".encode())
        upload_id = next(one for one in self.world.uploads if one not in self.uploads)
        self.uploads[upload_id] = label if job == "old" else f"{label}{winner}"
        self.writes[self.world.uploads[upload_id].metadata["magicfs-write-id"]] = self.uploads[upload_id]

    async def _write_source(
        self, store: Store, context: JobContext, attempt: ids.AttemptId, name: str, upload: str
    ) -> None:
        source = f"{context.temporary.task_attempt_directory(attempt)}/{name}"
        await tree_of(store).write(source, upload.encode())
        # What was there before is told by its key alone.
        name = upload[: -len("x")] if upload.startswith("old") else upload
        self.uploads[source] = self.writes[self.world.objects[source].info.etag] = self.writes[upload] = name

    # -- what the executors do -------------------------------------------------------------------------

    def program(self, role: str, job: str, store: Store) -> Coroutine[Any, Any, None]:
        """What an executor does, with the shipped code."""
        if role in UPKEEP:
            return self._look_after(role, store)
        mode = dict(self.scene.jobs)[job]
        if role == "driver":
            return self._drive(self._committer(store, job, mode), self.commits[job, "x"], self.drivers[job])
        if role == "second":
            return self._take_over(self._committer(store, job, mode, 1), self.commits[job, "y"])
        return self.recover(store, job, rollback=role == "rollback")

    async def _drive(self, committer: AnyCommitter, commits: list[TaskCommit], driver: str) -> None:
        try:
            await committer.commit_job(commits, driver)
        except JobMoved:
            return
        except (CommitDenied, OutputExists):
            # As the context manager of a job does.
            await committer.abort_job(commits, driver)

    async def _look_after(self, role: str, store: Store) -> None:
        engine, place = Engine(store, 4), Location("memory", BUCKET, DESTINATION)
        # That others were faster, or that a job is unfinished.
        with contextlib.suppress(CommitDenied, Unavailable, UsageError):
            await (compact_chain(engine, place) if role == "compact" else adopt_files(engine, place))

    async def _take_over(self, committer: AnyCommitter, commits: list[TaskCommit]) -> None:
        setup = await committer.setup_job()
        await self._drive(committer, commits, setup.driver)

    async def recover(self, store: Store, job: str, *, rollback: bool = False, abort: bool = False) -> None:
        """``magicfs recover``, again as long as others move the job meanwhile."""
        place = Location("memory", BUCKET, destination_of(job))
        for _ in range(_TRIES):
            try:
                await datasets.recover_jobs(
                    Engine(store, 4), place, job=self.jobs[job], rollback=rollback, abort=abort
                )
            except JobMoved:
                continue
            except (UsageError, CommitDenied):
                return
            return

    async def settle(self, store: Store) -> None:
        """All executors have died: recover each job, discard what is undecided, and sweep."""
        for job, mode in self.scene.jobs:
            # What cannot be brought to its end is told by what is left.
            with contextlib.suppress(MagicError):
                await self.recover(store, job)
                await self.recover(store, job, abort=True)
                # A numbered object that is cut while it is removed leaves versions, too.
                if self.scene.swept or self.numbered:
                    await self._committer(store, job, mode).abort_job(())

    # -- the model's words -----------------------------------------------------------------------------

    def label(self, operation: str, key: str, upload_id: str, who: str = "") -> Label:
        """What the model calls a request; ``who`` makes it, where that is no job."""
        if operation in ("put", "create"):
            self._name_link(_VERSION.sub(".json", key), who)
        if operation in ("complete", "abort"):
            return Label(operation, self.uploads.get(upload_id, ""))
        if operation in ("rename", "copy"):
            return Label("complete", self.uploads.get(key, ""))
        if self.renames and operation.startswith("delete") and "/_temporary" in key:
            return self._discarded(key)
        name = self._name(key)
        if operation in ("list", "list_directories"):
            if named := self._name(f"{key}json"):
                return Label("get", named)  # the versions of a numbered object
            return Label(_LOOKS.get(key, ""))
        if operation in ("delete_matching", "delete"):
            if name:
                return Label("delete", name)
            return Label("clean", key.partition("/job-")[2][:36]) if "/__magic" in key else Label()
        if operation == "create" and name.endswith(".job") and key in self.names:
            return Label()  # only to learn that the job was set up before
        if operation in ("put", "create"):
            return Label("put", name) if name else Label()
        if operation in ("head", "look"):
            return Label("get", name) if name else Label()
        return Label()

    def _discarded(self, key: str) -> Label:
        """A file that is not to be renamed any more; of a directory, all that a job has in it."""
        if key in self.uploads:
            return Label("abort", self.uploads[key])
        return Label("abort", next((one for one, job in self.jobs.items() if str(job) in key), ""))

    def seen(self, world: SnapshotWorld) -> model.Store:
        """What lies in a store, in the model's words."""
        newest: dict[str, str] = {}
        for key in sorted(
            world.objects, key=lambda key: (key not in self.names, key)
        ):  # first versions first
            name = self._name(key)
            if (self.renames and key in self.uploads) or f"{COMPACT}-" in key.rpartition("/")[0]:
                continue
            if name and (key in self.names or name in newest):
                newest[name] = key
            else:
                newest[f"{key}.facts"] = key  # work, or what nobody knows: neither may be left over
        objects = {name: self._known(name, key, world) for name, key in newest.items()}
        there = (*world.uploads, *(self.uploads.keys() & world.objects))
        waiting = frozenset(self.uploads.get(upload, upload) for upload in there)
        return model.Store(frozenset(objects.items()), waiting)

    def _name_link(self, key: str, who: str) -> None:
        """Know a manifest that is no job's, from now on."""
        one = key.removeprefix(_MANIFESTS).removesuffix(".json")
        if one.startswith(f"{COMPACT}-") and "/" not in one:  # a file beside it is a part of it
            ids_below = [(str(job), letter) for letter, job in self.jobs.items()] + [*self.links.items()]
            below = next(name for job, name in ids_below if one.startswith(_stem_of_sums(job)))
            self.links[one] = f"sum-{who}-{below}"
        elif one.startswith(f"{ADOPT}ed-"):
            self.links[one] = who
        else:
            return
        self.names[key] = f"{self.links[one]}.manifest"

    def _name(self, key: str) -> str:
        """What the model calls an object, all versions of a numbered one alike."""
        return self.names.get(key) or self.names.get(_VERSION.sub(".json", key), "")

    def _known(self, name: str, key: str, world: SnapshotWorld) -> model.Value:
        one = world.objects[key]
        mark = (key, one.info.etag, name, bytes(one.body))  # an ETag may be a number that comes again
        if mark not in self._read:
            self._read[mark] = self._value(name, one, world)
        return self._read[mark]

    def _value(self, name: str, one: Any, world: SnapshotWorld) -> model.Value:
        if model.is_data(name):
            borne = one.info.etag if self.one_step else one.info.metadata.get("magicfs-write-id")
            if self.way == "copies":
                # Nothing else tells whose it is; a manifest names it by its ETag.
                borne = bytes(one.body).decode()
                self.writes[one.info.etag] = self.writes.get(borne, "foreign")
            return self.writes.get(borne, "foreign")
        letters: dict[str | None, str] = {str(job): letter for letter, job in self.jobs.items()}
        letters.update(self.links.items())
        if name.endswith(".facts"):
            return name
        if name.endswith("_SUCCESS"):
            return letters[json.loads(one.body)["jobId"]]
        if name.endswith("pointer"):
            letter = letters[json.loads(one.body)["jobId"]]
            return (letter, int(letter != "old"))
        if name.endswith(".manifest"):
            link = Manifest.from_bytes(name, one.body)
            letters[None] = ""
            keys = [(f"{link.destination}/{one.key}", one.write_id or one.etag or "") for one in link.files]
            files = tuple(sorted((self.names[key], self.writes.get(it, "foreign")) for key, it in keys))
            hides, replaced = link.hides == "all", letters[link.replaced]
            return model.Manifest(letters[link.job_id], letters[link.previous], hides, replaced, files)
        return self._job_object(JobObject.from_bytes(name, one.body), world)

    def _job_object(self, job: JobObject, world: SnapshotWorld) -> model.JobObject:
        facts, deletions = "", []
        for chunk in job.chunks:
            if chunk.key in world.objects:
                commits = PendingSet.from_bytes(chunk.key, world.objects[chunk.key].body).commits
                source = commits[0].source
                facts = self.uploads[source.key if source else commits[0].upload_id][-1]
        for chunk in job.deletions:
            if chunk.key in world.objects:
                listed = json.loads(world.objects[chunk.key].body)["objects"]
                deletions += [(self.names[one["key"]], one["etag"]) for one in listed]
        return model.JobObject(job.state.value, 1, facts, tuple(deletions))
