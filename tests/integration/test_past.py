"""Publications with a past, killed at random; and what the judge of them must notice."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import magicfs
from proofs.doubles.bucket_view import S3View
from proofs.past.content import body_of
from proofs.past.judge import WRONG, Judge
from proofs.past.ledger import Ledger, State
from proofs.past.main import main
from proofs.past.orders import Deed
from proofs.past.places import Place, Versions, place_of
from proofs.past.readers import Look, Onlookers
from proofs.past.turns import Done

pytestmark = pytest.mark.sample(most=1)


LOCAL, S3, VERSIONED = ("--store=local",), ("--no-versioned",), ("--versioned",)


@pytest.mark.parametrize(
    "how", [LOCAL, *(pytest.param(one, marks=pytest.mark.nightly) for one in (S3, VERSIONED))]
)
def test_each_publication_is_read_as_of_then_whoever_is_killed(how: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "proofs.past", "--quick", *how, "--seed", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    figures = json.loads(line)
    assert figures["ok"] is True
    assert figures["publications"] >= 15
    assert figures["kills"] == sum(figures["kills_by_kind"].values()) > 0
    assert {name: figures[name] for name in WRONG} == dict.fromkeys(WRONG, 0)
    assert min(figures[f"as_of_{kind}"] for kind in ("time", "job", "run")) > 0
    assert figures["versioned"] is (how == VERSIONED)
    assert figures["versioned"] or figures["as_of_refused"] > 0
    assert figures["reads_by_manifest"] > 0
    assert figures["files_expired"] > 0


NOWHERE = ["--store", "gcs", "--versioned"]


@pytest.mark.parametrize(
    "arguments", [["--publications", "0"], ["--only", "expire"], ["--store", "tape"], NOWHERE]
)
def test_past_refuses_arguments_that_are_none(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2


class Published:
    """A judge that has seen two publications, the second of which keeps what it replaces."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.judge = Judge(place, Ledger(), random.Random(0))
        self.first = self.publish("append", None)
        self.second = self.publish("overwrite", 600)

    def publish(self, kind: str, keep_s: int | None) -> State:
        deed = Deed(kind, f"run {len(self.judge.ledger.states)}", keep_s, rows={"d1": (f"a {kind} row",)})
        done = Done(deed, time.time() * 1000, status=0)
        with (
            magicfs.Job(
                self.place.url,
                mode=kind,
                run_id=deed.run_id,
                keep=None if keep_s is None else f"{keep_s}s",
                storage_options=self.place.options,
            ) as job,
            job.task(0) as task,
        ):
            task.filesystem.pipe_file(f"{task.path}/day=d1/part-0.parquet", body_of(deed.rows["d1"]))
        done.ended_ms = time.time() * 1000
        self.judge.after([done], Onlookers(self.place, ()))
        return self.judge.ledger.states[-1]

    def look(self, done: Done | None = None) -> set[str]:
        """What is noticed when nothing, or a deed, is over."""
        self.judge.figures.clear()
        self.judge.after([done] if done else [], Onlookers(self.place, ()))
        self.judge.check_past(self.judge.ledger.states)
        return {name for name in WRONG if self.judge.figures[name]}

    def path(self, state: State) -> Path:
        (name,) = state.files
        return next(Path(self.place.url).rglob(Path(name).name))  # where it is, or aside


