"""The record of a release. ``magicfs.release/1``.

::

    RELEASE/_magicfs/.release.json

One object has all releases that are kept, the newest last, so that one compare-and-swap moves all datasets at
once. Anybody who may write there may write anything, so every field is checked, and a URL in it is believed
only as far as ``magicfs.releases.reading`` says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from magicfs.errors import FormatError, UsageError
from magicfs.formats.document import parse, render, with_unknown
from magicfs.formats.fields import Fields, check_format
from magicfs.formats.limits import within
from magicfs.formats.rows import ITSELF, MOMENT_MAX_MS, SHOWN, Row
from magicfs.protocol import paths
from magicfs.protocol.modes import MANIFESTS
from magicfs.protocol.paths import Location

RELEASE_FORMAT: Final = "magicfs.release/1"
NAME: Final = ".release"
RELEASE_SIZE_LIMIT: Final = 16 * 1024**2
MEMBERS_MAX: Final = 1000
HOLD: Final = re.compile(r"release-[0-9a-f]{16}-[0-9a-f]{12}-[0-9a-f]{8}")
"""The name of what keeps the files of a publication: of the release, when it began, and random digits."""
_ID: Final = re.compile(r"[0-9a-f]{32}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_NAME_LENGTH_MAX: Final = 200
_ADVICE: Final = "expire older releases first: magicfs release URL expire --keep 30d"
ROWS: Final[Mapping[str, tuple[Row, ...]]] = {
    "release": (
        Row("nonce", ITSELF),
        Row("changed", SHOWN),
        Row("sweeps", "nothing: says when to look for holds that no release names"),
        Row("tags.*", "the ids of the same record"),
        Row("releases[].id", "32 hexadecimal digits, each once"),
        Row("releases[].number", "above that of the release before it"),
        Row("releases[].published", "a moment before the year 10000"),
        Row("releases[].runId", "the run id of a new release, which is then not published again"),
        Row("releases[].restores", SHOWN),
        Row(
            "releases[].datasets.*.url", "the URL or the buckets of the caller", by="releases.reading.job_in"
        ),
        Row("releases[].datasets.*.jobId", "a job of that dataset", by="releases.reading.job_in"),
        Row("releases[].datasets.*.manifest", "the job's manifest, read again", by="releases.reading.job_in"),
        Row("releases[].datasets.*.hold", "the names that releases give to holds"),
    )
}
"""What each field is compared with before anything is done by its word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A publication of a dataset, as a release shows it."""

    name: str  # of the dataset in the release
    url: str  # of the dataset
    job_id: str  # what readers see is the dataset as of this job
    manifest: str  # the SHA-256 of the job's manifest
    hold: str  # what keeps the files at the dataset

    @property
    def location(self) -> Location:
        """Where the dataset is."""
        return paths.parse_url(self.url)


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A release."""

    id: str
    number: int  # for people: each is one more
    published_ms: int
    members: tuple[Member, ...]  # sorted by their names
    run_id: str | None = None
    restores: str | None = None  # the older release that it shows again

    def member(self, name: str) -> Member | None:
        """The dataset of a name."""
        return next((one for one in self.members if one.name == name), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """All releases that are kept. A value: every move makes a new one."""

    nonce: str = ""  # another one in every version, so that a writer recognises its own
    changed_ms: int = 0
    sweeps: int = 0  # how often holds that no release names were looked for
    releases: tuple[Released, ...] = ()  # the newest last
    tags: Mapping[str, str] = field(default_factory=dict)  # releases by names that people gave
    unknown: Mapping[str, object] = field(default_factory=dict)

    @property
    def newest(self) -> Released | None:
        """What readers see."""
        return self.releases[-1] if self.releases else None

    @property
    def holds(self) -> set[str]:
        """All that keep files for one of these releases."""
        return {member.hold for one in self.releases for member in one.members}

    def of_run(self, run_id: str | None) -> Released | None:
        """The release of a run; one that was rolled back since counts as well."""
        return next((one for one in self.releases if run_id is not None and one.run_id == run_id), None)

    def with_next(
        self,
        id: str,  # noqa: A002 - as in the record
        now_ms: int,
        members: tuple[Member, ...],
        run_id: str | None = None,
        restores: str | None = None,
    ) -> Record:
        """The same after one more release."""
        number = self.newest.number + 1 if self.newest else 1
        if len(members) > MEMBERS_MAX:
            raise UsageError(
                f"a release of {len(members):,} datasets is too large; nothing was released; at most "
                f"{MEMBERS_MAX:,} are possible"
            )
        one = Released(
            id=id,
            number=number,
            published_ms=now_ms,
            members=tuple(sorted(members, key=lambda member: member.name)),
            run_id=run_id,
            restores=restores,
        )
        return replace(self, releases=(*self.releases, one))

    @classmethod
    def from_bytes(cls, path: str, raw: bytes) -> Record:
        fields = Fields(path, parse(path, raw, size_limit=RELEASE_SIZE_LIMIT))
        check_format(fields, RELEASE_FORMAT)
        releases = tuple(map(_released, fields.objects("releases")))
        for place, (one, other) in enumerate(pairwise(releases), 1):
            if other.number <= one.number:
                raise fields.error(f"releases[{place}].number", "not above that of the release before it")
        ids = [one.id for one in releases]
        if len(set(ids)) < len(ids):
            raise fields.error("releases", "two have the same id")
        tags = fields.text_map("tags")
        for name, named in tags.items():
            if named not in ids:
                raise fields.error("tags", f"{name[:_NAME_LENGTH_MAX]!a} names no release of this record")
        return cls(
            nonce=fields.required_text("nonce"),
            changed_ms=_moment(fields, "changed"),
            sweeps=fields.required_integer("sweeps", minimum=0),
            releases=releases,
            tags=tags,
            unknown=fields.rest(),
        )

    def to_bytes(self) -> bytes:
        """The whole file, one line."""
        document: dict[str, object] = {
            "format": RELEASE_FORMAT,
            "nonce": self.nonce,
            "changed": self.changed_ms,
            "sweeps": self.sweeps,
            "releases": [_document(one) for one in self.releases],
            "tags": dict(self.tags),
        }
        return within(render(with_unknown(document, self.unknown)), RELEASE_SIZE_LIMIT, "the record", _ADVICE)


def key_of(release: Location) -> str:
    """The key of a release's record."""
    return paths.join(release.key, MANIFESTS, f"{NAME}.json")


def check_name(name: str) -> str:
    """Raise UsageError for a name that no dataset of a release can have."""
    if not name or len(name) > _NAME_LENGTH_MAX or not name.isprintable():
        raise UsageError(
            f"{name[:_NAME_LENGTH_MAX]!a} cannot be the name of a dataset in a release; give name= at most "
            f"{_NAME_LENGTH_MAX} printable characters"
        )
    return name


def _document(one: Released) -> dict[str, object]:
    document: dict[str, object] = {"id": one.id, "number": one.number, "published": one.published_ms}
    named = {"runId": one.run_id, "restores": one.restores}
    document |= {name: value for name, value in named.items() if value is not None}
    datasets = {
        each.name: {"url": each.url, "jobId": each.job_id, "manifest": each.manifest, "hold": each.hold}
        for each in one.members
    }
    return document | {"datasets": datasets}


def _released(fields: Fields) -> Released:
    members = tuple([_member(name, one) for name, one in fields.object_map("datasets")])
    if len(members) > MEMBERS_MAX:
        raise fields.error("datasets", f"more than {MEMBERS_MAX}")
    return Released(
        id=_matching(fields, "id", _ID),
        number=fields.required_integer("number", minimum=1),
        published_ms=_moment(fields, "published"),
        members=members,
        run_id=fields.nullable_text("runId"),
        restores=_matching(fields, "restores", _ID) if fields.has("restores") else None,
    )


def _member(name: str, fields: Fields) -> Member:
    url = fields.required_text("url")
    _believable(fields, "url", lambda: paths.parse_url(url))
    if paths.has_password(url):
        raise fields.error("url", "has a user or a password")
    _believable(fields, "", lambda: check_name(name))
    return Member(
        name=name,
        url=url,
        job_id=fields.required_job_id(),
        manifest=_matching(fields, "manifest", _SHA256),
        hold=_matching(fields, "hold", HOLD),
    )


def _believable(fields: Fields, name: str, check: Callable[[], object]) -> None:
    try:
        check()
    except UsageError as error:
        raise fields.error(name, str(error)) from error


def _matching(fields: Fields, name: str, shape: re.Pattern[str]) -> str:
    found = fields.required_text(name)
    if shape.fullmatch(found) is None:
        raise fields.error(name, "is not of the form that magicfs writes")
    return found


def _moment(fields: Fields, name: str) -> int:
    found = fields.required_integer(name, minimum=0)
    if found > MOMENT_MAX_MS:
        raise fields.error(name, "is a time after the year 9999")
    return found


def malformed(path: str, error: FormatError) -> FormatError:
    """The error of a record that cannot be believed, with what to do."""
    advice = "nothing was changed; find out who wrote it, then restore it from a backup"
    return FormatError(path, error.field, f"{error.problem}; {advice}")
