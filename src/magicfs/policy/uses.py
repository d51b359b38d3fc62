"""Which role asks what of which place, as ``python -m proofs.policy --write`` has seen it.

Do not edit it. Roles, then operations as S3 names them, then places as in ``magicfs.policy.places``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

USES: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "worker": {
        "AbortMultipartUpload": ("data",),
        "CreateMultipartUpload": ("data",),
        "DeleteObjects": ("work",),
        "GetObject": ("work",),
        "ListObjectsV2": ("work",),
        "PutObject": ("work",),
        "UploadPart": ("data",),
    },
    "driver": {
        "AbortMultipartUpload": ("data", "work"),
        "CompleteMultipartUpload": ("data", "work"),
        "CreateMultipartUpload": ("data", "work"),
        "DeleteObject": ("work",),
        "DeleteObjects": ("data", "decisions", "records", "success", "work"),
        "GetObject": ("above", "data", "decisions", "records", "success", "work"),
        "HeadObject": ("above", "data", "decisions", "records", "self", "success", "work"),
        "ListMultipartUploads": ("data",),
        "ListObjectsV2": ("above", "data", "work"),
        "PutObject": ("decisions", "records", "success", "work"),
        "UploadPart": ("data", "work"),
    },
    "reader": {
        "GetObject": ("data", "decisions", "records"),
        "HeadObject": ("data", "decisions", "records"),
        "ListObjectsV2": ("data", "records", "work"),
    },
    "operator": {
        "AbortMultipartUpload": ("data", "work"),
        "CompleteMultipartUpload": ("data", "work"),
        "CreateMultipartUpload": ("data", "work"),
        "DeleteObject": ("work",),
        "DeleteObjects": ("data", "decisions", "records", "success", "work"),
        "GetBucketLifecycleConfiguration": ("bucket",),
        "GetBucketVersioning": ("bucket",),
        "GetObject": ("data", "decisions", "records", "success", "work"),
        "HeadObject": ("data", "decisions", "records", "self", "success", "work"),
        "ListMultipartUploads": ("data", "records"),
        "ListObjectsV2": ("above", "data", "records", "work"),
        "PutObject": ("decisions", "records", "success", "work"),
        "UploadPart": ("data", "work"),
    },
}

USES_OF_VERSIONS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "worker": {},
    "driver": {},
    "reader": {
        "GetObjectVersion": ("data",),
    },
    "operator": {
        "DeleteObjectVersion": ("data",),
        "GetObjectVersion": ("data",),
        "ListObjectVersions": ("data",),
    },
}
