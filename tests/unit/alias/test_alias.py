"""An alias shows the only file of its dataset, wherever it lies and whatever shows other files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import magicfs
from magicfs.alias import AliasReport, catch_up, remove
from magicfs.alias.places import AliasPlace, own_name
from magicfs.cli.main import main
from magicfs.datasets import commit
from magicfs.errors import FormatError, UsageError
from magicfs.protocol.paths import Location
from magicfs.stores.memory.filesystem import MemoryFileSystem

NAME = "latest é %+#'.csv"
DATASET = "lake 1/sales +#%ü"


class Lake:
    """A dataset with an alias next to it, on one kind of store."""

    def __init__(self, top: str, alias: str = NAME) -> None:
        self.filesystem = MemoryFileSystem() if top.startswith("memory") else None
        self.top, self.url, self.alias = top, f"{top}/{DATASET}", alias
        self.dataset = magicfs.Dataset(self.url)

    def publish(self, *bodies: bytes, mode: Any = "overwrite", name: str = "a.csv", **how: Any) -> Any:
        how = {"options": {"alias": self.alias}} | how
        with magicfs.Job(self.url, mode=mode, **how) as job:
            for number, body in enumerate(bodies):
                with job.task(number) as task:
                    task.filesystem.pipe_file(f"{task.path}/{name}", body)
        return job.report

    def caught_up(self, **how: Any) -> AliasReport:
        found = catch_up(self.url, **how)
        assert found is not None
        return found

    def left_behind(self, body: bytes, mode: Any = "overwrite") -> Any:
        """What a job without the option reports that may not read the name of the alias."""
        record = f"{DATASET.partition('/')[2]}/_magicfs/.alias.json"
        kept = self.read(record)
        self.put(b"{", record)
        report = self.publish(body, mode=mode, options={})
        self.put(kept or b"", record)
        assert "the files are published, but Alias failed afterwards" in report.warnings[0]
        return report

    def path(self, name: str) -> str:
        return f"{self.top}/lake 1/{name}".removeprefix("memory://")

    def read(self, name: str = "") -> bytes | None:
        path = self.path(name or self.alias)
        if self.filesystem is not None:
            return self.filesystem.cat_file(path) if self.filesystem.exists(path) else None
        return Path(path).read_bytes() if Path(path).exists() else None

    def claims(self) -> list[str]:
        """The records of whose the aliases are."""
        return self.names("_magicfs_aliases")

    def names(self, directory: str) -> list[str]:
        """The files in a directory."""
        path = self.path(directory)
        found = self.filesystem.ls(path, detail=False) if self.filesystem else map(str, Path(path).iterdir())
        return [f"{directory}/{one.rpartition('/')[2]}" for one in found]

    def put(self, body: bytes, name: str = "") -> None:
        path = self.path(name or self.alias)
        if self.filesystem is not None:
            self.filesystem.pipe_file(path, body)
            return
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).unlink(missing_ok=True)
        Path(path).write_bytes(body)


@pytest.fixture(params=["memory", "local"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake(str(tmp_path) if request.param == "local" else f"memory://{tmp_path.name}-alias")


def test_it_follows_each_publication_a_rollback_and_a_drop(lake: Lake) -> None:
    first, second = lake.publish(b"one"), lake.publish(b"three", keep="1d")
    assert lake.read() == b"three"
    back = lake.dataset.rollback(first.job_id)
    assert (lake.read(), back.warnings) == (b"one", ())
    lake.dataset.rollback(second.job_id)
    assert lake.read() == b"three"
    assert [file.key.count("/") for file in lake.dataset.files()] == [0]
    dropped = lake.dataset.drop(where=lambda _: True)
    assert lake.read() is None
    assert "was removed: it shows a dataset of one file, and there are 0 now" in dropped.warnings[0]
    lake.publish(b"four")
    assert lake.read() == b"four"
    lake.publish(options={"alias": NAME, "allow_empty": True})
    assert lake.read() is None


def test_it_is_a_file_of_its_own_and_no_reader_of_the_dataset_sees_it(lake: Lake) -> None:
    lake.publish(b"one")
    (file,) = lake.dataset.files()
    assert lake.dataset.verify().ok
    if lake.filesystem is None:
        assert not Path(file.url.removeprefix("file://")).samefile(lake.path(NAME))
        assert [one.name for one in Path(lake.url).glob("*.csv")] == [file.key]
    lake.put(b"their own words")
    assert lake.dataset.verify(deep=True).ok


def test_it_follows_jobs_without_the_option_too(lake: Lake) -> None:
    first = lake.publish(b"one")
    assert (lake.publish(b"two", keep="1d", options={}).warnings, lake.read()) == ((), b"two")
    lake.publish(b"three", keep="1d", options={})
    assert lake.read() == b"three"
    report = lake.publish(b"four", mode="append", options={})
    assert "was removed: it shows a dataset of one file, and there are 2 now" in report.warnings[0]
    assert lake.read() is None
    lake.publish(b"five", keep="1d", options={})
    assert lake.read() == b"five"
    picked = lake.dataset.cherry_pick(lake.dataset.history()[1].job_id)
    assert "there are 2 now" in picked.warnings[0]
    assert lake.read() is None
    assert first.job_id != report.job_id
    lake.publish(b"six", options={})
    assert remove(lake.url)
    assert (lake.publish(b"seven", options={}).warnings, lake.read()) == ((), None)


def test_it_follows_a_job_that_had_looked_before_the_first_alias(lake: Lake) -> None:
    other = magicfs.Job(lake.url, mode="append").setup()
    with other.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/b.csv", b"two")
    lake.publish(b"one")
    other.commit()
    assert (len(lake.dataset.files()), lake.read()) == (2, None)


@pytest.mark.parametrize(
    "follows", [["keep", "audit"], ["gone"], ["alias", "gone", ".."], [f"gone {n}" for n in range(10_000)]]
)
def test_a_pointer_that_names_what_does_not_follow_asks_nobody(lake: Lake, follows: list[str]) -> None:
    lake.publish(b"one", options={})
    for key in lake.names(f"{DATASET.partition('/')[2]}/_magicfs"):
        if key.rpartition("/")[2].startswith("current"):
            document = json.loads(lake.read(key) or b"")
            lake.put(json.dumps({**document, "follows": follows}).encode(), key)
    report = lake.publish(b"two", options={})
    said = [one for one in report.warnings if "is not installed" in one]
    assert len(said) == len(report.warnings) == min(len({*follows} - {"keep", "audit", "alias"}), 16)
    assert len(lake.dataset.files()) == 1


def test_one_that_was_left_behind_is_brought_along(lake: Lake) -> None:
    lake.publish(b"one")
    other = lake.left_behind(b"two")
    assert lake.read() == b"one"
    assert (lake.caught_up(dry_run=True).done, lake.read()) == ("would move", b"one")
    found = lake.caught_up()
    assert (found.done, found.job_id, lake.read()) == ("moved", other.job_id, b"two")
    assert lake.caught_up().done == "right"


def test_doctor_says_whether_it_shows_the_newest_publication(lake: Lake) -> None:
    def found() -> tuple[str, str]:
        findings = magicfs.Dataset(lake.url).doctor(read_only=True).findings
        return next(((one.verdict, one.told) for one in findings if one.subject == "alias"), ("", ""))

    with magicfs.Job(lake.url, mode="overwrite") as job, job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.csv", b"zero")
    assert found() == ("", "")
    lake.publish(b"one")
    assert found()[0] == "ok"
    lake.left_behind(b"two")
    verdict, said = found()
    assert (verdict, "does not show the newest" in said) == ("look", True)
    assert lake.read() == b"one", "doctor only looks"


def test_of_several_files_it_is_removed_and_comes_back(lake: Lake) -> None:
    lake.publish(b"one")
    lake.left_behind(b"two", mode="append")
    assert lake.caught_up(dry_run=True).done == "would remove"
    found = lake.caught_up()
    assert (found.done, lake.read()) == ("removed", None)
    assert "there are 2 now" in found.problem
    assert lake.caught_up().done == "right"
    lake.dataset.drop(jobs=lake.dataset.history()[0].job_id)
    assert lake.read() == b"one"


def test_a_job_of_several_files_is_refused_before_any_is_visible(lake: Lake) -> None:
    with pytest.raises(UsageError, match=r"publishes 2 files, and alias=.* shows one; nothing was published"):
        lake.publish(b"one", b"two")
    with pytest.raises(magicfs.errors.MagicError):
        lake.dataset.files()
    for mode in ("append", "overwrite_partitions"):
        with pytest.raises(UsageError, match="leaves files of earlier jobs; nothing was changed"):
            lake.publish(b"one", mode=mode)
    assert lake.read() is None


def test_what_another_program_wrote_is_not_replaced(lake: Lake) -> None:
    lake.put(b"theirs")
    with pytest.raises(UsageError, match=r"did not write .* and does not replace it; move it away"):
        lake.publish(b"one")
    assert lake.read() == b"theirs"
    other = Lake(lake.top, "other.csv")
    other.publish(b"one")
    other.put(b"1ne")  # of the same size
    with pytest.raises(UsageError, match="magicfs did not write"):
        other.publish(b"two")
    assert "magicfs did not write" in other.publish(b"two", options={}).warnings[0]
    assert (other.caught_up().done, other.read()) == ("left", b"1ne")
    assert "magicfs did not write" in other.dataset.drop(where=lambda _: True).warnings[0]
    assert other.read() == b"1ne"


def test_another_name_takes_the_place_of_the_first_one(lake: Lake) -> None:
    lake.publish(b"one")
    lake.alias = "current/sales.csv"
    report = lake.publish(b"two")
    assert (lake.read(NAME), lake.read()) == (None, b"two")
    (warning,) = report.warnings
    assert f"/{NAME} was removed: from now on it is " in warning
    assert warning.endswith(f"lake 1/{lake.alias}")
    assert lake.publish(b"three").warnings == ()
    assert remove(lake.url)
    assert (lake.read(), remove(lake.url), catch_up(lake.url)) == (None, False, None)


def test_a_directory_has_the_name_that_the_program_gave(lake: Lake) -> None:
    lake.alias = "newest/"
    first = lake.publish(b"one", name="day=1/a b.tar.gz")
    assert lake.read("newest/a b.tar.gz") == b"one"
    lake.publish(b"two", name="other.csv", keep="1d")
    assert (lake.read("newest/a b.tar.gz"), lake.read("newest/other.csv")) == (None, b"two")
    lake.dataset.rollback(first.job_id)
    assert (lake.read("newest/a b.tar.gz"), lake.read("newest/other.csv")) == (b"one", None)


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("part-0-000000-9e7c1d3a-0000-4000-8000-000000000001.parquet", "part-0.parquet"),
        ("a-0123456789abcdef-copied-9e7c1d3a-0000-4000-8000-000000000001.tar.gz", "a.tar.gz"),
        ("a.csv", "a.csv"),
        ("d/.hidden.csv", ".hidden.csv"),
        ("-000000-9e7c1d3a-0000-4000-8000-000000000001", "-000000-9e7c1d3a-0000-4000-8000-000000000001"),
    ],
)
def test_own_names(name: str, own: str) -> None:
    assert own_name(name) == own


@pytest.mark.parametrize(
    "text",
    [
        *("/latest.csv", "../latest.csv", "a/../b.csv", "./b.csv", "a//b.csv", "s3://other/latest.csv"),
        *("sales", "sales/", "sales/latest.csv", "_magicfs/current.json", "__magic_job-1/x", "_temporary/x"),
        *("a\nb.csv", "a\0b", ".", "..", "x" * 1100, "a?versionId=1"),
    ],
)
def test_names_that_no_alias_can_have_are_refused_before_anything_is_written(
    text: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"nothing was (changed|uploaded)"):
        magicfs.Job(f"{tmp_path}/lake/sales", mode="overwrite", options={"alias": text}).setup()
    assert not [one for one in tmp_path.rglob("*") if one.is_file()]


@pytest.mark.parametrize(
    "text", ["file:///a/x.csv", "file:/a/x.csv", "s3://lake/x", "file:x", "s3:", "a:b/c"]
)
def test_urls_are_refused_with_the_advice_to_give_a_name(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"it looks like a URL; nothing was changed; write a name such as"):
        magicfs.Job(f"{tmp_path}/lake/sales", mode="overwrite", options={"alias": text}).setup()
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize("value", ["", 1, ["a"], b"a"])
def test_values_that_are_no_name_are_refused(value: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"alias.*nothing was changed"):
        magicfs.Job(f"{tmp_path}/sales", options={"alias": value}).setup()


def test_a_bucket_itself_has_nothing_next_to_it() -> None:
    with pytest.raises(UsageError, match="has no directory above it"):
        AliasPlace.of(Location("s3", "bucket", ""), "latest.csv")
    assert AliasPlace.of(Location("s3", "bucket", "sales"), "latest.csv").url() == "s3://bucket/latest.csv"


def test_it_may_lie_in_no_other_dataset_and_be_no_other_datasets(lake: Lake) -> None:
    lake.publish(b"one")
    other = Lake(lake.top)
    other.url = f"{lake.top}/lake 1/stock"
    with pytest.raises(UsageError, match=r"is the alias of .*; choose another name"):
        other.publish(b"x")
    other.alias = f"{DATASET.partition('/')[2]}/x.csv"
    with pytest.raises(UsageError, match=r"lies in the dataset .*; nothing was changed"):
        other.publish(b"x")
    other.publish(b"x", options={"alias": "stock.csv"})
    assert lake.read("stock.csv") == b"x"


def test_committers_without_manifests_refuse_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="alias needs manifests, and committer='direct' writes none"):
        magicfs.Job(f"{tmp_path}/sales", committer="direct", options={"alias": "a.csv"})


def test_commands_bring_it_along(lake: Lake, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lake.publish(b"one")
    lake.left_behind(b"two")
    assert main(["maintain", lake.url, "--only", "alias", "--dry-run"]) == 1
    assert "would move" in capsys.readouterr().out
    assert main(["recover", lake.url, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["alias"]["done"] == "moved"
    assert lake.read() == b"two"
    assert main(["maintain", lake.url, "--only", "alias"]) == 0
    source = tmp_path / "a.csv"
    source.write_text("a\n1\n")
    given = [str(source), lake.url, "--mode", "overwrite", "--any-schema", "--format", "csv", "--alias", NAME]
    assert main(["write", *given]) == 0
    assert b"1" in (lake.read() or b"")
    assert "latest" in capsys.readouterr().out


def test_write_takes_it(lake: Lake) -> None:
    table = pa.table({"a": [1, 2, 3]})
    lake.alias = "latest.parquet"
    magicfs.write(table, lake.url, mode="overwrite", options={"alias": lake.alias})
    body = lake.read()
    assert body is not None
    assert pq.read_table(pa.BufferReader(body)).equals(table)
    with pytest.raises(UsageError, match="shows one"):
        magicfs.write(table, lake.url, mode="overwrite", max_rows_per_file=1, options={"alias": lake.alias})


class TestRecords:
    """Whoever may write to the dataset chooses no place that magicfs writes to."""

    def forged(self, lake: Lake, **fields: Any) -> None:
        document = {"format": "magicfs.alias/1", "alias": NAME, **fields}
        lake.put(json.dumps(document).encode(), f"{DATASET.partition('/')[2]}/_magicfs/.alias.json")

    @pytest.mark.parametrize("name", ["victim.csv", "free.csv", "other/"])
    def test_a_name_of_a_place_without_a_claim_is_not_carried_out(self, lake: Lake, name: str) -> None:
        lake.publish(b"one")
        lake.put(b"theirs", "victim.csv")
        self.forged(lake, alias=name)
        found = lake.caught_up()
        assert found.done == "left"
        assert "no job has claimed" in found.problem
        report = lake.dataset.drop(where=lambda _: True)
        assert "no job has claimed" in report.warnings[0]
        assert (lake.read("victim.csv"), lake.read("free.csv"), lake.read()) == (b"theirs", None, b"one")

    def test_a_job_object_that_names_a_place_makes_no_claim_there(self, lake: Lake) -> None:
        job = magicfs.Job(lake.url, mode="overwrite").setup()
        with job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.csv", b"one")
        # Where nothing can be swapped, each version of the job object is a file of its own.
        for key in lake.names(f"{DATASET.partition('/')[2]}/__magic_job-{job.id}/job-{job.id}"):
            if "/job." in key:
                document = json.loads(lake.read(key) or b"")
                document["options"]["alias"] = "free.csv"
                lake.put(json.dumps(document | {"requires": ["alias"]}).encode(), key)
        report = commit(lake.url, job.id)
        assert "no job has claimed" in report.warnings[0]
        assert lake.read("free.csv") is None
        assert [one.rows for one in lake.dataset.files()] == [None]

    @pytest.mark.parametrize("name", ["../x.csv", "/etc/passwd", "sales +#%ü/x", "", 7, None, "a\nb"])
    def test_a_name_that_is_none_is_refused(self, lake: Lake, name: Any) -> None:
        lake.publish(b"one")
        self.forged(lake, alias=name)
        with pytest.raises(FormatError):
            catch_up(lake.url)
        with pytest.raises(FormatError):
            remove(lake.url)
        lake.publish(b"two")
        assert lake.read() == b"two"

    @pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b'{"format":"magicfs.alias/2"}', b"x" * 70_000])
    def test_what_is_malformed_is_refused(self, lake: Lake, raw: bytes) -> None:
        lake.publish(b"one")
        lake.put(raw, f"{DATASET.partition('/')[2]}/_magicfs/.alias.json")
        with pytest.raises(FormatError):
            catch_up(lake.url)
        lake.publish(b"two")
        assert lake.read() == b"two"
        for name in lake.claims():
            lake.put(raw, name)
        with pytest.raises(FormatError):
            catch_up(lake.url)
        with pytest.raises(FormatError):
            lake.publish(b"three")

    def test_a_claim_of_another_dataset_holds_everybody_off(self, lake: Lake) -> None:
        lake.publish(b"one")
        for name in lake.claims():
            document = json.loads(lake.read(name) or b"")
            lake.put(json.dumps({**document, "dataset": "lake 1/other"}).encode(), name)
        assert "is the alias of" in lake.caught_up().problem


def test_what_the_store_refuses_is_a_warning_and_caught_up(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.publish(b"one")
    kind = "local.store:LocalStore" if lake.filesystem is None else "memory.store:MemoryStore"
    module, _, name = kind.partition(":")

    async def denied(self: Any, source: str, *args: Any, **kwargs: Any) -> int:
        raise magicfs.errors.PermissionDenied("copy", source, "no")

    with monkeypatch.context() as patch:
        patch.setattr(f"magicfs.stores.{module}.{name}.copy", denied)
        report = lake.publish(b"two")
        assert "the files are published, but Alias failed afterwards" in report.warnings[0]
        assert lake.read() == b"one"
    assert (lake.caught_up().done, lake.read()) == ("moved", b"two")
