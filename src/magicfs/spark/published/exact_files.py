"""The files of a snapshot for Spark's own Parquet reader.

Spark finds the files of a frame by an index, which lists directories, and looks into a cache of listings
first. So we fill the cache: its one entry says that the directory of the dataset has the files of the
snapshot, no others. They go to the JVM at once, as Hadoop serializes a ``FileStatus``: the length, then a
message of protocol buffers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql.types import StructType

from magicfs.datasets.connection import Destination
from magicfs.formats.manifest import ManifestFile
from magicfs.protocol.final_names import job_named
from magicfs.spark.published import directories, snapshot
from magicfs.spark.published import schema as schemas
from magicfs.spark.published.options import ReadOptions

if TYPE_CHECKING:
    from fsspec.spec import AbstractFileSystem
    from py4j.java_gateway import JavaGateway, JavaObject, JVMView
    from pyspark.sql import DataFrame, SparkSession

_CONNECTORS: Final = {"s3": "s3a", "s3a": "s3a", "gs": "gs", "gcs": "gs"} | dict.fromkeys(
    ("abfs", "abfss", "az"), "abfss"
)
"""Schemes of ours, and of Hadoop's connectors for them."""
_READ_BY_BOTH: Final = (
    pa.types.is_boolean,
    pa.types.is_signed_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_date32,
    pa.types.is_decimal128,
)
_AS_ARROW_READS: Final = {"datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED"}
_BLOCK: Final = 128 * 2**20
_MODE: Final = 0o644


class Unsuitable(Exception):
    """Spark's own reader cannot read this dataset, or could read it otherwise than ours."""


def frame(
    session: SparkSession,
    destination: Destination,
    found: Mapping[str, ManifestFile],
    options: ReadOptions,
    is_past: bool,
) -> DataFrame:
    """A frame of exactly these files, of now or of the past.

    Raises Unsuitable, and UsageError for columns that are not there.
    """
    if not hasattr(session, "_jsparkSession"):
        raise Unsuitable("the session is a client of Spark Connect")
    _check_names(found, is_past)
    root = _root(session, destination)
    looked_at = snapshot.schemas_of_jobs(destination, found, options)
    _check_types(looked_at)
    every = snapshot.columns(destination, found, replace(options, columns=()), looked_at)
    wanted = schemas.chosen(every, options.columns).fieldNames()
    try:
        made = _Frames(session).frame(root, found, every)
    except Py4JError as error:
        raise Unsuitable(f"the JVM does not read it: {str(error).strip().partition(chr(10))[0]}") from error
    made = made.select(*["`" + one.replace("`", "``") + "`" for one in wanted])
    rows = [one.rows for one in found.values()]
    if None not in rows:
        made.count = partial(sum, rows)
    return made


def _check_names(found: Mapping[str, ManifestFile], is_past: bool) -> None:
    if not found:
        raise Unsuitable("there are no files")
    for key, file in found.items():
        *directories, name = key.split("/")
        if not name.lower().endswith(".parquet"):
            raise Unsuitable(f"{key!r} does not have the name of a Parquet file")
        if "" in directories:
            raise Unsuitable(f"{key!r} has an empty element, which Hadoop leaves out")
        if job_named(name) is None:
            raise Unsuitable(f"{key!r} does not name its job, so it could be overwritten")
        if file.key != key:
            raise Unsuitable(f"{key!r} was replaced, and was moved aside")
        if is_past and file.version:
            raise Unsuitable(f"{key!r} may exist only as an earlier version")


def _check_types(looked_at: Mapping[str, pa.Schema]) -> None:
    """All files that were looked at must agree, in types that Spark reads from Parquet as Arrow does."""
    types: dict[str, pa.DataType] = {}
    for schema in looked_at.values():
        for field in schema:
            if not _reads_alike(field.type):
                raise Unsuitable(f"column {field.name!r} has the type {field.type}")
            if types.setdefault(field.name.lower(), field.type) != field.type:
                raise Unsuitable(f"column {field.name!r} has different types in different files")


def _reads_alike(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.unit in {"ms", "us"}
    if pa.types.is_dictionary(kind):
        return _reads_alike(kind.value_type)
    if pa.types.is_nested(kind) and not pa.types.is_union(kind):
        return all(_reads_alike(kind.field(number).type) for number in range(kind.num_fields))
    return any(one(kind) for one in _READ_BY_BOTH)


def _root(session: SparkSession, destination: Destination) -> str:
    """The dataset as Hadoop names it."""
    location = destination.location
    if getattr(destination.filesystem, "local_file", False):
        return f"file://{location.path}"
    scheme = _CONNECTORS.get(location.scheme)
    if scheme == "abfss":
        account = getattr(destination.filesystem, "account_name", None)
        return f"abfss://{location.bucket}@{account}.dfs.core.windows.net/{location.key}"
    if scheme is None:
        raise Unsuitable(f"Spark has no connector for {location.scheme}://")
    if scheme == "s3a":
        conf = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
        theirs = conf.get(f"fs.s3a.bucket.{location.bucket}.endpoint") or conf.get("fs.s3a.endpoint") or ""
        if _host(theirs) != _host(_endpoint(destination.filesystem)):
            raise Unsuitable("fs.s3a.endpoint is not the endpoint of this dataset")
    return f"{scheme}://{location.path}"


def _endpoint(filesystem: AbstractFileSystem) -> str:
    given = getattr(filesystem, "endpoint_url", None) or filesystem.client_kwargs.get("endpoint_url")
    return given or ""


def _host(endpoint: str) -> str:
    """Of an endpoint with a scheme or without; empty for Amazon's own, in which regions differ alone."""
    host = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}").netloc
    return "" if host.endswith(".amazonaws.com") else host


