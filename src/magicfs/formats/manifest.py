"""The manifest of a published job: exactly which files it brought, and what it hid. ``magicfs.manifest/1``.

That of a job of very many files lists them in parts beside it, each of which it names with its SHA-256:
``magicfs.manifest-files/1``. So nobody has to hold all of it to write it, and it requires ``parts`` of its
readers. A sum of older manifests names the log of their jobs and runs, and requires ``log``.

Manifests form a chain, each naming the job published before it; the pointer names the newest.
``magicfs.manifests.chain`` says what a reader of the chain sees; ``docs/manifests.md`` describes every field.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Final, Literal, get_args

from magicfs.formats.audit import Audit
from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields
from magicfs.formats.limits import MANIFEST_SIZE_LIMIT, MANIFEST_VALUE_LIMIT, within
from magicfs.formats.log import LogFile
from magicfs.formats.record import COUNT, FLAG, JOB, TEXT, Record, child, choice, each, member, record

FILES_IN_PART: Final = 20_000
"""Most files of one part: some megabytes."""

Hides = Literal["nothing", "all", "keys"]


def _key(fields: Fields, key: str) -> str:
    found = fields.required_text(key)
    if any(element in {".", ".."} for element in found.split("/")):
        raise fields.error(key, "a '.' or '..' element, which leads out of the destination")
    return found


@record
class ManifestFile(Record):
    """One file of a job."""

    key: str = member(_key)  # relative to the destination
    size: int = member(COUNT)  # in bytes
    etag: str = member(Fields.text)  # as the store gave it, quotes included; empty if nobody saw it
    checksum: str | None = member(Fields.nullable_text, default=None)
    """Of the whole file, as ``algorithm:base64``."""
    write_id: str | None = member(Fields.nullable_text, default=None)
    """The upload's, in the object's metadata; None if it has none."""
    version: str | None = member(TEXT, default=None, rare=True)
    """Under which id the bucket keeps it; None if it keeps no versions."""
    rows: int | None = member(COUNT, default=None, rare=True)  # None if nobody counted them


def _files(fields: Fields, key: str) -> tuple[ManifestFile, ...]:
    files = []
    places: dict[str, int] = {}
    for place, one in enumerate(fields.objects(key)):
        file = ManifestFile.from_fields(one)
        if (first := places.setdefault(file.key, place)) != place:
            raise one.error("key", f"the same as that of files[{first}]")
        files.append(file)
    return tuple(files)


def _name(fields: Fields, key: str) -> str:
    name = fields.required_text(key)
    if "/" in name or name in {".", ".."}:
        raise fields.error(key, "no name of a file in the directory of the job")
    return name


@record
class FilesPart(Record):
    """Where a part of the files of a manifest is listed."""

    name: str = member(_name)  # of the file, in the directory beside the manifest that is called as its job
    sha256: str = member(TEXT)  # of its bytes
    files: int = member(COUNT)
    size: int = member(COUNT)  # bytes of these files


@record
class ManifestFiles(Record):
    """A part of the files of a manifest."""

    FORMAT: ClassVar = "magicfs.manifest-files/1"

    job_id: str = member(JOB)
    files: tuple[ManifestFile, ...] = member(_files)  # no two have the same key

    @classmethod
    def from_bytes(cls, path: str, raw: bytes, *, size_limit: int = MANIFEST_SIZE_LIMIT) -> ManifestFiles:
        document = parse(path, raw, size_limit=size_limit, value_limit=MANIFEST_VALUE_LIMIT)
        return cls.from_fields(Fields(path, document))

    def to_bytes(self) -> bytes:
        what = f"the list of {len(self.files):,} files of job {self.job_id}"
        return _written(self, what, "choose shorter names")


@record
class KeptFiles(Record):
    """The replaced files that a job leaves where they are for a time."""

    until_ms: int = member(COUNT)  # when the promise ends
    lists: tuple[FilesPart, ...] = member(each(FilesPart))
    """Where they are listed, with their ETags: ``magicfs.deletions/1``."""


@record
class Footers(Record):
    """What a manifest says of the footers of its files."""

    rows: int | None = member(COUNT, default=None, rare=True)
    """Of all files together; None if there is one whose rows are not known."""
    schemas: tuple[str, ...] = member(Fields.texts)  # fingerprints of the schemas that the files have
    lists: tuple[FilesPart, ...] = member(each(FilesPart))
    """Where the footers are: ``magicfs.footers/1``."""


def _previous(fields: Fields, key: str) -> str | None:
    found = fields.nullable_job_id(key)
    if found is not None and found == fields.text("jobId"):
        raise fields.error(key, "the job itself")
    return found


def _replaced(fields: Fields, key: str) -> str | None:
    found, hides = fields.nullable_job_id(key), fields.text("hides")
    if found is not None and hides != "all":
        raise fields.error(key, f"named, although the job hides {hides}")
    return found


def _requires(fields: Fields, name: str) -> bool:
    return name in fields.texts("requires")


def _parts(fields: Fields, key: str) -> tuple[FilesPart, ...]:
    parts = tuple(map(FilesPart.from_fields, fields.objects(key))) if _requires(fields, key) else None
    if parts == ():
        raise fields.error(key, "empty")
    return parts or ()


def _files_itself(fields: Fields, key: str) -> tuple[ManifestFile, ...]:
    return () if _requires(fields, "parts") else _files(fields, key)


def _log(fields: Fields, key: str) -> LogFile | None:
    return LogFile.from_fields(fields.required_child(key)) if _requires(fields, key) else None


@record
class Manifest(Record):
    """A published job. A value; once the pointer leads to it, it never changes again."""

    FORMAT: ClassVar = "magicfs.manifest/1"
    KNOWN: ClassVar = frozenset({"log", "parts"})

    job_id: str = member(JOB)
    run_id: str | None = member(Fields.nullable_text, default=None)
    bucket: str = member(Fields.bucket)  # where the destination lay
    destination: str = member(Fields.text)  # a key without a slash at its end; empty for a whole bucket
    mode: str = member(TEXT)
    """The mode; ``adopt`` for files that are older than the chain, ``compact`` for a sum of older
    manifests.
    """
    committed_ms: int = member(COUNT)  # when the job was published
    previous: str | None = member(_previous, default=None)  # the job published before it
    hides: Hides = member(partial(choice, get_args(Hides)), default="nothing", required=True)
    """``all`` hides what was there when the job looked, ``keys`` what ``deleted`` names."""
    replaced: str | None = member(_replaced, default=None)
    """With ``all``, the newest job that is hidden, all before it included."""
    deleted: tuple[str, ...] = member(Fields.texts, default=())
    """Keys, relative to the destination, that no older manifest brings any more."""
    partitions: tuple[str, ...] | None = member(Fields.texts, default=None)
    """Replaced ones, relative to the destination; None in other modes."""
    older_files: bool = member(FLAG, default=False)
    """Whether visible files were there that no manifest knows, when the chain began."""
    parts: tuple[FilesPart, ...] = member(_parts, default=(), required=True, rare=True)
    """Where the files are listed, if they are not listed in the manifest itself."""
    files: tuple[ManifestFile, ...] = member(_files_itself, default=(), required=True)
    """No two have the same key. Of one in parts those of its parts, or none if these were not read."""
    log: LogFile | None = member(_log, default=None, required=True, rare=True)
    """Where the log is that tells of the jobs of older manifests, in one that sums them up; else None."""
    object_settings: Mapping[str, str] = member(Fields.text_map, default_factory=dict, rare=True)
    """What all objects of the job bear, this one included."""
    kept: KeptFiles | None = member(child(KeptFiles), default=None, rare=True)
    """The replaced files that are kept; None if they were deleted."""
    restores: str | None = member(JOB, default=None, rare=True)
    """Of a rollback the job whose files it shows again; else None."""
    footers: Footers | None = member(child(Footers), default=None, rare=True)
    """Of a job that kept its files' footers; else None."""
    audit: Audit | None = member(child(Audit), default=None, rare=True)
    """What its audit said before it was published; None without one."""
    follows: tuple[str, ...] = member(Fields.texts, default=(), rare=True)
    """The keys of extensions that are asked after every later publication, too."""

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

    def needs(self) -> list[str]:
        return [name for name, used in (("log", self.log), ("parts", self.parts)) if used]

    def to_document(self) -> dict[str, object]:
        document = Record.to_document(self)
        if self.parts:
            del document["files"]
        return document

    def to_bytes(self) -> bytes:
        what = f"the manifest of {len(self.files):,} files of job {self.job_id}"
        return _written(self, what, "publish fewer or larger files by each job")


def _written(one: Record, what: str, advice: str) -> bytes:
    raw = render(one.to_document())
    return within(raw, MANIFEST_SIZE_LIMIT, what, advice, value_limit=MANIFEST_VALUE_LIMIT)
