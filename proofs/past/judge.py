"""Whether what is there, and what readers saw, is what was published and what was promised."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import magicfs
from magicfs.errors import MagicError, ObjectNotFound
from magicfs.past.history import Publication
from proofs.past.content import rows_in
from proofs.past.ledger import Files, Ledger, State, day_of
from proofs.past.orders import PUBLISHES, Deed
from proofs.past.parts import Parts
from proofs.past.places import Place
from proofs.past.readers import Held, Look, Onlookers, dataset_of, rows_of
from proofs.past.turns import FINE, Done
from proofs.past.victim import DENIED
from proofs.scenes.manifests import published_manifest

__all__ = ["WRONG", "Judge"]

WRONG: Final = (
    "wrong_as_of",
    "wrong_now",
    "deleted_early",
    "kept_too_long",
    "seen_torn",
    "lost_publications",
    "left_behind",
    "troubles",
)
"""What must not be, each a figure that must be 0."""

_NOT_FOUND: Final = 3
_CLOCK_MS: Final = 5.0


def _taken_back(run: str | None, done: list[Done]) -> Done | None:
    """Who was killed, and has published a run once more that somebody had taken back at the same time."""
    takes = [one for one in done if one.deed.kind in {"rollback", "drop"}]
    again = (one for one in done if one.killed and one.deed.ended_by == "repeat" and one.deed.run_id == run)
    return next((one for one in again if any(other is not one for other in takes)), None)


@dataclass
class Judge:
    """Compares a place with the ledger.

    Attributes:
        place: The place.
        ledger: What was published.
        draw: Chooses what is looked at each time.
        figures: What was found and counted.
        said: What was wrong, in words.
        names: What was there at the last look, or was kept by its version.
    """

    place: Place
    ledger: Ledger
    draw: random.Random
    figures: Counter[str] = field(default_factory=Counter)
    said: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    _there: set[str] = field(default_factory=set)  # names that were there when the turn began
    _traces: set[str] = field(default_factory=set)  # names, and those of which nothing but a marker is left

    def wrong(self, what: str, text: str) -> None:
        """Note that something is wrong."""
        assert what in WRONG
        self.figures[what] += 1
        self.said.append(f"{what}: {text}")

    # -- what was published ----------------------------------------------------------------------------

    def after(self, done: list[Done], seen: Onlookers) -> None:
        """Judge a turn that is over."""
        before = len(self.ledger.states)
        self._there = there = set(self.names)
        self._read_names()
        promised = dict(self.ledger.promised)
        shown = self.ledger.shown
        self._note_publications(done)
        states = self.ledger.states[max(before - 1, 0) :]
        for one in done:
            self._check_outcome(one, done, there, promised, shown)
        self._note_tags(done)
        self._check_readers(seen, states)
        self._look(done, states)

    def _read_names(self) -> None:
        kept = self.place.kept()
        self._traces = set(kept)
        self.names = {name for name, has_body in kept.items() if has_body}

    def _note_publications(self, done: list[Done]) -> None:
        by_run = {one.deed.run_id: one for one in done if one.deed.kind in PUBLISHES}
        rewrite = next((one.deed.run_id for one in done if one.deed.kind == "rewrite"), "")
        shown = self.ledger.shown
        known = {one.job_id for one in self.ledger.states}
        history = self._history()
        new = [one for one in history if one.job_id not in known]
        if [one.job_id for one in history[len(new) :]] != [
            one.job_id for one in reversed(self.ledger.states)
        ]:
            self.wrong("lost_publications", "the history is not what it was")
        beside: Files = {}
        for one in reversed(new):
            run = rewrite if one.mode == "rewrite" else one.run_id  # a rewrite has none
            ours = by_run.pop(run or "", None) or _taken_back(run, done)
            if ours is None:
                self.wrong("lost_publications", f"nobody has published {one.run_id}, or twice: {one}")
                continue
            beside = {**beside, **self._add(one, ours, beside)}
        for left in by_run.values():
            if left.status == FINE and not self._may_do_nothing(left.deed, done, shown):
                self.wrong("lost_publications", f"{left.deed} said it was published")

    def _may_do_nothing(self, deed: Deed, done: list[Done], shown: Files) -> bool:
        """Whether a process may end well and publish nothing, as there was nothing to do."""
        if deed.kind not in {"drop", "rewrite"}:
            return False
        days = Counter(map(day_of, shown))
        nothing = deed.day not in days if deed.kind == "drop" else max(days.values(), default=0) < 2
        self.figures["nothing_to_do"] += 1
        return nothing or len(done) > 1

    def _add(self, one: Publication, done: Done, beside: Files) -> Files:
        """Note a publication; returns the files that it has brought. ``beside``: those that came at once."""
        deed = done.deed
        if done.status == DENIED:
            self.wrong("lost_publications", f"{deed} was denied, and is published")
        until = None if one.kept_until is None else one.kept_until.timestamp() * 1000
        if deed.keep_s is not None and until is not None:
            lasts = until - deed.keep_s * 1000
            if not done.began_ms - _CLOCK_MS <= lasts <= done.ended_ms + _CLOCK_MS and not done.killed:
                self.wrong("deleted_early", f"{deed} promises until {one.kept_until}")
        elif until is not None:
            self.wrong("kept_too_long", f"{deed} promises until {one.kept_until}")
        manifest = published_manifest(self.place.url, one.job_id, storage_options=self.place.options)
        parts = Parts(self.place, self.ledger, self.figures, self.wrong)
        own = parts.brought(one, deed, manifest, beside)
        files = {**parts.spared(deed, manifest, beside), **own}
        state = State(one.job_id, one.run_id or "", one.published, files, keeps=deed.keep_s is not None)
        self.ledger.add(state, None if until is None else int(until))
        self.figures[f"published_{deed.kind}"] += 1
        return own

    def _check_outcome(
        self, one: Done, done: list[Done], there: set[str], promised: dict[str, int], shown: Files
    ) -> None:
        """Whether a process that was not killed ended as it may."""
        if one.status in {None, FINE}:
            return
        rewrites = one.deed.kind == "rewrite"
        if one.status == DENIED and (len(done) > 1 or (rewrites and one.killed)):
            # A rewrite has no run: where a first one died, a second one does not end it.
            self.figures["denied"] += 1
            return
        if one.status == _NOT_FOUND and rewrites and len(done) > 1:
            self.figures["rewrites_refused"] += 1  # the other has deleted what it read
            return
        if one.status == _NOT_FOUND and one.deed.kind == "rollback":
            files = self.ledger.state(one.deed.target).files.keys()
            others = [other for other in done if other is not one]
            forever = one.ended_ms + 1 if self.place.keeps_versions else 0  # what nobody has promised
            safe = files <= there and all(
                promised.get(name, forever) > one.ended_ms or name in shown for name in files
            )
            if not safe or others:
                self.figures["rollbacks_refused"] += 1
                return
        self.wrong("troubles", f"{one.deed} ended with {one.status}")

    def _note_tags(self, done: list[Done]) -> None:
        found = {tag: one.job_id for one in self._history() for tag in one.tags}
        for one in done:
            deed = one.deed
            if deed.kind == "tag":
                may = {deed.target} if one.status == FINE else {deed.target, self.ledger.tags.get(deed.tag)}
                if found.get(deed.tag) not in may:
                    self.wrong("troubles", f"{deed}: the tag names {found.get(deed.tag)}")
        moved = {one.deed.tag for one in done if one.deed.kind == "tag"}
        if any(found.get(tag) != job for tag, job in self.ledger.tags.items() if tag not in moved):
            self.wrong("troubles", f"tags were {self.ledger.tags}, and are {found}")
        self.ledger.tags = found

    def _history(self) -> list[Publication]:
        return magicfs.Dataset(self.place.url, storage_options=self.place.options).history()

    # -- readers while it ran --------------------------------------------------------------------------

    def _check_readers(self, seen: Onlookers, states: list[State]) -> None:
        for error in seen.errors:
            self.wrong("seen_torn", error)
        may_miss = not self.place.keeps_versions and any(not one.keeps for one in states[1:])
        newest = 0
        for look in seen.current:
            if look.rows is None:
                if not may_miss:
                    self.wrong("seen_torn", "a reader of manifests met a file that was gone")
                continue
            at = [number for number, one in enumerate(states) if one.rows == look.rows]
            if not at:
                self.wrong("seen_torn", "a reader of manifests saw what was never published")
            elif at[-1] < newest:
                self.wrong("seen_torn", "a reader of manifests saw an older state again")
            else:
                newest = max(newest, at[0])
        always = set.intersection(*(set(one.files) for one in states)) if states else set()
        for look in seen.listed:
            self._check_listed(look, states, always)
        for look in seen.older:
            held = seen.held[look.held]
            if look.rows is not None and look.rows != held.rows:
                self.wrong("seen_torn", "a reader of an older list read other rows")
            if look.rows is None:
                gone = [one for one in held.names if not self._must_be(one, always, look.ended_ms)]
                if self.place.keeps_versions:
                    gone = [one for one in gone if one not in self.names]  # nobody has expired the others
                if not gone:
                    self.wrong("deleted_early", "a reader of an older list met a file that was gone")
        self.figures["reads_by_manifest"] += len(seen.current)
        self.figures["listings"] += len(seen.listed)
        self.figures["reads_of_older_lists"] += len(seen.older)

    def _check_listed(self, look: Look, states: list[State], always: set[str]) -> None:
        """What is visible all the time is seen, and no file that was replaced before."""
        if missing := sorted(always - look.names):
            self.wrong("seen_torn", f"somebody who lists does not see {missing}, visible all the time")
        if old := sorted(look.names - {name for one in states for name in one.files}):
            self.wrong("kept_too_long", f"somebody who lists sees {old}, which were replaced before")

    def _check_there(self, names: Iterable[str], always: set[str], now_ms: float, who: str) -> None:
        missing = (always | (self.ledger.promised.keys() & self._there)) - set(names)
        for name in missing:
            if name in always:
                self.wrong("seen_torn", f"{who} does not see {name}, which was visible all the time")
            elif self.ledger.promised[name] > now_ms:
                left = self.ledger.promised[name] - now_ms
                self.wrong("deleted_early", f"{name} is gone {left:.0f} ms before its time ({who})")

    def _must_be(self, name: str, always: set[str], now_ms: float) -> bool:
        return name in always or self.ledger.promised.get(name, 0) > now_ms

    # -- what is there now -----------------------------------------------------------------------------

    def _look(self, done: list[Done], states: list[State]) -> None:
        listed = self.place.names()
        self._read_names()
        now_ms = time.time() * 1000
        self._there |= self.ledger.promised.keys()
        known = self.ledger.known
        if listed != self.ledger.shown.keys():
            others = sorted(listed ^ self.ledger.shown.keys())
            self.wrong("wrong_now", f"what is listed is not what is shown: {others}")
        self._check_there(self.names, set(self.ledger.shown), now_ms, "a look when all was over")
        for name in self.names - known.keys():
            self.wrong("left_behind", f"{name} was never published")
        self._check_kept(done, states)
        for name in [one for one in self.ledger.promised if one not in self._traces]:
            del self.ledger.promised[name]
        for name in self.draw.sample(sorted(self.names), min(5, len(self.names))):
            body = self.place.read_kept(name)
            if body is None or rows_in(body) != known.get(name, ()):
                self.wrong("wrong_now", f"{name} holds something else")
        self._check_now()
        for name in self.place.all_names():
            if name.startswith("__magic"):
                self.wrong("left_behind", name)
        for key in self.place.uploads():
            # Only a command that is killed while it tries what the store honours leaves one, outside any job.
            if "/_magicfs/probe-" not in key:
                self.wrong("left_behind", f"an upload of {key}")
        if self.place.neighbour() != b"others'":
            self.wrong("left_behind", "the neighbour was changed")
        kept = len(self.names - self.ledger.shown.keys())
        self.figures["files_kept_at_most"] = max(self.figures["files_kept_at_most"], kept)

    def _check_kept(self, done: list[Done], states: list[State]) -> None:
        """Nothing stays that nobody has promised, or whose time was over when it was expired.

        A version that nobody has promised is no business of ours, and stays.
        """
        ever = {name for state in states for name in state.files}
        expired = [one.began_ms for one in done if one.deed.kind == "expire" and one.status == FINE]
        for name in self._traces - self.ledger.shown.keys():
            until = self.ledger.promised.get(name)
            if until is None:
                if not self.place.keeps_versions:
                    self.wrong("kept_too_long", f"{name} was replaced by a job that keeps nothing")
            elif expired and name not in ever and until <= min(expired):
                what = "is there" if name in self.names else "has a marker"
                self.wrong("kept_too_long", f"{name} {what} after it was expired")
        gone = [one for one in self.ledger.promised if one not in self._traces]
        self.figures["files_expired"] += len(gone)

    def _check_now(self) -> None:
        rows, expected = rows_of(self.place), self.ledger.states[-1].rows
        if rows != expected:
            more, less = sorted(rows - expected), sorted(expected - rows)
            self.wrong("wrong_now", f"not what was published last: too many {more}, missing {less}")
        if "_SUCCESS" not in self.place.all_names():
            self.wrong("wrong_now", "there is no _SUCCESS")
        try:
            report = magicfs.Dataset(self.place.url, storage_options=self.place.options).verify()
        except MagicError as error:
            self.wrong("wrong_now", f"verify: {error}")
        else:
            if not report.ok:
                self.wrong("wrong_now", f"verify: {report}")

    def check_end(self) -> None:
        """When all time was over, and everything was expired: nothing is left of what was promised."""
        left = self._traces - self.ledger.shown.keys()
        if self.place.keeps_versions:
            left &= self.ledger.ever_promised
        if left or not self.ledger.shown.keys() <= self.names:
            self.wrong("kept_too_long", f"not all that was kept went when all time was over: {sorted(left)}")

    # -- the past --------------------------------------------------------------------------------------

    def check_past(self, states: Iterable[State]) -> None:
        """Read as of publications, each by a name that is drawn: all of it, or an error if files are gone."""
        for state in states:
            kind, as_of = self._name_of(state)
            expected = self.ledger.at(as_of) if isinstance(as_of, datetime) else state
            whole = expected.files.keys() <= self.names
            try:
                rows = rows_of(self.place, as_of=as_of)
            except ObjectNotFound as error:
                if whole:
                    self.wrong("wrong_as_of", f"{as_of}: {error}")
                self.figures["as_of_refused"] += 1
            else:
                if not whole or rows != expected.rows:
                    self.wrong("wrong_as_of", f"{as_of} is not what was published with {expected.run_id}")
                self.figures[f"as_of_{kind}"] += 1

    def _name_of(self, state: State) -> tuple[str, Any]:
        tags = [tag for tag, job in self.ledger.tags.items() if job == state.job_id]
        kinds = ["time", "job", *(["run"] if state.run_id else []), *(["tag"] * 3 if tags else [])]
        kind = self.draw.choice(kinds)
        names = {"time": state.published, "job": f"job:{state.job_id}", "run": f"run:{state.run_id}"}
        return kind, names.get(kind) or f"tag:{tags[0]}"

    def hold(self) -> Held:
        """The list of today, for somebody who goes on with it."""
        state = self.ledger.states[-1]
        return Held(dataset_of(self.place), frozenset(state.files), state.rows)
