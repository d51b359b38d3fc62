"""What an audit said of a job before it was published: in its job object, and then in its manifest.

What checks of the content of a file have said in its task travels as text in the extra data of its pending
upload: a JSON object, by names of checks, of what is wrong with it, or null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from magicfs.errors import FormatError
from magicfs.formats.document import parse, render
from magicfs.formats.fields import Fields
from magicfs.formats.limits import PENDING_SIZE_LIMIT
from magicfs.formats.record import COUNT, FLAG, JOB, TEXT, Record, each, member, record

FILE_AUDIT: Final = "magicfs.audit"
"""The name in a pending upload's extra data."""

OnFailure = Literal["abort", "quarantine"]
"""What becomes of a job whose audit fails."""

Said = Mapping[str, str | None]
"""What is wrong with a file by the names of checks; None if nothing is."""


@record
class Verdict(Record):
    """The result of one rule.

    Attributes:
        rule: The rule, as it was given.
        passed: Whether it lets the job be published.
        told: What it found.
    """

    rule: str = member(TEXT)
    passed: bool = member(FLAG)
    told: str = member(Fields.text, default="")


@record
class Audit(Record):
    """The results of all rules of a job.

    Attributes:
        verdicts: In the order of the rules.
        against: The previous job, which the rules compared with; None if there was none.
        audited_ms: When the audit ran, in milliseconds since the epoch.
        accepted: Why the job was published although its audit failed; None if it was not.
    """

    verdicts: tuple[Verdict, ...] = member(each(Verdict))
    against: str | None = member(JOB, default=None)
    audited_ms: int = member(COUNT, default=0, required=True)
    accepted: str | None = member(Fields.nullable_text, default=None, rare=True)

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
