"""The names of S3 operations, recognised from requests as they travel (path-style addressing)."""

from __future__ import annotations

from collections.abc import Mapping

# (method, query parameter) -> operation. The order matters where a request has several: ListParts
# and UploadPart carry uploadId too.
_ON_OBJECT = {
    ("POST", "uploads"): "CreateMultipartUpload",
    ("PUT", "partNumber"): "UploadPart",
    ("POST", "uploadId"): "CompleteMultipartUpload",
    ("DELETE", "uploadId"): "AbortMultipartUpload",
    ("GET", "uploadId"): "ListParts",
    ("GET", "attributes"): "GetObjectAttributes",
    ("GET", "tagging"): "GetObjectTagging",
    ("PUT", "tagging"): "PutObjectTagging",
    ("DELETE", "tagging"): "DeleteObjectTagging",
    ("GET", "acl"): "GetObjectAcl",
    ("PUT", "acl"): "PutObjectAcl",
    ("PUT", "renameObject"): "RenameObject",
    ("GET", ""): "GetObject",
    ("HEAD", ""): "HeadObject",
    ("PUT", ""): "PutObject",
    ("POST", ""): "PostObject",
    ("DELETE", ""): "DeleteObject",
}
_ON_BUCKET = {
    ("POST", "delete"): "DeleteObjects",
    ("GET", "uploads"): "ListMultipartUploads",
    ("GET", "versions"): "ListObjectVersions",
    ("GET", "list-type"): "ListObjectsV2",
    ("GET", "location"): "GetBucketLocation",
    ("GET", "versioning"): "GetBucketVersioning",
    ("PUT", "versioning"): "PutBucketVersioning",
    ("GET", "lifecycle"): "GetBucketLifecycleConfiguration",
    ("PUT", "lifecycle"): "PutBucketLifecycleConfiguration",
    ("DELETE", "lifecycle"): "DeleteBucketLifecycle",
    ("GET", ""): "ListObjects",
    ("HEAD", ""): "HeadBucket",
    ("PUT", ""): "CreateBucket",
    ("DELETE", ""): "DeleteBucket",
}
_ON_SERVICE = {("GET", ""): "ListBuckets"}
_COPIES = {"PutObject": "CopyObject", "UploadPart": "UploadPartCopy"}


def s3_operation(method: str, path: str, query: str, headers: Mapping[str, str]) -> str:
    """Return the name of the S3 operation that a request asks for, as botocore's service model spells it.

    It is the HTTP method alone for a request that the table does not know. Path and query are raw, the query
    without its question mark; headers are looked up by lower-case name.
    """
    bucket, _, key = path.removeprefix("/").partition("/")
    table = _ON_OBJECT if key else _ON_BUCKET if bucket else _ON_SERVICE
    parameters = {parameter.partition("=")[0] for parameter in query.split("&")} | {""}
    for (its_method, parameter), operation in table.items():
        if its_method == method and parameter in parameters:
            return _COPIES.get(operation, operation) if "x-amz-copy-source" in headers else operation
    return method
