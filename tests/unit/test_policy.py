"""``magicfs policy``: the least permissions of each role, as JSON for each cloud."""

from __future__ import annotations

import fnmatch
import json
from typing import Any

import pytest

from magicfs.cli.main import main
from magicfs.errors import UsageError
from magicfs.policy import policies
from magicfs.policy.places import Destination, place_of
from magicfs.policy.uses import USES
from proofs.policy.judge import Asked, is_allowed

ROLES = ["worker", "driver", "reader", "operator"]
HOSTILE = ["a*b", "a?b", "${aws:username}", "a$b/c[d]{e}", 'día 50% +#"\\', "a'b", "a,b=c"]


def policy(url: str, role: str, **how: Any) -> Any:
    return policies.policy(url, role, **how)


def allowed(
    document: Any, action: str, key: str = "", prefix: str | None = None, bucket: str = "bucket"
) -> bool:
    return is_allowed(document, Asked("", bucket, key, prefix), action)


def test_there_are_four_roles() -> None:
    assert [*USES] == ROLES


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("key", ["sales", "env=prod/a/sales", *HOSTILE])
def test_no_role_reaches_a_neighbor(role: str, key: str) -> None:
    document = policy(f"s3://bucket/{key}", role)
    others = [
        f"{key}2/x",
        f"{key[:-1]}/x",
        f"x/{key}/x",
        key.replace("*", "Z").replace("?", "Z") + "Z/x",
        "x",
    ]
    for said in document["Statement"]:
        for action in said["Action"]:
            for other in others:
                assert not allowed(document, action, other), other
                assert not allowed(document, action, prefix=other) or not action.startswith("s3:List")
                assert not allowed(document, action, f"{key}/x", bucket="bucket2")
    assert not any(allowed(document, action) for action in ("s3:PutBucketPolicy", "s3:DeleteBucket"))


@pytest.mark.parametrize("key", ["sales", *HOSTILE])
def test_each_role_reaches_its_own(key: str) -> None:
    data, work, record = (
        f"{key}/day=1/x",
        f"{key}/__magic_job-1/job-1/00/x.pendingset",
        f"{key}/_magicfs/current.json",
    )
    job, facts = f"{key}/__magic_job-1/job-1/job.json", f"{key}/__magic_job-1/job-1/facts/1/00000.json"
    found = {role: policy(f"s3://bucket/{key}", role) for role in ROLES}
    places = (data, work, record, job, facts)
    puts = {role: [allowed(one, "s3:PutObject", at) for at in places] for role, one in found.items()}
    deletes = {
        role: [allowed(one, "s3:DeleteObject", at) for at in (data, work, record)]
        for role, one in found.items()
    }
    gets = {
        role: [allowed(one, "s3:GetObject", at) for at in (data, work, record)] for role, one in found.items()
    }
    every = [True] * 5
    assert puts["worker"] == [True, True, False, False, False]
    assert puts["driver"] == puts["operator"] == every
    assert puts["reader"] == [False] * 5
    assert deletes["worker"] == [False, True, False]
    assert deletes["driver"] == deletes["operator"] == [True] * 3
    assert deletes["reader"] == [False] * 3
    assert gets["worker"] == [False, True, False]
    assert gets["reader"] == [True, True, True]
    for role in ROLES:
        assert allowed(found[role], "s3:ListBucket", prefix=f"{key}/__magic")
        assert not allowed(found[role], "s3:ListBucket", prefix="")
    assert allowed(found["driver"], "s3:ListBucketMultipartUploads", prefix=f"{key}/")
    assert not allowed(found["worker"], "s3:ListBucketMultipartUploads", prefix=f"{key}/")


def test_a_whole_bucket_is_a_destination() -> None:
    document = policy("s3://bucket", "driver")
    assert allowed(document, "s3:PutObject", "x/y")
    assert allowed(document, "s3:ListBucket", prefix="")
    resources = [one for said in document["Statement"] for one in said["Resource"]]
    assert "arn:aws:s3:::bucket/" not in resources


