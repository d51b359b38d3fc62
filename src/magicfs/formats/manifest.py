"""The manifest of a published job: exactly which files it brought, and what it hid. ``magicfs.manifest/1``.

That of a job of very many files lists them in parts beside it, each of which it names with its SHA-256:
``magicfs.manifest-files/1``. So nobody has to hold all of it to write it, and it requires ``parts`` of its
readers. A sum of older manifests names the log of their jobs and runs, and requires ``log``.

Manifests form a chain, each naming the job published before it; the pointer names the newest.
``magicfs.manifests.chain`` says what a reader of the chain sees; ``docs/manifests.md`` describes every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast, get_args

from magicfs.formats.audit import Audit
from magicfs.formats.document import parse, render, with_unknown
from magicfs.formats.fields import Fields, check_format, heading
from magicfs.formats.limits import MANIFEST_SIZE_LIMIT, MANIFEST_VALUE_LIMIT, within
from magicfs.formats.log import LogFile

__all__ = [
    "FILES_IN_PART",
    "MANIFEST_FILES_FORMAT",
    "MANIFEST_FORMAT",
    "MANIFEST_SIZE_LIMIT",
    "FilesPart",
    "Footers",
    "Hides",
    "KeptFiles",
    "Manifest",
    "ManifestFile",
    "ManifestFiles",
]

MANIFEST_FORMAT: Final = "magicfs.manifest/1"
MANIFEST_FILES_FORMAT: Final = "magicfs.manifest-files/1"

FILES_IN_PART: Final = 20_000
"""Most files of one part: some megabytes."""

Hides = Literal["nothing", "all", "keys"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """One file of a job."""

    key: str  # relative to the destination
    size: int  # in bytes
    etag: str  # as the store gave it, quotes included; empty if nobody saw it
    version: str | None = None
    """Under which id the bucket keeps it; None if it keeps no versions, and then the field is left out."""
    checksum: str | None = None  # of the whole file, as ``algorithm:base64``
    write_id: str | None = None  # the upload's, in the object's metadata; None if it has none
    rows: int | None = None  # how many rows; None if nobody counted them, and then the field is left out
    unknown: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesPart:
    """Where a part of the files of a manifest is listed."""

    name: str  # of the file, in the directory beside the manifest that is called as its job
    sha256: str  # of its bytes
    files: int
    size: int  # bytes of these files
    unknown: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFiles:
    """A part of the files of a manifest."""

    job_id: str
    files: tuple[ManifestFile, ...]  # no two have the same key
    unknown: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = MANIFEST_SIZE_LIMIT) -> ManifestFiles:
        document = parse(path, raw, size_limit=size_limit, value_limit=MANIFEST_VALUE_LIMIT)
        fields = Fields(path, document)
        check_format(fields, MANIFEST_FILES_FORMAT)
        return cls(job_id=fields.required_job_id(), files=_files(fields), unknown=fields.rest())

    def to_bytes(self) -> bytes:
        """The whole file, one line."""
        document: dict[str, object] = {
            "format": MANIFEST_FILES_FORMAT,
            "jobId": self.job_id,
            "files": [_document(file) for file in self.files],
        }
        raw = render(with_unknown(document, self.unknown))
        what = f"the list of {len(self.files):,} files of job {self.job_id}"
        return within(
            raw, MANIFEST_SIZE_LIMIT, what, "choose shorter names", value_limit=MANIFEST_VALUE_LIMIT
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """The replaced files that a job leaves where they are for a time."""

    until_ms: int  # when the promise ends
    lists: tuple[FilesPart, ...]
    """Where they are listed, with their ETags: ``magicfs.deletions/1``."""
    unknown: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Footers:
    """What a manifest says of the footers of its files."""

    rows: int | None  # of all files together; None if there is one whose rows are not known
    schemas: tuple[str, ...]  # fingerprints of the schemas that the files have
    lists: tuple[FilesPart, ...]
    """Where the footers are: ``magicfs.footers/1``."""
    unknown: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A published job. A value; once the pointer leads to it, it never changes again."""

    job_id: str
    run_id: str | None = None
    bucket: str  # where the destination lay
    destination: str  # a key without a slash at its end; empty for a whole bucket
    mode: str
    """The mode; ``adopt`` for files that are older than the chain, ``compact`` for a sum of older
    manifests.
    """
    committed_ms: int  # when the job was published
    previous: str | None = None  # the job published before it
    hides: Hides = "nothing"
    """``all`` hides what was there when the job looked, ``keys`` what ``deleted`` names."""
    replaced: str | None = None  # with ``all``, the newest job that is hidden, all before it included
    deleted: tuple[str, ...] = ()  # keys, relative to the destination, that no older manifest brings any more
    partitions: tuple[str, ...] | None = None
    """Replaced ones, relative to the destination; None in other modes."""
    older_files: bool = False
    """Whether visible files were there that no manifest knows, when the chain began."""
    files: tuple[ManifestFile, ...] = ()
    """No two have the same key. Of one in parts those of its parts, or none if these were not read."""
    parts: tuple[FilesPart, ...] = ()
    """Where the files are listed, if they are not listed in the manifest itself."""
    log: LogFile | None = None
    """Where the log is that tells of the jobs of older manifests, in one that sums them up; else None."""
    object_settings: Mapping[str, str] = field(default_factory=dict)
    """What all objects of the job bear, this one included; the field is left out if empty."""
    kept: KeptFiles | None = None
    """The replaced files that are kept; None if they were deleted, and then the field is left out."""
    restores: str | None = None
    """Of a rollback the job whose files it shows again; else None, and then the field is left out."""
    footers: Footers | None = None
    """Of a job that kept its files' footers; else None, and then the field is left out."""
    audit: Audit | None = None
    """What its audit said before it was published; None without one, and then the field is left out."""
    unknown: Mapping[str, object] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many files it lists."""
        return sum(part.files for part in self.parts) if self.parts else len(self.files)

    @property
    def size(self) -> int:
        """Their bytes."""
        return sum(one.size for one in self.parts or self.files)

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = MANIFEST_SIZE_LIMIT) -> Manifest:
        document = parse(path, raw, size_limit=size_limit, value_limit=MANIFEST_VALUE_LIMIT)
        return cls.from_fields(Fields(path, document))

    @classmethod
    def from_fields(cls, fields: Fields) -> Manifest:
        requires = check_format(fields, MANIFEST_FORMAT, {"log", "parts"})
        log = LogFile.from_fields(fields.required_child("log")) if "log" in requires else None
        parts = _parts(fields) if "parts" in requires else ()
        hides, replaced = _hides(fields)
        job, previous = fields.required_job_id(), fields.nullable_job_id("previous")
        if job == previous:
            raise fields.error("previous", "the job itself")
        return cls(
            job_id=job,
            run_id=fields.nullable_text("runId"),
            bucket=fields.bucket(),
            destination=fields.text("destination"),
            mode=fields.required_text("mode"),
            committed_ms=fields.required_integer("committed", minimum=0),
            previous=previous,
            hides=hides,
            replaced=replaced,
            deleted=fields.texts("deleted"),
            partitions=fields.texts("partitions") if fields.has("partitions") else None,
            older_files=fields.flag("olderFiles", default=False),
            files=() if parts else _files(fields),
            parts=parts,
            log=log,
            object_settings=fields.text_map("objectSettings"),
            kept=fields.optional("kept", _kept),
            restores=fields.nullable_job_id("restores"),
            footers=fields.optional("footers", _footers),
            audit=fields.optional("audit", Audit.from_fields),
            unknown=fields.rest(),
        )

    def to_bytes(self) -> bytes:
        """The whole file, one line."""
        needs = [name for name, used in (("log", self.log), ("parts", self.parts)) if used]
        document: dict[str, object] = {
            **heading(MANIFEST_FORMAT, needs),
            "jobId": self.job_id,
            "runId": self.run_id,
            "bucket": self.bucket,
            "destination": self.destination,
            "mode": self.mode,
            "committed": self.committed_ms,
            "previous": self.previous,
            "hides": self.hides,
            "replaced": self.replaced,
            "deleted": self.deleted,
            "partitions": self.partitions,
            "olderFiles": self.older_files,
        }
        if self.parts:
            document["parts"] = [_part_document(part) for part in self.parts]
        else:
            document["files"] = [_document(file) for file in self.files]
        document |= self._special()
        raw = render(with_unknown(document, self.unknown))
        what = f"the manifest of {len(self.files):,} files of job {self.job_id}"
        advice = "publish fewer or larger files by each job"
        return within(raw, MANIFEST_SIZE_LIMIT, what, advice, value_limit=MANIFEST_VALUE_LIMIT)

    def _special(self) -> dict[str, object]:
        """What only some manifests have; the fields of the others are left out."""
        special = {
            "log": self.log and self.log.to_document(),
            "objectSettings": self.object_settings,
            "kept": self.kept and _kept_document(self.kept),
            "restores": self.restores,
            "footers": self.footers and _footers_document(self.footers),
            "audit": self.audit and self.audit.to_document(),
        }
        return {name: value for name, value in special.items() if value}


def _parts(fields: Fields) -> tuple[FilesPart, ...]:
    parts = tuple(map(_part, fields.objects("parts")))
    if not parts:
        raise fields.error("parts", "empty")
    return parts


def _hides(fields: Fields) -> tuple[Hides, str | None]:
    hides = fields.required_text("hides")
    if hides not in get_args(Hides):
        raise fields.error("hides", f"none of {', '.join(get_args(Hides))}")
    replaced = fields.nullable_job_id("replaced")
    if replaced is not None and hides != "all":
        raise fields.error("replaced", f"named, although the job hides {hides}")
    return cast("Hides", hides), replaced


def _document(file: ManifestFile) -> dict[str, object]:
    document: dict[str, object] = {
        "key": file.key,
        "size": file.size,
        "etag": file.etag,
        "checksum": file.checksum,
        "writeId": file.write_id,
    }
    if file.version is not None:
        document["version"] = file.version
    if file.rows is not None:
        document["rows"] = file.rows
    return with_unknown(document, file.unknown)


def _part_document(part: FilesPart) -> dict[str, object]:
    document: dict[str, object] = {
        "name": part.name,
        "sha256": part.sha256,
        "files": part.files,
        "size": part.size,
    }
    return with_unknown(document, part.unknown)


def _kept(fields: Fields) -> KeptFiles:
    return KeptFiles(
        until_ms=fields.required_integer("until", minimum=0),
        lists=tuple(map(_part, fields.objects("lists"))),
        unknown=fields.rest(),
    )


def _kept_document(kept: KeptFiles) -> dict[str, object]:
    document: dict[str, object] = {
        "until": kept.until_ms,
        "lists": [_part_document(one) for one in kept.lists],
    }
    return with_unknown(document, kept.unknown)


def _footers(fields: Fields) -> Footers:
    return Footers(
        rows=fields.required_integer("rows", minimum=0) if fields.has("rows") else None,
        schemas=fields.texts("schemas"),
        lists=tuple(map(_part, fields.objects("lists"))),
        unknown=fields.rest(),
    )


def _footers_document(footers: Footers) -> dict[str, object]:
    document: dict[str, object] = {} if footers.rows is None else {"rows": footers.rows}
    document |= {"schemas": footers.schemas, "lists": [_part_document(one) for one in footers.lists]}
    return with_unknown(document, footers.unknown)


def _part(fields: Fields) -> FilesPart:
    name = fields.required_text("name")
    if "/" in name or name in {".", ".."}:
        raise fields.error("name", "no name of a file in the directory of the job")
    return FilesPart(
        name=name,
        sha256=fields.required_text("sha256"),
        files=fields.required_integer("files", minimum=0),
        size=fields.required_integer("size", minimum=0),
        unknown=fields.rest(),
    )


def _files(fields: Fields) -> tuple[ManifestFile, ...]:
    files = []
    places: dict[str, int] = {}
    for place, one in enumerate(fields.objects("files")):
        key = one.required_text("key")
        if (problem := _problem(key)) is not None:
            raise one.error("key", problem)
        if (first := places.setdefault(key, place)) != place:
            raise one.error("key", f"the same as that of files[{first}]")
        files.append(
            ManifestFile(
                key=key,
                size=one.required_integer("size", minimum=0),
                etag=one.text("etag"),
                version=one.required_text("version") if one.has("version") else None,
                checksum=one.nullable_text("checksum"),
                write_id=one.nullable_text("writeId"),
                rows=one.required_integer("rows", minimum=0) if one.has("rows") else None,
                unknown=one.rest(),
            )
        )
    return tuple(files)


def _problem(key: str) -> str | None:
    """Why nobody should look for a key below a destination."""
    if any(element in {".", ".."} for element in key.split("/")):
        return "a '.' or '..' element, which leads out of the destination"
    return None
