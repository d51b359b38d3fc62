from __future__ import annotations

import pytest

from magicfs.testing.s3_operations import s3_operation


@pytest.mark.parametrize(
    ("request_line", "operation"),
    [
        ("GET /", "ListBuckets"),
        ("PUT /b", "CreateBucket"),
        ("PUT /b/", "CreateBucket"),
        ("HEAD /b", "HeadBucket"),
        ("GET /b?list-type=2&prefix=uploads", "ListObjectsV2"),
        ("GET /b?prefix=x", "ListObjects"),
        ("GET /b?uploads&prefix=list-type", "ListMultipartUploads"),
        ("POST /b?delete", "DeleteObjects"),
        ("PUT /b/k", "PutObject"),
        ("PUT /b/k?x-id=PutObject", "PutObject"),
        ("PUT /b//k", "PutObject"),
        ("GET /b/uploads", "GetObject"),
        ("DELETE /b/k", "DeleteObject"),
        ("POST /b/k?uploads", "CreateMultipartUpload"),
        ("PUT /b/k?partNumber=1&uploadId=u", "UploadPart"),
        ("GET /b/k?uploadId=u", "ListParts"),
        ("POST /b/k?uploadId=u", "CompleteMultipartUpload"),
        ("DELETE /b/k?uploadId=u", "AbortMultipartUpload"),
        ("PATCH /b/k", "PATCH"),
    ],
)
def test_operations_have_their_names(request_line: str, operation: str) -> None:
    method, _, target = request_line.partition(" ")
    path, _, query = target.partition("?")
    assert s3_operation(method, path, query, {}) == operation


def test_a_header_tells_copies_from_puts() -> None:
    headers = {"x-amz-copy-source": "/b/a"}
    assert s3_operation("PUT", "/b/k", "", headers) == "CopyObject"
    assert s3_operation("PUT", "/b/k", "partNumber=1&uploadId=u", headers) == "UploadPartCopy"
