"""Policies of AWS IAM."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from magicfs.errors import UsageError
from magicfs.policy.places import RESERVED, Destination, Document
from magicfs.policy.uses import USES, USES_OF_VERSIONS

ACTIONS: Final[Mapping[str, str]] = {
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "CompleteMultipartUpload": "s3:PutObject",
    "CreateMultipartUpload": "s3:PutObject",
    "DeleteObject": "s3:DeleteObject",
    "DeleteObjectVersion": "s3:DeleteObjectVersion",
    "DeleteObjects": "s3:DeleteObject",
    "GetBucketLifecycleConfiguration": "s3:GetLifecycleConfiguration",
    "GetBucketVersioning": "s3:GetBucketVersioning",
    "GetObject": "s3:GetObject",
    "GetObjectVersion": "s3:GetObjectVersion",
    "HeadObject": "s3:GetObject",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "ListObjectVersions": "s3:ListBucketVersions",
    "ListObjectsV2": "s3:ListBucket",
    "ListParts": "s3:ListMultipartUploadParts",
    "PutObject": "s3:PutObject",
    "UploadPart": "s3:PutObject",
}
"""The action that each operation needs. A copy reads its source and puts."""

_LISTINGS: Final = frozenset({"s3:ListBucket", "s3:ListBucketMultipartUploads", "s3:ListBucketVersions"})
_PARTITION: Final = re.compile(r"aws(-[a-z]+)*")
_BUCKET: Final = re.compile(r"[A-Za-z0-9._-]{3,255}")
_KEY: Final = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+")
_LAST: Final = "ÿ"  # of the characters that a policy may have
_SIZE_MAX: Final = 6144  # of a managed policy, without white space


def policy(place: Destination, role: str, *, kms: str | None, versions: bool, partition: str) -> Document:
    """The policy of a role, to attach to its own IAM role: one principal gets one of them."""
    _check(place, kms, partition)
    bucket = f"arn:{partition}:s3:::{place.bucket}"
    places = _places(role, versions=versions)
    statements = [
        one for action in sorted(places) for one in _statements(bucket, place, action, places[action])
    ]
    # What decides is below the data that a worker writes.
    if (writes := places.get("s3:PutObject", set())) and (others := set(RESERVED) - writes):
        denied = _allow("s3:PutObject", _resources(bucket, place, others))
        statements.append({**denied, "Sid": "DecidesNothing", "Effect": "Deny"})
    if kms is not None:
        actions = ["kms:Decrypt", *(["kms:GenerateDataKey"] if writes else [])]
        statements.append({"Sid": "Key", "Effect": "Allow", "Action": actions, "Resource": [kms]})
    document: Document = {"Version": "2012-10-17", "Statement": statements}
    if len(json.dumps(document, separators=(",", ":"))) > _SIZE_MAX:
        raise UsageError("the policy is longer than IAM allows; choose a shorter prefix")
    return document


def _check(place: Destination, kms: str | None, partition: str) -> None:
    if not _BUCKET.fullmatch(place.bucket):
        raise UsageError(f"{place.bucket!a} is not the name of an S3 bucket")
    if not _PARTITION.fullmatch(partition):
        raise UsageError(f"--partition {partition!a} is unknown; write aws, aws-cn or aws-us-gov")
    if kms is not None and not _KEY.fullmatch(kms):
        raise UsageError(f"--kms {kms!a} is not the ARN of a key; write arn:aws:kms:REGION:ACCOUNT:key/ID")
    if foreign := next((one for one in place.key if one > _LAST), None):
        raise UsageError(f"an IAM policy cannot contain the character {foreign!r}; choose another prefix")


def _places(role: str, *, versions: bool) -> dict[str, set[str]]:
    """The places that each action is used at."""
    found: dict[str, set[str]] = {}
    for uses in (USES, USES_OF_VERSIONS) if versions else (USES,):
        for operation, where in uses.get(role, {}).items():
            found.setdefault(ACTIONS[operation], set()).update(where)
    return found


def _statements(bucket: str, place: Destination, action: str, found: set[str]) -> list[Document]:
    if action in _LISTINGS:
        return _listing(bucket, place, action, found)
    if found == {"bucket"}:
        return [_allow(action, [bucket])]
    widest = {"data"} if "data" in found else found - {"decisions"} if "work" in found else found
    return [_allow(action, _resources(bucket, place, widest | (found & {"above", "self"})))]


def _allow(action: str, resources: list[str]) -> Document:
    sid = action.partition(":")[2]
    return {"Sid": sid, "Effect": "Allow", "Action": [action], "Resource": resources}


def _listing(bucket: str, place: Destination, action: str, found: Iterable[str]) -> list[Document]:
    """The whole bucket is asked; a condition says for which prefixes."""
    wide = {"data"} | ({"above"} & set(found)) if "data" in found else set(found)
    prefixes = sorted({_escaped(start) + end for one in wide for start, end in place.listed(one)})
    made = [{**_allow(action, [bucket]), "Condition": {"StringLike": {"s3:prefix": prefixes}}}]
    if action == "s3:ListBucket":
        # Without this right, S3 answers 403 for an object that is not there. Such a request has no prefix.
        nothing = {**_allow(action, [bucket]), "Condition": {"Null": {"s3:prefix": "true"}}}
        made.append({**nothing, "Sid": "NotFoundIsNot403"})
    return made


def _resources(bucket: str, place: Destination, places: Iterable[str]) -> list[str]:
    found = {_escaped(start) + end for one in places for start, end in place.patterns(one)}
    return [f"{bucket}/{one}" for one in sorted(found) if one]


def _escaped(text: str) -> str:
    """Text in which nothing is a wildcard or a variable."""
    return re.sub(r"[*?$]", lambda found: f"${{{found[0]}}}", text)
