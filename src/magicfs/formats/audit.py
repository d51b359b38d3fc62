"""What an audit said of a job before it was published: in its job object, and then in its manifest.

What checks of the content of a file have said in its task travels as text in the extra data of its pending
upload: a JSON object, by names of checks, of what is wrong with it, or null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from magicfs.errors import FormatError
from magicfs.formats.document import parse, render, with_unknown
from magicfs.formats.fields import Fields
from magicfs.formats.limits import PENDING_SIZE_LIMIT

__all__ = ["FILE_AUDIT", "Audit", "OnFailure", "Said", "Verdict", "carried_by", "said_in"]

FILE_AUDIT: Final = "magicfs.audit"
"""The name in a pending upload's extra data."""

OnFailure = Literal["abort", "quarantine"]
"""What becomes of a job whose audit fails."""

Said = Mapping[str, str | None]
"""What is wrong with a file by the names of checks; None if nothing is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of one rule.

    Attributes:
        rule: The rule, as it was given.
        passed: Whether it lets the job be published.
        told: What it found.
    """

    rule: str
    passed: bool
    told: str = ""
    unknown: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The results of all rules of a job.

    Attributes:
        verdicts: In the order of the rules.
        against: The previous job, which the rules compared with; None if there was none.
        audited_ms: When the audit ran, in milliseconds since the epoch.
        accepted: Why the job was published although its audit failed; None if it was not.
    """

    verdicts: tuple[Verdict, ...]
    against: str | None = None
    audited_ms: int = 0
    accepted: str | None = None
    unknown: Mapping[str, object] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether all rules let the job be published."""
        return all(one.passed for one in self.verdicts)

    @property
    def failures(self) -> tuple[Verdict, ...]:
        """The verdicts of the rules that do not."""
        return tuple(one for one in self.verdicts if not one.passed)

    def __str__(self) -> str:
        said = self.verdicts if self.passed else self.failures
        return "; ".join(f"{one.rule}: {one.told}" for one in said)

    @classmethod
    def from_fields(cls, fields: Fields) -> Audit:
        """Read the JSON object."""
        return cls(
            verdicts=tuple(
                Verdict(
                    rule=one.required_text("rule"),
                    passed=one.flag("passed", default=False),
                    told=one.text("told"),
                    unknown=one.rest(),
                )
                for one in fields.objects("verdicts")
            ),
            against=fields.nullable_job_id("against"),
            audited_ms=fields.required_integer("audited", minimum=0),
            accepted=fields.nullable_text("accepted"),
            unknown=fields.rest(),
        )

    def to_document(self) -> dict[str, object]:
        """The JSON object."""
        document: dict[str, object] = {
            "verdicts": [
                with_unknown({"rule": one.rule, "passed": one.passed, "told": one.told}, one.unknown)
                for one in self.verdicts
            ],
            "against": self.against,
            "audited": self.audited_ms,
        }
        if self.accepted is not None:
            document["accepted"] = self.accepted
        return with_unknown(document, self.unknown)


def carried_by(said: Said) -> dict[str, str]:
    """What the extra data of a pending upload says of the checks of its content."""
    return {FILE_AUDIT: render(dict(said)).decode()}


def said_in(extra: Mapping[str, str]) -> Said:
    """What checks have said of a file; empty if none has, or it cannot be read."""
    text = extra.get(FILE_AUDIT)
    if text is None:
        return {}
    raw = text.encode("utf-8", "surrogatepass")
    try:
        found = parse(FILE_AUDIT, raw, size_limit=PENDING_SIZE_LIMIT)
    except FormatError:
        return {}
    return {name: told for name, told in found.items() if told is None or isinstance(told, str)}
