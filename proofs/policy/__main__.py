"""``python -m proofs.policy``: the permissions of each role, recorded and proven; the last line is JSON.

1. Each role works with all rights, on a bucket with versions and one without. What it asked is the table of
   ``src/magicfs/policy/uses.py``; ``--write`` renews it.
2. Each role works with the policy that ``magicfs policy`` prints, and is denied nothing.
3. Each permission that is taken away is missed: the role is denied something.
4. Each operation that a role does not use, at each place, is denied.

Two judges: a proxy that evaluates policies as AWS documents it, and SeaweedFS, a real server.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Final

from magicfs.errors import MagicError
from magicfs.policy import aws, policies, uses
from magicfs.policy.places import Destination, place_of
from proofs.policy.judge import Asked, JudgingProxy, is_allowed, names
from proofs.policy.roles import WORK, Ground
from proofs.policy.servers import Seaweed

__all__ = ["main"]

_KEY: Final = "a/b/sales"
_TABLE: Final = Path(uses.__file__)
_NUMBER: Final = count()
_IMPLIED: Final = frozenset({"s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"})
"""What SeaweedFS allows to all who may put."""
_HEAD: Final = '''"""Which role asks what of which place, as ``python -m proofs.policy --write`` has seen it.

Do not edit it. Roles, then operations as S3 names them, then places as in ``magicfs.policy.places``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

