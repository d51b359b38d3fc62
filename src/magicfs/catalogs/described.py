"""Catalogs that are found again by their names: by another process, with connections of its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from shlex import quote

from magicfs.catalogs.deadline import ANSWER_S, CONNECT_S, ask_within, within
from magicfs.catalogs.delta import Delta
from magicfs.catalogs.ducklake import DuckLake
from magicfs.catalogs.glue import Glue
from magicfs.catalogs.hive import Hive
from magicfs.catalogs.iceberg import Iceberg
from magicfs.catalogs.port import Catalog
from magicfs.catalogs.recorded import metastore_of
from magicfs.catalogs.symlinks import SymlinkManifest
from magicfs.errors import UsageError
from magicfs.formats.registration import Registration


def check_own(one: Registration, metastores: Collection[str] = ()) -> None:
    """Raise UsageError if this process is not configured for the catalog that a record names.

    ``metastores``: addresses of metastores of Hive that are its own, too. Nothing is sent.
    Catalogs of other kinds are found by their names in the configuration, never by an address in a record.
    """
    if one.options is None:
        raise UsageError("only the program that holds its connection can register it")
    if one.catalog != "hive":
        return
    uri = one.options["uri"]
    if metastore_of(uri) not in {metastore_of(own) for own in (*metastores, *_configured_metastores())}:
        raise UsageError(
            f"this process is not configured for the metastore {uri}, so magicfs did not connect to it; "
            f"nothing was changed; if you trust it, name it: --metastore {quote(uri)}"
        )


def catalog_of(one: Registration, metastores: Collection[str] = ()) -> Catalog:
    """The catalog that a job meant.

    Raises UsageError if this process is not configured for it, or finds another one under its name.
    """
    check_own(one, metastores)
    options = one.options or {}
    match one.catalog:
        case "delta":
            return Delta()
        case "symlink":
            return SymlinkManifest()
        case "hive":
            return hive_named(one.table, options["uri"], exact=options["exact"] == "true")
        case "glue":
            found: Iceberg | Glue = glue_named(one.table, exact=options["exact"] == "true")
        case _:
            found = iceberg_named(one.table, options["catalog"])
    if found.options() != options:
        raise UsageError(
            f"the {one.catalog} catalog that this process is configured for is not the one that job "
            f"{one.job_id} meant; nothing was changed; run this where that catalog is configured"
        )
    return found


def line_of(url: str, one: Registration) -> str:
    """What registers a table of which ``catalogs.recorded.differs`` finds nothing wrong.

    It is made from the kind, the table and the address: what a record says in ``line`` is never repeated.
    """
    options = one.options or {}
    database, _, name = one.table.partition(".")
    match one.catalog:
        case "delta":
            return Delta(None if one.options is not None else {}).line(url)
        case "symlink":
            return SymlinkManifest().line(url)
        case "iceberg":
            return Iceberg(_Named(options.get("catalog", "")), one.table).line(url)
        case "glue":
            return Glue(None, database, name, exact=options.get("exact") != "false").line(url)
        case "hive":
            return Hive(options["uri"], database, name, exact=options["exact"] == "true").line(url)
        case _:
            schema, _, name = name.partition(".")
            return DuckLake(None, database, name, schema).line(url)


@dataclass(frozen=True, slots=True)
class _Named:
    """A catalog of PyIceberg of which only the name is known."""

    name: str


def iceberg_named(table: str, name: str) -> Iceberg:
    """A table of the catalog of this name in the configuration of PyIceberg."""
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise UsageError("iceberg needs pyiceberg; pip install 'magicfs[iceberg]'") from error
    try:
        catalog = within(ANSWER_S, name, lambda: load_catalog(name))
    except ValueError as error:
        raise UsageError(
            f"pyiceberg has no catalog {name!r} ({error}); describe it in .pyiceberg.yaml"
        ) from error
    ask_within(getattr(catalog, "_session", None))
    return Iceberg(catalog, table)


def glue_named(table: str, *, exact: bool = True) -> Glue:
    """A table of Glue, by a client that takes region and credentials from the environment."""
    database, name = _database_and_name(table, "Glue")
    try:
        import botocore.session
        from botocore.config import Config
    except ImportError as error:
        raise UsageError("glue needs botocore; pip install 'magicfs[s3]'") from error
    config = Config(connect_timeout=CONNECT_S, read_timeout=ANSWER_S, retries={"total_max_attempts": 3})
    try:
        client = botocore.session.get_session().create_client("glue", config=config)
    except botocore.exceptions.NoRegionError as error:
        raise UsageError("glue needs a region; set AWS_DEFAULT_REGION") from error
    return Glue(client, database, name, exact=exact)


def hive_named(table: str, uri: str | None, *, exact: bool = False) -> Hive:
    """A table of the metastore of Hive at an address."""
    if uri is None:
        raise UsageError("hive needs the address of its metastore: --metastore thrift://host:9083")
    return Hive(uri, *_database_and_name(table, "Hive"), exact=exact)


def _database_and_name(table: str, keeper: str) -> tuple[str, str]:
    database, dot, name = table.partition(".")
    if not (database and dot and name):
        raise UsageError(f"--table {table!r} does not name a database of {keeper}; write it as db.sales")
    return database, name


def _configured_metastores() -> list[str]:
    """The addresses of metastores in the configuration of PyIceberg, files and environment."""
    try:
        from pyiceberg.utils.config import Config
    except ImportError:
        return []
    config = Config()
    found = [(config.get_catalog_config(name) or {}).get("uri") for name in config.get_known_catalogs()]
    return [uri for uri in found if isinstance(uri, str)]
