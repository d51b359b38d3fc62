"""The gate has a row for every field of every format, and every reader passes it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from magicfs.alias import records as aliases
from magicfs.classic import records as classic
from magicfs.classic.records import FileList
from magicfs.errors import FormatError
from magicfs.formats import deletions, gate, log, plain_pending
from magicfs.formats.fields import Fields
from magicfs.formats.kinds import KINDS, detect, load
from magicfs.formats.rows import Place, old_problem
from magicfs.releases import record as releases
from magicfs.releases.record import Record
from magicfs.watch import operations
from magicfs.watch.operations import Operation

ROOT = Path(__file__).parents[3]
ROWS = {**gate.ROWS, **classic.ROWS, **operations.ROWS, **releases.ROWS, **aliases.ROWS}
_GUESTS: dict[str, tuple[str, Callable[[str, bytes], object]]] = {
    "magicfs_alias_1.json": ("alias", aliases.AliasName.from_bytes),
    "magicfs_alias-claim_1.json": ("alias claim", aliases.Claim.from_bytes),
    "magicfs_files_1.json": ("file list", FileList.from_bytes),
    "magicfs_operation_1.json": ("operation", Operation.from_bytes),
    "magicfs_release_1.json": ("release", Record.from_bytes),
}
"""Golden files of formats that guests define, which no command shows."""
GOLDEN = ROOT / "tests" / "golden"
_UNSAID = {"format", "requires", "version"}
"""What names a format, and what a reader has to know of it: ``formats.fields.check_format``."""
_NOT_IN_THE_GATE = {
    "alias/records.py": "reads the name of the alias, whose place and claim are compared by follow",
    "alias/follow.py": "compares the claim with the alias, the dataset and the pointer",
    "operate/open_uploads.py": "lists what is pending; nothing is done by its word",
    "classic/base.py": "reads the `_SUCCESS` of its own job before it writes another",
    "classic/final_files.py": "a list that travels in a commit: its keys are compared by KeyCheck",
    "classic/reading.py": "chooses which files readers see",
    "classic/stocator.py": "chooses which files readers see",
    "committers/staging/cluster.py": "sets in a cluster's filesystem: each is taken by Taking",
    "hadoop/magic.py": "compares ids with what is open; what is published is taken by Taking",
    "hadoop/staging.py": "the same",
    "filesystem/tracking.py": "aborts only an upload of the very key that is written",
    "filesystem/listing.py": "compares the key with what the path means",
    "manifests/footers.py": "only shown, and judged by audits",
    "manifests/log_files.py": "compares the id and the digest with what names it",
    "manifests/registrations.py": "compared by `differs` where it is acted on: one blocks no other",
    "operate/lost_pointer.py": "takes no older manifest for the newest",
    "transaction/attempt_output.py": "compares bucket and key with the places; sets are taken by Taking",
    "audit/extension.py": "footers of the job published before, to compare with",
    "releases/reading.py": "compares a job with its manifest, and a URL with what the caller has named",
    "watch/operations.py": "only shown",
    "transaction/late_driver.py": "compares what was committed with what is published",
    "transaction/publish.py": "says whose `_SUCCESS` is there",
    "transaction/spool.py": "each is taken by Taking",
    "transaction/sweep.py": "aborts and deletes only what lies in the places of the job",
    "transaction/task_manifests.py": "compares each path with the job's places",
}
"""Modules that read records without ``admit``, and why nothing is done there by their word alone."""


def asked_in(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, set[str]]:
    """The format of a golden file, and every field that its reader asks for, there or not."""
    raw, asked, taking = (GOLDEN / name).read_bytes(), set[str](), Fields._take

    def take(self: Fields, field: str) -> Any:
        asked.add(re.sub(r"\[\d+\]", "[]", self._name(field)))
        return taking(self, field)

    monkeypatch.setattr(Fields, "_take", take)
    # The quick ways past the getters read the same.
    monkeypatch.setattr(plain_pending, "read", lambda _: None)
    monkeypatch.setattr(deletions, "_all_plain", lambda _: False)
    monkeypatch.setattr(log, "_plain_part", lambda _: None)
    path = f"bucket/{name}"
    if name in _GUESTS:
        kind, read = _GUESTS[name]
        read(path, raw)
        return kind, asked
    load(path, raw)
    return detect(path, raw), asked


def has_row(kind: str, field: str) -> bool:
    """Whether a row is about a field, about all that lies in it, or about what it lies in."""
    for row in ROWS[kind]:
        around = row.field.removesuffix(".*")
        if row.field in {field, f"{field}[]"} or row.field.startswith((f"{field}.", f"{field}[].")):
            return True
        named = re.escape(row.field).replace(r"\.\*\.", r"(?:\.\w+|\[\".*?\"\])\.")
        if re.fullmatch(named, field):
            return True
        if around != row.field and field.startswith(f"{around}."):
            return True
    return False


@pytest.mark.parametrize("name", sorted(one.name for one in GOLDEN.iterdir()))
def test_every_field_of_every_format_has_a_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, asked = asked_in(name, monkeypatch)
    assert [field for field in sorted(asked - _UNSAID) if not has_row(kind, field)] == [], kind


def test_every_format_has_rows_and_each_once() -> None:
    assert {one.name for one in KINDS} <= ROWS.keys()
    for kind, rows in ROWS.items():
        fields = [row.field for row in rows]
        assert len(fields) == len(set(fields)), kind


@pytest.mark.parametrize("by", sorted({row.by for rows in ROWS.values() for row in rows if row.by}))
def test_what_compares_elsewhere_is_there(by: str) -> None:
    module, _, name = f"magicfs.{by}".rpartition(".")
    assert callable(getattr(importlib.import_module(module), name))


def test_a_field_that_is_compared_with_nothing_says_why() -> None:
    for kind, rows in ROWS.items():
        for row in rows:
            assert row.compared, (kind, row)


def test_every_reader_of_a_record_passes_the_gate() -> None:
    package = ROOT / "src" / "magicfs"
    reading = re.compile(r"\b(?:[A-Z]\w+|kind)\.from_bytes\(|\bdeletions\.read(?:_below)?\(")
    without = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if path.parent.name != "formats"
        and reading.search(path.read_text())
        and re.search(r"\badmit(?:_job)?\(", path.read_text()) is None
    }
    assert without == _NOT_IN_THE_GATE.keys()


def test_an_error_names_record_and_field_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place("bucket/sales/_magicfs/.tags/good.json", "bucket", "sales", "good")
    tag = gate.Row("tag", "the name", lambda _one, _place: "is another one's")
    with pytest.raises(
        FormatError, match=r"good\.json: tag: is another one's; nothing was changed; find out who"
    ):
        patched = pytest.MonkeyPatch()
        with patched.context() as patch:
            patch.setattr(gate, "ROWS", {"tag": (tag,)})
            gate.admit("tag", object(), place)


_NEVER = (
    *("other/a", "sales", "sales/", "sales10/a", "sales/../a", "sales/a/./b", "sales/.\0", "sales/_SUCCESS"),
    *("sales/_magicfs/a", "sales/__magic_job-1/x", "sales/_temporary/0/x", "sales/a/_magicfs/b"),
    "sales/a/__magic/b",
)
_DATA = ("sales/a", "sales/day=1/a..b", "sales/.a.crc", "sales/a/_metadata", "sales/a//b")


@pytest.mark.parametrize("key", _NEVER)
def test_what_no_job_can_have_replaced(key: str) -> None:
    assert old_problem(key, "sales") is not None


@pytest.mark.parametrize("key", _DATA)
def test_what_a_job_can_have_replaced(key: str) -> None:
    assert old_problem(key, "sales") is None


def test_records_of_datasets_below_go_only_where_they_may() -> None:
    key = "sales/old/_magicfs/current.json"
    assert old_problem(key, "sales") is not None
    assert old_problem(key, "sales", ("sales/old",)) is None
    assert old_problem(key, "sales", None) is None
    assert old_problem("sales/_magicfs/current.json", "sales", ("sales",)) is not None
    assert old_problem("sales/_magicfs/current.json", "sales", None) is not None
    assert old_problem("sales/old/__magic/x", "sales", ("sales/old",)) is not None
