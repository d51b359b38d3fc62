"""Attacks on one protection of local files each; every one returns what must not have happened."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from unittest import mock

import magicfs
from magicfs.cli import task_files
from magicfs.errors import MagicError, ObjectNotFound, StoreError, UsageError
from magicfs.stores.local import places as local_places
from magicfs.stores.local.store import LocalStore
from proofs.hostile.local_world import (
    CANARY,
    CHANGING,
    STRANGER,
    command_line,
    dies_when_it_publishes,
    lay,
    leaks,
    problem_of,
    snapshot,
    world,
    write,
)

__all__ = [
    "attack_above",
    "attack_directory",
    "attack_names_in_uploads",
    "attack_private_success",
    "attack_records",
    "attack_second_name",
    "attack_staging",
    "attack_task_files",
]


# -- attacks on one thing ------------------------------------------------------------------------------------


def attack_private_success() -> list[str]:
    """A job keeps a copy of a ``_SUCCESS`` that others may not read, dies, and is taken back."""
    with world() as found:
        success = found.destination / "_SUCCESS"
        success.write_bytes(CANARY)
        success.chmod(0o600)
        command_line("recover", "--rollback", "--job", found.dead, found.url)
        success.write_bytes(CANARY)
        success.chmod(0o600)
        dead = magicfs.Job(found.url, committer="magic", mode="overwrite").setup()
        with dead.task(0) as task:
            write(task, new=b"a\n7\n")
        with dies_when_it_publishes(), contextlib.suppress(MagicError):
            dead.commit(dead.commits)
        leaking = leaks(found)
        if not list(found.destination.glob("__magic*/*/facts/*/_SUCCESS")):
            leaking.append("no copy was made, so nothing was tried")
        command_line("recover", "--rollback", "--job", dead.id, found.url)
        if CANARY not in success.read_bytes():
            leaking.append("the old _SUCCESS was not restored, so nothing was tried")
        return [f"a private _SUCCESS: {one}" for one in [*leaking, *leaks(found)]]


def attack_records() -> list[str]:
    """Ask the store for a record in whose place something else lies."""
    violations = []
    with world() as found:
        store, record = LocalStore(), found.destination / "_magicfs" / "current.json"
        key = str(record).lstrip("/")
        for kind in ("link to a private file", "link to itself", "named pipe", "socket", "directory"):
            record.unlink(missing_ok=True)
            lay(found, "sales/_magicfs/current.json", kind)
            for name, request in (("get", store.get), ("head", store.head)):
                try:
                    asyncio.run(request(key))
                    violations.append(f"{kind}: {name} took it for a record")
                except ObjectNotFound:
                    violations.append(f"{kind}: {name} takes it for nothing, and would try again")
                except StoreError:
                    pass
    return violations


def attack_directory(*, at_once: bool) -> list[str]:
    """Ask the store for what lies behind a link in the place of a directory of ours."""
    how = (
        contextlib.nullcontext()
        if at_once
        else mock.patch.object(local_places, "_openat2", return_value=None)
    )
    with world() as found, how:
        lay(found, "sales/_magicfs", "moved away and linked")
        store, key = LocalStore(), f"{found.destination}/_magicfs/current.json".lstrip("/")
        before = snapshot(found.private)
        violations = []

        async def listed() -> list[str]:
            return [one.key async for one in store.list(key.removesuffix("current.json"))]

        requests: dict[str, Callable[[], Awaitable[object]]] = {
            "get": lambda: store.get(key),
            "head": lambda: store.head(key),
            "list": listed,
            "put": lambda: store.put(key, b"ours"),
            "rename": lambda: store.tree().rename(key, f"{key}.moved"),
            "delete": lambda: store.delete([key]),
            "delete_tree": lambda: store.tree().delete_tree(key),
        }
        for name, request in requests.items():
            with contextlib.suppress(StoreError):
                asyncio.run(request())  # type: ignore[arg-type]
                violations.append(f"a link in the place of a directory: {name} follows it")
        if snapshot(found.private) != before:
            violations.append("a link in the place of a directory: what it leads to was changed")
    return violations


def attack_staging() -> list[str]:
    """Let a task of a staging job begin where somebody has made a link of its directory."""
    with world() as found:
        lay(found, f"../tmp/magicfs-{os.geteuid()}", "link to a private directory")
        before = snapshot(found.private)
        job = magicfs.Job(found.url, committer="directory", mode="append").setup()
        with contextlib.suppress(MagicError):
            job.task(0).setup()
        return [] if snapshot(found.private) == before else ["a task works behind a link"]


def attack_names_in_uploads() -> list[str]:
    """Lay a file of somebody into each open upload, then end them all."""
    with world() as found:
        theirs = [one / "thesis.tex" for one in found.destination.glob(".magicfs-uploads/*")]
        for path in theirs:
            path.write_bytes(b"precious")
        for _, command in CHANGING:
            problem_of(found, command)
        return [f"{path.name} in an upload was removed" for path in theirs if not path.exists()]


def attack_second_name() -> list[str]:
    """Give a private file the second name ``data`` in an open upload, then send a part."""
    with world() as found:
        store, key = LocalStore(), str(found.destination / "new").lstrip("/")
        upload_id = asyncio.run(store.create_upload(key, metadata={}))
        data = found.destination / ".magicfs-uploads" / upload_id / "data"
        data.unlink()
        os.link(found.private / "id_rsa", data)
        with contextlib.suppress(StoreError):
            asyncio.run(store.put_part(key, upload_id, 1, b"other bytes"))
        changed = (found.private / "id_rsa").read_bytes() != CANARY
        return ["a part was written into a file with another name"] if changed else []


def attack_above() -> list[str]:
    """Leave an upload of a dataset above a directory of another user. Needs root, who may give it away."""
    with world() as found:
        store, key = LocalStore(), str(found.destination / "new").lstrip("/")
        team = found.base / "team"
        team.rename(found.base / "aside")
        asyncio.run(store.create_upload(key, metadata={}))
        (found.base / "aside").rename(team)
        os.chown(team, STRANGER, STRANGER)

        async def listed() -> list[str]:
            return [one.key async for one in store.list_uploads(f"{key.rpartition('/')[0]}/")]

        return ["an upload above another user's directory was found"] if key in asyncio.run(listed()) else []


def attack_task_files() -> list[str]:
    """Hide a link to a private file in a directory that ``magicfs job task`` is to publish."""
    with world() as found:
        given = found.base / "given"
        given.mkdir()
        (given / "link").symlink_to(found.private / "id_rsa")
        with contextlib.suppress(UsageError):
            task_files._below(given)  # noqa: SLF001 - what it and a command's output have in common
            return ["a hidden link was published, or left out"]
    return []