def test_versions_keys_and_partitions() -> None:
    kms = "arn:aws-cn:kms:cn-north-1:123456789012:key/abc-1"
    document = policy("s3://bucket/sales", "operator", kms=kms, versions=True, partition="aws-cn")
    text = json.dumps(document)
    assert "s3:DeleteObjectVersion" in text
    assert "arn:aws:" not in text
    (said,) = [one for one in document["Statement"] if one["Sid"] == "Key"]
    assert said["Resource"] == [kms]
    assert said["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    assert policy("s3://bucket/sales", "reader", kms=kms)["Statement"][-1]["Action"] == ["kms:Decrypt"]
    assert 'Version"' not in json.dumps(
        [one["Sid"] for one in policy("s3://bucket/sales", "operator")["Statement"]]
    )


@pytest.mark.parametrize("role", ROLES)
def test_google_gets_roles_with_conditions(role: str) -> None:
    found = policy('gs://bucket/a/sal"es\\', role)
    names = [one["roleId"] for one in found["roles"]]
    assert [one["role"].rpartition("/")[2] for one in found["bindings"]] == names
    start = json.dumps('projects/_/buckets/bucket/objects/a/sal"es\\/')[:-1]
    for one in found["bindings"]:
        expression = one["condition"]["expression"]
        assert (
            start in expression
            or 'bucket"' in expression
            or "objectListPrefix" in expression
            or role == "driver"
        )
    permissions = {one for made in found["roles"] for one in made["role"]["includedPermissions"]}
    assert ("storage.multipartUploads.list" in permissions) == (role in {"driver", "operator"})
    assert ("storage.buckets.get" in permissions) == (role == "operator"), "doctor reads the lifecycle rules"
    assert ("storage.objects.create" in permissions) == (role != "reader")
    data = [one["role"]["includedPermissions"] for one in found["roles"] if one["roleId"].endswith("_data")]
    assert role != "worker" or "storage.objects.delete" not in data[0]


@pytest.mark.parametrize("role", ROLES)
def test_azure_gets_a_role_with_a_condition(role: str) -> None:
    found = policy(
        "abfss://box@account.dfs.core.windows.net/a/sales" if role == "reader" else "az://box/a/sales", role
    )
    actions = {one.rpartition("/")[2] for one in found["role"]["DataActions"]}
    assert actions == ({"read"} if role == "reader" else {"read", "write", "delete"})
    assert found["assignment"]["scope"].endswith("/containers/box")
    condition = found["assignment"]["condition"]
    assert condition.count("(") == condition.count(")")
    assert "'a/sales/" in condition
    assert "'a/sales'" not in condition or role in {"driver", "operator"}
    if role == "worker":
        _, _, deletes = condition.partition("/delete'}))")
        assert deletes.startswith(" OR (@Resource[")
        assert deletes.partition(" AND ")[0].endswith("StringStartsWith 'a/sales/__magic'))")


@pytest.mark.parametrize(
    ("url", "how", "match"),
    [
        ("file:///tmp/x", {}, "has no policies"),
        ("memory://b/x", {}, "has no policies"),
        ("s3://bucket/日", {}, "cannot contain the character '日'"),
        ("s3://bucket/a\nb", {}, "a character that a policy cannot contain"),
        ("s3://b*/x", {}, "is not the name of an S3 bucket"),
        ("s3://bucket/" + "x" * 900, {}, "longer than IAM allows"),
        ("s3://bucket/x", {"kms": "*"}, "is not the ARN of a key"),
        ("s3://bucket/x", {"partition": "aws:s3"}, "unknown"),
        ("gs://bucket/x", {"kms": "arn:aws:kms:eu-west-1:123456789012:key/a"}, "are for s3"),
        ("gs://b_/x", {}, "not the name of a bucket"),
        ("az://B/x", {}, "not the name of an Azure container"),
        ("az://box/it's", {}, "cannot contain the character '"),
        ("s3://bucket/a/../b", {}, r"\.\."),
        ("bucket/x", {}, "no scheme"),
    ],
)
def test_what_no_policy_can_say_is_refused(url: str, how: Any, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        policy(url, "driver", **how)


def test_an_unknown_role() -> None:
    with pytest.raises(UsageError, match="choose one of worker, driver, reader, operator"):
        policy("s3://bucket/x", "admin")


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "s3://bucket/sales", "--role", "worker"]) == 0
    shown = capsys.readouterr().out
    assert main(["policy", "s3://bucket/sales", "--role", "worker", "--json"]) == 0
    short = capsys.readouterr().out
    assert json.loads(shown) == json.loads(short) == policy("s3://bucket/sales", "worker")
    assert short.count("\n") == 1 < shown.count("\n")
    assert main(["policy", "file:///x", "--role", "worker"]) == 2


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("a/sales/day=1/x", "data"),
        ("a/sales/", "data"),
        ("a/sales", "self"),
        ("a/sales/__magic", "work"),
        ("a/sales/__magic_job-1/job-1/job.json", "decisions"),
        ("a/sales/__magic_job-1/job-1/facts/n/0.json", "decisions"),
        ("a/sales/_magicfs/current.json", "records"),
        ("a/sales/_SUCCESS", "success"),
        ("a/_", "above"),
        ("_magicfs/current.json", "above"),
        ("a/sales2/x", None),
        ("a/x", None),
        ("b/_magicfs/x", None),
    ],
)
def test_keys_have_places(key: str, place: str | None) -> None:
    destination = Destination("bucket", "a/sales")
    assert place_of(destination, key) == place
    if place not in {None, "self"}:
        patterns = [
            start + end for start, end in (*destination.patterns(str(place)), *destination.listed(str(place)))
        ]
        assert any(fnmatch.fnmatchcase(key, one) for one in patterns) or key.endswith("__magic")