class TestJudge:
    @pytest.fixture
    def there(self):
        with place_of("local") as place:
            yield Published(place)

    def test_is_content_with_what_was_published(self, there: Published):
        assert there.look() == set(), there.judge.said
        assert there.judge.said == []
        assert there.judge.ledger.at(datetime.now(UTC)) is there.second

    def test_notices_a_kept_file_that_is_gone(self, there: Published):
        there.path(there.first).unlink()
        assert "deleted_early" in there.look()

    def test_notices_a_visible_file_that_is_gone(self, there: Published):
        there.path(there.second).unlink()
        with pytest.raises(FileNotFoundError):
            there.look()
        assert there.judge.figures["seen_torn"] == 1

    def test_notices_other_rows_as_of_then(self, there: Published):
        there.judge.ledger.states[0] = State(
            there.first.job_id, there.first.run_id, there.first.published, {"day=d1/x.parquet": ("others",)}
        )
        there.judge.names.add("day=d1/x.parquet")
        there.judge.figures.clear()
        there.judge.check_past(there.judge.ledger.states[:1])
        assert there.judge.figures["wrong_as_of"] == 1

    def test_notices_what_is_kept_without_a_promise(self, there: Published):
        there.judge.ledger.promised.clear()
        assert there.look() == {"kept_too_long"}

    def test_notices_what_an_expiry_has_left(self, there: Published):
        (name,) = there.first.files
        there.judge.ledger.promised[name] = int(time.time() * 1000) - 1000
        now = time.time() * 1000
        assert there.look(Done(Deed("expire", "run"), now, now, status=0)) == {"kept_too_long"}

    def test_notices_a_publication_that_is_not_there(self, there: Published):
        now = time.time() * 1000
        assert there.look(Done(Deed("append", "run 9"), now, now, status=0)) == {"lost_publications"}

    def test_notices_what_nobody_has_published(self, there: Published):
        path = Path(there.place.url, "day=d1", "x.parquet")
        path.write_bytes(body_of(["foreign"]))
        assert "left_behind" in there.look()
        path.unlink()
        with magicfs.Job(there.place.url, mode="append", run_id="somebody's") as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/day=d1/part-0.parquet", body_of(["foreign"]))
        assert "lost_publications" in there.look()


@pytest.mark.nightly
class TestJudgeOfVersions:
    """On a bucket that keeps versions: what is replaced is kept, and nobody who lists sees it."""

    @pytest.fixture
    def there(self):
        with place_of("s3", versioned=True) as place:
            yield Published(place)

    def versions(self, there: Published, state: State) -> dict[bool, str]:
        """The versions of its file: the marker's, and that of what it held."""
        (name,) = state.files
        view = self.view(there)
        found = view.versions("past")
        return {is_marker: version for key, version, is_marker in found if key.endswith(name)}

    def view(self, there: Published) -> S3View:
        assert isinstance(there.place, Versions)
        return there.place.view

    def remove(self, there: Published, state: State, *, marker: bool) -> None:
        """Delete one of the versions for good."""
        (name,) = state.files
        key = f"{there.place.url.partition('/past/')[2]}/{name}"
        version = self.versions(there, state)[marker]
        self.view(there).s3_client().delete_object(Bucket="past", Key=key, VersionId=version)

    def expired(self, there: Published) -> set[str]:
        """What is noticed after an expiry that did nothing, though time was over."""
        (name,) = there.first.files
        there.judge.ledger.promised[name] = int(time.time() * 1000) - 1000
        now = time.time() * 1000
        return there.look(Done(Deed("expire", "run"), now, now, status=0))

    def test_is_content_with_what_was_published(self, there: Published):
        assert there.look() == set(), there.judge.said
        assert there.place.names() == set(there.second.files)
        assert there.judge.names == {*there.first.files, *there.second.files}

    def test_notices_a_kept_version_that_is_gone(self, there: Published):
        self.remove(there, there.first, marker=False)
        assert "deleted_early" in there.look()

    def test_notices_a_replaced_file_that_is_listed(self, there: Published):
        self.remove(there, there.first, marker=True)
        assert "wrong_now" in there.look()
        seen = Onlookers(there.place, ())
        seen.listed.append(Look(0, 0, names=frozenset(there.place.names())))
        there.judge.figures.clear()
        there.judge.after([], seen)
        assert there.judge.figures["kept_too_long"] == 1

    def test_notices_a_version_that_an_expiry_has_left(self, there: Published):
        assert self.expired(there) == {"kept_too_long"}
        assert "is there after it was expired" in there.judge.said[-1]

    def test_notices_a_marker_that_an_expiry_has_left(self, there: Published):
        self.remove(there, there.first, marker=False)
        assert "kept_too_long" in self.expired(there)
        assert any("has a marker after it was expired" in one for one in there.judge.said)
        there.judge.figures.clear()
        there.judge.check_end()
        assert there.judge.figures["kept_too_long"] == 1

    def test_lets_versions_stay_that_nobody_has_promised(self, there: Published):
        there.judge.ledger.promised.clear()
        assert there.look() == set(), there.judge.said
