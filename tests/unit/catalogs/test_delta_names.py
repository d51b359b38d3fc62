"""Directories that Polars does not find in a Delta table are named when the table gains their files."""

from __future__ import annotations

import pytest

from magicfs.catalogs.delta_place import warn_of_names
from magicfs.stores.resolve import location_of


@pytest.mark.parametrize("value", ["x y", "ü", "a<b", "a>b", "a`b", "a}b", "2026-01-01 10%3A00%3A00"])
def test_directory_whose_name_is_encoded_is_named(value: str, caplog: pytest.LogCaptureFixture) -> None:
    location = location_of("s3://bucket/sales")
    warn_of_names(location, ["day=xy/part.parquet", f"day={value}/part.parquet"])
    [record] = caplog.records
    assert f"files below day={value} in" in record.getMessage()
    assert record.levelname == "WARNING"


def test_what_is_looked_for_is_told(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_names(location_of("s3://bucket/sales"), ["day=ü 50%25/part.parquet"])
    assert "looks for day=%C3%BC%2050%25/part.parquet; use" in caplog.text
    assert "magicfs.Dataset('s3://bucket/sales').to_arrow()" in caplog.text


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("s3://bucket/ü b", "day=a%2Fb/part.parquet"),
        ("s3://bucket/sales", "day=a|b~c+d&e;f@g,h!$()/part.parquet"),
        ("file:///tmp/sales", "day=x y/part.parquet"),
    ],
)
def test_what_polars_finds_is_not_told(url: str, key: str, caplog: pytest.LogCaptureFixture) -> None:
    warn_of_names(location_of(url), [key])
    assert not caplog.records