class _Frames:
    """What of Spark's own JVM makes a frame."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._spark: JavaObject = session._jsparkSession  # noqa: SLF001
        self._jvm: JVMView = session._jvm  # noqa: SLF001
        self._sources = self._jvm.org.apache.spark.sql.execution.datasources
        self._python = self._jvm.org.apache.spark.api.python.PythonUtils

    def frame(self, root: str, found: Mapping[str, ManifestFile], every: StructType) -> DataFrame:
        from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

        key, file = next(iter(found.items()))
        self._check_there(f"{root}/{key}", file)
        names = list(directories.values_of([key])[key])
        taken = {one.lower() for one in names}
        partitions = [one for one in every.fields if one.name.lower() in taken]
        data = self._type(StructType([one for one in every.fields if one.name.lower() not in taken]))
        index = self._index(root, found, self._type(every), bool(names))
        nothing = self._jvm.scala.Option.apply(None)
        relation = self._sources.HadoopFsRelation(
            index,
            self._type(StructType(partitions)),
            data,
            nothing,
            self._sources.parquet.ParquetFileFormat(),
            self._python.toScalaMap(dict(_AS_ARROW_READS)),
            self._spark,
        )
        return ClassicFrame(self._spark.baseRelationToDataFrame(relation), self._session)

    def _type(self, kind: StructType) -> JavaObject:
        return self._jvm.org.apache.spark.sql.types.DataType.fromJson(kind.json())

    def _check_there(self, path: str, file: ManifestFile) -> None:
        """The JVM must see the same file: of this size, and with this ETag if its connector has ETags."""
        hadoop = self._jvm.org.apache.hadoop.fs.Path(path)
        status = hadoop.getFileSystem(self._spark.sessionState().newHadoopConf()).getFileStatus(hadoop)
        has_etag = self._jvm.java.lang.Class.forName("org.apache.hadoop.fs.EtagSource")
        etag = status.getEtag() if has_etag.isInstance(status) else None
        if status.getLen() != file.size or (etag and file.etag and etag.strip('"') != file.etag.strip('"')):
            raise Unsuitable(f"the JVM sees another file at {path}")

    def _index(
        self, root: str, found: Mapping[str, ManifestFile], every: JavaObject, has_partitions: bool
    ) -> JavaObject:
        cache = self._sources.FileStatusCache.getOrCreate(self._spark)
        path = self._jvm.org.apache.hadoop.fs.Path(root)
        cache.putLeafFiles(path, self._statuses([(f"{root}/{key}", one.size) for key, one in found.items()]))
        if not cache.getLeafFiles(path).isDefined():
            raise Unsuitable("Spark's cache of listings does not hold so many files")
        how = {"basePath": root} if has_partitions else {"recursiveFileLookup": "true"}
        some = self._jvm.scala.Option.apply
        index = self._sources.InMemoryFileIndex(
            self._spark,
            self._python.toSeq([path]),
            self._python.toScalaMap(how),
            some(every),
            cache,
            some(None),
            some(None),
        )
        folders = len({key.rpartition("/")[0] for key in found}) if has_partitions else 0
        if index.allFiles().size() != len(found) or index.partitionSpec().partitions().size() != folders:
            raise Unsuitable("Spark does not see the files and partitions of the manifests")
        if index.sizeInBytes() != sum(one.size for one in found.values()):
            raise Unsuitable("Spark has listed the directory itself")
        return index

    def _statuses(self, listed: Sequence[tuple[str, int]]) -> JavaObject:
        raw = struct.pack(">i", len(listed)) + b"".join(_status(path, size) for path, size in listed)
        status = self._jvm.java.lang.Class.forName("org.apache.hadoop.fs.FileStatus")
        read = self._jvm.org.apache.hadoop.io.ArrayWritable(status)
        read.readFields(self._jvm.java.io.DataInputStream(self._jvm.java.io.ByteArrayInputStream(raw)))
        gateway: JavaGateway = self._session.sparkContext._gateway  # noqa: SLF001
        array = gateway.new_array(self._jvm.org.apache.hadoop.fs.FileStatus, len(listed))
        self._jvm.java.lang.System.arraycopy(read.get(), 0, array, 0, len(listed))
        return array


def _status(path: str, size: int) -> bytes:
    """A file as Hadoop's ``FileStatus`` writes itself: ``FileStatusProto`` behind its length."""
    name = path.encode()
    mode = b"\x08" + _varint(_MODE)
    body = b"".join(
        (
            b"\x08\x02",  # fileType: FT_FILE
            b"\x12" + _varint(len(name)) + name,
            b"\x18" + _varint(size),
            b"\x22" + _varint(len(mode)) + mode,
            b"\x38\x00",  # modification_time
            b"\x50\x01",  # block_replication
            b"\x58" + _varint(_BLOCK),
        )
    )
    return struct.pack(">i", len(body)) + body


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
