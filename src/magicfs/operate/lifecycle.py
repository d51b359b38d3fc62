"""The lifecycle rules of a bucket that end open uploads: are there any, and do they end what is needed?"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

from magicfs.protocol import paths
from magicfs.protocol.paths import Location
from magicfs.protocol.period import human_age
from magicfs.stores.port import Rule

_DAYS: Final = 7
_DAY_S: Final = 86_400.0
_SOON_S: Final = 3 * _DAY_S
_LEAD: Final = "add this one to the rules that the bucket has, for the command replaces them:"
_NAME: Final = "abort-open-uploads"


class Judgement(NamedTuple):
    """What there is to say about the rules of a bucket.

    Attributes:
        verdict: As of a ``Finding``.
        said: What was found.
        advice: What to do; empty if nothing.
    """

    verdict: Literal["ok", "look", "wrong"]
    said: str
    advice: str = ""


def days_for(rules: Iterable[Rule], key: str) -> int | None:
    """After how many days the rules end uploads below a key; None if they do not end all of them."""
    prefix = paths.prefix_of(key)
    return min((one.days for one in rules if prefix.startswith(one.prefix)), default=None)


def judge(location: Location, rules: Iterable[Rule], waiting_s: float | None, job: str = "") -> Judgement:
    """Judge the rules against the unfinished job that has waited longest.

    Args:
        location: The destination.
        rules: Of its bucket.
        waiting_s: For how long the job has waited, in seconds; None if there is none.
        job: The job.
    """
    days = days_for(rules, location.key)
    if days is None:
        return Judgement("look", "no rule of the bucket ends old open uploads", rule_commands(location))
    said = f"a rule of the bucket ends open uploads after {days} days"
    if waiting_s is None:
        return Judgement("ok", said)
    left_s = days * _DAY_S - waiting_s
    about = f"{said}; job {job} has waited for {human_age(waiting_s)}"
    advice = f"end the job now: magicfs recover {location.url} --job {job}"
    if left_s <= 0:
        return Judgement("wrong", f"{about}, so its uploads may be gone", advice)
    if left_s <= _SOON_S:
        return Judgement("look", f"{about}, and its uploads end in {human_age(left_s)}", advice)
    return Judgement("ok", about)


def rule_document(location: Location) -> dict[str, object] | None:
    """A rule that ends open uploads after a week, as the store's own tools take it; None if it has none."""
    prefix = paths.prefix_of(location.key)
    if location.scheme in {"s3", "s3a"}:
        rule = {
            "ID": _NAME,
            "Status": "Enabled",
            "Filter": {"Prefix": prefix},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": _DAYS},
        }
        return {"Rules": [rule]}
    if location.scheme in {"gs", "gcs"}:
        condition = {"age": _DAYS, **({"matchesPrefix": [prefix]} if prefix else {})}
        return {"rule": [{"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": condition}]}
    return None


def rule_commands(location: Location) -> str:
    """How to add that rule; empty if the store has no rules."""
    if (document := rule_document(location)) is None:
        return ""
    text, bucket = shlex.quote(json.dumps(document)), shlex.quote(location.bucket)
    if "Rules" in document:
        return (
            f"{_LEAD} aws s3api "
            f"put-bucket-lifecycle-configuration --bucket {bucket} --lifecycle-configuration {text}"
        )
    return (
        f"{_LEAD} gcloud storage buckets update gs://{bucket} --lifecycle-file=FILE, with FILE holding {text}"
    )