'''
Uses = dict[str, dict[str, tuple[str, ...]]]


@dataclass
class Ran:
    """What came of the work of a role."""

    denied: list[Asked]
    problem: str = ""


@dataclass
class Judge:
    """Who says what is allowed: ``credentials`` has a policy enforced, and says who asks under it."""

    name: str
    server: Seaweed
    proxy: JudgingProxy
    credentials: Callable[[Mapping[str, Any]], dict[str, str]]
    wrong: list[str] = field(default_factory=list)
    cells: int = 0

    def run(self, role: str, without: int | None = None) -> Ran:
        """Let a role work in a bucket of its own, under its policy, or one that lacks a statement."""
        self.proxy.is_hasty = without is not None
        with _ground(self.server, self.proxy, role) as (ground, bucket):
            policy: Any = policies.policy(f"s3://{bucket}/{_KEY}", role)
            if without is not None:
                del policy["Statement"][without]
            own = self.credentials(policy)
            return _work(role, replace(ground, own={**ground.own, **own}), self.proxy)

    def check(self, said: bool, what: str) -> None:
        """Count a cell, and keep what is wrong."""
        self.cells += 1
        if not said:
            self.wrong.append(f"{self.name}: {what}")
            _say(self.wrong[-1])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the proof; 0 if all is as the table and the policies say."""
    parser = argparse.ArgumentParser(prog="python -m proofs.policy", description=__doc__)
    parser.add_argument("--role", choices=WORK, action="append", help="only this one; may be repeated")
    parser.add_argument("--table", action="store_true", help="compare the table, and judge no policy")
    parser.add_argument("--write", action="store_true", help="renew the table from this run")
    arguments = parser.parse_args(argv)
    logging.disable(logging.ERROR)
    started = time.monotonic()
    roles = arguments.role or [*WORK]
    with Seaweed() as server, JudgingProxy(server.endpoint) as proxy:
        for name, value in server.environment().items():
            os.environ[name] = value
        plain = {role: recorded(server, proxy, role, versions=False) for role in roles}
        kept = {role: recorded(server, proxy, role, versions=True) for role in roles}
        versions = {role: _more(kept[role], plain[role]) for role in roles}
        if arguments.write:
            _TABLE.write_text(_HEAD + _table("USES", plain) + "\n" + _table("USES_OF_VERSIONS", versions))
            _say(f"{_TABLE.name} is renewed; run this again without --write")
            return 0
        found = {"roles": roles, "operations": sum(map(len, plain.values()))}
        table = plain == {role: uses.USES[role] for role in roles}
        table = table and versions == {role: uses.USES_OF_VERSIONS[role] for role in roles}
        judges = (
            []
            if arguments.table
            else [
                Judge("aws rules", server, proxy, lambda policy: _enforce(proxy, policy)),
                Judge("seaweedfs", server, proxy, lambda policy: _user(server, proxy, policy)),
            ]
        )
        for judge in judges:
            for role in roles:
                examine(judge, role)
    wrong = [one for judge in judges for one in judge.wrong]
    cells = {judge.name: judge.cells for judge in judges}
    ok = table and not wrong
    result = {**found, "table_as_recorded": table, "cells": cells, "wrong": wrong}
    seconds = round(time.monotonic() - started, 1)
    print(json.dumps({**result, "seconds": seconds, "ok": ok}, separators=(",", ":")))  # noqa: T201
    return 0 if ok else 1


def recorded(
    server: Seaweed, proxy: JudgingProxy, role: str, *, versions: bool
) -> dict[str, tuple[str, ...]]:
    """What a role asks with all rights, by operation: the places."""
    with _ground(server, proxy, role) as (ground, bucket):
        if versions:
            server.keep_versions(bucket)
        proxy.policy = None
        ran = _work(role, ground, proxy)
        assert not ran.problem, f"{role}: {ran.problem}"
        place = Destination(bucket, _KEY)
        found: dict[str, set[str]] = {}
        for one in proxy.asked:
            where = "bucket"
            if name := one.key or one.prefix:
                where = str(place_of(place, name))
                assert where != "None", f"{role}: {one} is no place of the destination"
            found.setdefault(one.operation, set()).add(where)
        return {operation: tuple(sorted(found[operation])) for operation in sorted(found)}


def examine(judge: Judge, role: str) -> None:
    """Parts 2 to 4."""
    ran = judge.run(role)
    judge.check(not ran.denied and not ran.problem, f"{role}: {names(ran.denied)[:3]} {ran.problem}")
    policy: Any = policies.policy(f"s3://bucket/{_KEY}", role)
    for number, statement in enumerate(policy["Statement"]):
        sid = statement["Sid"]
        if statement["Effect"] == "Deny" or sid == "NotFoundIsNot403":
            continue  # of the first, part 4; the second is for AWS, whose 403 nobody here gives
        if judge.name == "seaweedfs" and _IMPLIED.issuperset(statement["Action"]):
            continue
        ran = judge.run(role, without=number)
        judge.check(bool(ran.denied), f"{role} without {sid} misses nothing")
        _say(f"{judge.name}: {role} without {sid}: {names(ran.denied)[:2]} {ran.problem[:60]}")
    _nothing_else(judge, role)


_PLACES: Final = {
    "data": f"{_KEY}/day=1/x.parquet",
    "work": f"{_KEY}/__magic_job-1/job-1/00/x.pendingset",
    "decisions": f"{_KEY}/__magic_job-1/job-1/job.json",
    "records": f"{_KEY}/_magicfs/current.json",
    "success": f"{_KEY}/_SUCCESS",
    "self": _KEY,
    "neighbor": f"{_KEY}2/x.parquet",
    "above": "a/b/x.parquet",
}
_OPERATIONS: Final[Mapping[str, Callable[[Any, str, str], object]]] = {
    "PutObject": lambda client, bucket, key: client.put_object(Bucket=bucket, Key=key, Body=b"{}"),
    "GetObject": lambda client, bucket, key: client.get_object(Bucket=bucket, Key=key),
    "DeleteObject": lambda client, bucket, key: client.delete_object(Bucket=bucket, Key=key),
    "CreateMultipartUpload": lambda client, bucket, key: client.create_multipart_upload(
        Bucket=bucket, Key=key
    ),
    "AbortMultipartUpload": lambda client, bucket, key: client.abort_multipart_upload(
        Bucket=bucket, Key=key, UploadId="none"
    ),
    "ListObjectsV2": lambda client, bucket, key: client.list_objects_v2(Bucket=bucket, Prefix=key),
    "ListMultipartUploads": lambda client, bucket, key: client.list_multipart_uploads(
        Bucket=bucket, Prefix=key
    ),
}


def _nothing_else(judge: Judge, role: str) -> None:
    """Whatever the policy does not allow is denied, and no right reaches a neighbor."""
    from botocore.exceptions import ClientError

    judge.proxy.is_hasty = False
    with _ground(judge.server, judge.proxy, role) as (_, bucket):
        policy = policies.policy(f"s3://{bucket}/{_KEY}", role)
        own = judge.credentials(policy)
        client = _client(judge.proxy.endpoint, own or judge.server.storage_options())
        for operation, ask in _OPERATIONS.items():
            for place, key in _PLACES.items():
                listing = operation.startswith("List")
                one = Asked(operation, bucket, "" if listing else key, key if listing else None)
                allowed = is_allowed(policy, one, aws.ACTIONS[operation])
                if judge.name == "seaweedfs" and aws.ACTIONS[operation] in _IMPLIED:
                    continue
                try:
                    ask(client, bucket, key)
                except ClientError as error:
                    passed = error.response["ResponseMetadata"]["HTTPStatusCode"] != 403
                else:
                    passed = True
                judge.check(passed == allowed, f"{role} {operation} at {place}: {passed}, not {allowed}")
                if place in {"neighbor", "above"}:
                    judge.check(not passed, f"{role} may {operation} at {place}")
        client.close()


def _client(endpoint: str, own: Mapping[str, str]) -> Any:
    import botocore.session
    from botocore.config import Config

    return botocore.session.Session().create_client(
        "s3",
        endpoint_url=endpoint,
        aws_access_key_id=own["key"],
        aws_secret_access_key=own["secret"],
        region_name="us-east-1",
        config=Config(proxies={}, s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )


def _enforce(proxy: JudgingProxy, policy: Mapping[str, Any]) -> dict[str, str]:
    proxy.policy = deepcopy(policy)
    return {}


def _user(server: Seaweed, proxy: JudgingProxy, policy: Mapping[str, Any]) -> dict[str, str]:
    proxy.policy = None
    return server.user(f"user{next(_NUMBER)}", policy)


@contextlib.contextmanager
def _ground(server: Seaweed, proxy: JudgingProxy, role: str) -> Iterator[tuple[Ground, str]]:
    bucket = server.create_bucket(f"{role}{next(_NUMBER)}")
    owner = server.storage_options()
    try:
        own = {**owner, "endpoint_url": proxy.endpoint}
        yield Ground(f"s3://{bucket}/{_KEY}", owner, own, proxy), bucket
    finally:
        server.remove_bucket(bucket)


def _work(role: str, ground: Ground, proxy: JudgingProxy) -> Ran:
    proxy.clear_log()
    proxy.clear()
    os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"] = (
        ground.own["key"],
        ground.own["secret"],
    )
    problem = ""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            WORK[role](ground)
    except (MagicError, AssertionError, OSError, ExceptionGroup) as error:
        problem = f"{type(error).__name__}: {error}"[:300]
    return Ran(list(proxy.denied), problem)


def _more(
    kept: Mapping[str, tuple[str, ...]], plain: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """What is asked on a bucket with versions alone."""
    more = {one: tuple(sorted({*where} - {*plain.get(one, ())})) for one, where in kept.items()}
    return {one: where for one, where in more.items() if where}


def _table(name: str, found: Uses) -> str:
    lines = [f"{name}: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {{"]
    for role, operations in found.items():
        lines.append(f'    "{role}": {{')
        lines += [f'        "{one}": {where!r},' for one, where in operations.items()]
        lines.append("    },")
    return "\n".join(lines).replace("'", '"').replace("{\n    },", "{},") + "\n}\n"


def _say(text: str) -> None:
    sys.stderr.write(f"policy: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
