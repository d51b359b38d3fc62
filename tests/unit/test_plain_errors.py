"""One wrong line is answered by one screen, in words that lead to the line."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from s3fs import S3FileSystem

import magicfs
from magicfs.errors import MagicError, UsageError

SCREEN = 40
PLAIN = {"key": "k", "secret": "s"}
PLAIN_TABLE = pa.table({"n": [1, 2]})


def verify(url: str, **way: Any) -> object:
    return magicfs.Dataset(url, **way).verify()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"endpont_url": "http://h"}, "has no option 'endpont_url'; write endpoint_url"),
        ({"aws_access_key_id": "k"}, "has no option 'aws_access_key_id'; write key"),
        ({"region": "eu"}, "has no option 'region'; write client_kwargs={'region_name': …}"),
        ({"bogus": 1}, "has no option 'bogus'; it knows anon, "),
        ({"client_kwargs": {"regionname": "x"}}, "'regionname' in client_kwargs; write region_name"),
        ({"client_kwargs": "eu"}, "client_kwargs is str, not a dict"),
        ({"config_kwargs": {"max_pool_connection": 3}}, "write max_pool_connections"),
        ({"endpoint_url": "localhost:9000"}, "lacks a scheme; write 'http://localhost:9000' or 'https://"),
        ({"client_kwargs": {"endpoint_url": "h"}}, "endpoint_url='h' lacks a scheme"),
        ("http://localhost", "storage_options is str, not a dict"),
    ],
)
@pytest.mark.parametrize("call", [magicfs.Job, verify])
def test_wrong_options_are_named_before_any_request(
    call: Callable[..., Any], options: Any, told: str
) -> None:
    with pytest.raises(UsageError) as caught:
        call("s3://bucket/sales", storage_options=options)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (PLAIN, "no option 'key'; omit it, or use the URL of the store that has it; nothing was"),
        ({"endpoint_url": "http://127.0.0.1:9"}, "no option 'endpoint_url'; omit it"),
    ],
)
@pytest.mark.parametrize("call", [magicfs.Job, verify, partial(magicfs.write, PLAIN_TABLE)])
@pytest.mark.parametrize("kind", ["path", "file://", "memory://"])
def test_options_of_a_store_are_refused_for_files_and_for_memory(
    kind: str, call: Callable[..., Any], options: Any, told: str, tmp_path: Path
) -> None:
    url = {"path": f"{tmp_path}/sales", "file://": f"file://{tmp_path}/sales"}.get(kind, "memory://b/sales")
    with pytest.raises(UsageError) as caught:
        call(url, storage_options=options)
    assert told in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [{"auto_mkdir": False}, {"skip_instance_cache": True}, {}, None])
def test_options_that_files_take_are_taken(options: Any, tmp_path: Path) -> None:
    (tmp_path / "sales").mkdir()
    report = magicfs.write(PLAIN_TABLE, f"{tmp_path}/sales", storage_options=options)
    assert report.rows == PLAIN_TABLE.num_rows


def test_an_option_of_files_that_is_nearly_right_is_corrected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no option 'automkdir'; did you mean auto_mkdir"):
        magicfs.Job(str(tmp_path), storage_options={"automkdir": True})


def test_options_that_s3fs_takes_are_taken() -> None:
    options = {
        **PLAIN,
        "endpoint_url": "http://127.0.0.1:9",
        "client_kwargs": {"region_name": "eu", "verify": False},
        "config_kwargs": {"s3": {"addressing_style": "path"}, "connector_args": {"keepalive_timeout": 1}},
        "skip_instance_cache": True,
        "use_listings_cache": False,
        "profile": None,
    }
    assert isinstance(magicfs.Job("s3://bucket/sales", storage_options=options).spec.wrapped(), S3FileSystem)


def lines(error: BaseException) -> int:
    return len("".join(traceback.format_exception(error)).splitlines())


@pytest.mark.parametrize(
    "call",
    [
        lambda: magicfs.Dataset("memory://nowhere/sales").verify(),
        lambda: magicfs.Dataset("memory://nowhere/sales").recover(rollback=True),
        lambda: magicfs.MagicFileSystem(target_protocol="memory").cat_file("nowhere/x/__magic/y"),
    ],
)
def test_the_traceback_of_a_refusal_fits_one_screen_and_the_log_has_the_rest(
    call: Callable[[], object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "magicfs")
    with pytest.raises((MagicError, OSError)) as caught:
        call()
    assert lines(caught.value) <= SCREEN
    assert any(one.exc_info for one in caplog.records)


def test_a_cause_is_still_told_without_the_way_to_it() -> None:
    options = {**PLAIN, "endpoint_url": "http://127.0.0.1:9", "client_kwargs": {"region_name": "x"}}
    options["config_kwargs"] = {"retries": {"total_max_attempts": 1}}
    with pytest.raises(magicfs.errors.Unavailable, match="check that the endpoint is right") as caught:
        magicfs.Job("s3://bucket/sales", storage_options=options).setup()
    assert caught.value.__cause__ is not None
    assert lines(caught.value) <= SCREEN
