"""Hadoop's options of S3A's filesystem, as ``storage_options`` of s3fs."""

from __future__ import annotations

import re
from typing import Any, Final

from magicfs.errors import UsageError
from magicfs.hadoop.options import HadoopOptions, flag

_KMS: Final = {"SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse"}
_KEY: Final = "fs.s3a.encryption.key"
_OLD_KEY: Final = "fs.s3a.server-side-encryption.key"
_ALGORITHM: Final = "fs.s3a.encryption.algorithm"
_OLD_ALGORITHM: Final = "fs.s3a.server-side-encryption-algorithm"
_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_AWS: Final = frozenset({"s3.amazonaws.com", "https://s3.amazonaws.com"})


def storage_options(options: HadoopOptions) -> dict[str, Any]:
    """What leads s3fs to the same store, with objects that bear the same. What it lacks is left to s3fs.

    Raises UsageError for what magicfs cannot write so.
    """
    made = _way(options) | _credentials(options)
    if bear := _objects(options) | _encryption(options):
        made["s3_additional_kwargs"] = bear
    return made


def _way(options: HadoopOptions) -> dict[str, Any]:
    made: dict[str, Any] = {}
    endpoint = options.of_filesystem("fs.s3a.endpoint")
    is_plain = options.of_filesystem("fs.s3a.connection.ssl.enabled").lower() == "false"
    if endpoint and endpoint not in _AWS:
        scheme = "http" if is_plain else "https"
        made["endpoint_url"] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
    if region := options.of_filesystem("fs.s3a.endpoint.region"):
        made["client_kwargs"] = {"region_name": region}
    if _is_true(options, "fs.s3a.path.style.access"):
        made["config_kwargs"] = {"s3": {"addressing_style": "path"}}
    if _is_true(options, "fs.s3a.requester.pays.enabled"):
        made["requester_pays"] = True
    return made


def _credentials(options: HadoopOptions) -> dict[str, Any]:
    key, secret = options.of_filesystem("fs.s3a.access.key"), options.of_filesystem("fs.s3a.secret.key")
    if bool(key) != bool(secret):
        raise UsageError("fs.s3a.access.key and fs.s3a.secret.key belong together; set both or neither")
    made: dict[str, Any] = {"key": key, "secret": secret} if key else {}
    if key and (token := options.of_filesystem("fs.s3a.session.token")):
        made["token"] = token
    provider = options.name_in_filesystem("fs.s3a.aws.credentials.provider")
    if options.has(provider, "AnonymousAWSCredentialsProvider"):
        made["anon"] = True
    return made


def _objects(options: HadoopOptions) -> dict[str, str]:
    made = {}
    if kind := options.of_filesystem("fs.s3a.create.storage.class"):
        made["StorageClass"] = kind.upper()
    if acl := options.of_filesystem("fs.s3a.acl.default"):
        made["ACL"] = _CAPITAL.sub("-", acl).lower()
    if algorithm := options.of_filesystem("fs.s3a.create.checksum.algorithm"):
        made["ChecksumAlgorithm"] = algorithm.upper().replace("_", "")
    return made


def _encryption(options: HadoopOptions) -> dict[str, str]:
    name = _ALGORITHM if options.is_given(options.name_in_filesystem(_ALGORITHM)) else _OLD_ALGORITHM
    name = options.name_in_filesystem(name)
    algorithm = options.get(name).upper()
    if not algorithm or algorithm == "SSE-C":
        if algorithm:
            options.read.discard(name)  # the customer's key is not taken from a configuration
        return {}
    if algorithm in {"AES256", "SSE-S3"}:
        return {"ServerSideEncryption": "AES256"}
    if algorithm not in _KMS:
        raise UsageError(
            f"{name}={algorithm} is not supported: magicfs does no client-side encryption; choose one of "
            f"AES256, {', '.join(_KMS)}, or give the job's storage_options yourself"
        )
    key = options.of_filesystem(_KEY) or options.of_filesystem(_OLD_KEY)
    return {"ServerSideEncryption": _KMS[algorithm], **({"SSEKMSKeyId": key} if key else {})}


def _is_true(options: HadoopOptions, name: str) -> bool:
    value = options.of_filesystem(name)
    return bool(value) and flag(name, value)
