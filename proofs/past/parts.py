"""What a publication consists of: the files that it has brought, and what it has left of the state before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from magicfs.formats.manifest import Manifest
from magicfs.past.history import Publication
from magicfs.protocol import ids
from magicfs.protocol.final_names import copied_key
from proofs.past.ledger import Files, Ledger, day_of
from proofs.past.orders import Deed
from proofs.past.places import Place

__all__ = ["Parts"]


@dataclass(frozen=True, slots=True)
class Parts:
    """Tells the files of publications.

    Attributes:
        place: Where.
        ledger: What was published before.
        figures: What was counted.
        wrong: Told what is wrong, and in words.
    """

    place: Place
    ledger: Ledger
    figures: Counter[str]
    wrong: Callable[[str, str], None]

    def brought(self, one: Publication, deed: Deed, manifest: Manifest, beside: Files) -> Files:
        """The files of a job: of its manifest only the names are taken, the rows are the order's."""
        if deed.kind == "drop":
            self._check_dropped(deed, manifest, beside)
            return {}
        if deed.kind == "rewrite":
            return self._put_together(manifest)
        if deed.kind == "rollback":
            if one.restores != deed.target:
                self.wrong("lost_publications", f"{deed} restores {one.restores}")
            return self._shown_again(one, deed, manifest)
        own = {file.key: deed.rows[day_of(file.key)] for file in manifest.files}
        if sorted(map(day_of, own)) != sorted(deed.rows):
            self.wrong("lost_publications", f"{deed} has published {sorted(own)}")
        return own

    def _shown_again(self, one: Publication, deed: Deed, manifest: Manifest) -> Files:
        """The files of then: each where it was or, if it is kept aside or by its version, as a copy."""
        target, found = self.ledger.state(deed.target).files, {file.key for file in manifest.files}
        copies = {copied_key("", name, ids.job_id(one.job_id)): name for name in target}
        copied = {name: copies[name] for name in found & copies.keys()}
        files = {name: rows for name, rows in target.items() if name not in copied.values()}
        files |= {name: target[old] for name, old in copied.items()}
        if found != files.keys():
            self.wrong("lost_publications", f"{deed} shows {sorted(found)} for {sorted(target)}")
        self.figures["files_copied"] += len(copied)
        return files

    def _check_dropped(self, deed: Deed, manifest: Manifest, beside: Files) -> None:
        """It takes away what was shown of its day, whether or not it saw what came at once."""
        of_day = {name for name in self.ledger.shown if day_of(name) == deed.day}
        gone = set(manifest.deleted)
        if manifest.files or not of_day - beside.keys() <= gone <= of_day:
            self.wrong("lost_publications", f"{deed} of {sorted(of_day)} has dropped {sorted(gone)}")

    def _put_together(self, manifest: Manifest) -> Files:
        """The files of a rewrite: all rows of those of a day that it replaces, in the order of names."""
        shown, gone = self.ledger.shown, sorted(manifest.deleted)
        new = {day_of(file.key): file.key for file in manifest.files}
        days = Counter(map(day_of, gone))
        if len(new) != len(manifest.files) or new.keys() != days.keys() or min(days.values()) < 2:
            self.wrong("lost_publications", f"a rewrite has made {sorted(new.values())} of {gone}")
        if others := [name for name in gone if name not in shown]:
            self.wrong("lost_publications", f"a rewrite has replaced {others}, which nobody showed")
        return {
            name: tuple(row for one in gone if day_of(one) == day for row in shown.get(one, ()))
            for day, name in new.items()
        }

    def spared(self, deed: Deed, manifest: Manifest, beside: Files) -> Files:
        """What of the state before is visible still; whether a job saw what came at once, it says itself."""
        old = self.ledger.shown
        if deed.kind == "append":
            return old
        if deed.kind in {"drop", "rewrite"}:
            return {name: old[name] for name in old if name not in manifest.deleted}
        if deed.kind == "overwrite_partitions":
            unseen = beside.keys() - set(manifest.deleted)
            return {name: old[name] for name in old if name in unseen or day_of(name) not in deed.rows}
        seen = [one for one in self.ledger.states if one.job_id == manifest.replaced]
        unseen = beside.keys() - (seen[0].files.keys() if seen else set())
        return {name: old[name] for name in old if name in unseen}
