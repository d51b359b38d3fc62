"""What each command prints with ``--json`` is what its schema says, no more and no less."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import magicfs
import magicfs.seal
from magicfs.catalogs.recorded import NOTIFICATIONS
from magicfs.cli import main as cli
from magicfs.cli.main import commands_of
from magicfs.formats.registration import Registration
from magicfs.protocol.job_state import JobState
from magicfs.runtime import registered
from magicfs.upkeep.policy import POINTS
from proofs.scenes.unfinished import Bucket, died_in, written
from website.schemas import DRAFT, error, kinds, schemas

Ran = Callable[..., Any]


@pytest.fixture
def bucket() -> Bucket:
    return Bucket(f"b-{uuid4().hex[:8]}")


@pytest.fixture
def url(bucket: Bucket) -> str:
    return bucket.url("sales")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Ran:
    """Runs a command, and returns its document, which is as the schema of this name says."""

    def main(name: str, *arguments: str) -> Any:
        cli.main(["--json", *arguments])
        said = capsys.readouterr()
        assert said.err == ""
        document = json.loads(said.out)
        check(document, schemas()[name])
        return document

    return main


def check(document: object, schema: dict[str, Any]) -> None:
    kind = jsonschema.Draft202012Validator
    kind.check_schema(schema)
    kind(closed(schema)).validate(document)


def closed(schema: Any) -> Any:
    """The same that allows no other fields, so that one which is added is described."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: closed(one) for name, one in schema.items()}
    return made | ({"additionalProperties": False} if "properties" in schema and "required" in schema else {})


@pytest.fixture
def parquet(tmp_path: Path) -> str:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"day": ["1", "2"], "n": [1, 2]}), path)
    return str(path)


def test_publishing(run: Ran, url: str, parquet: str, bucket: Bucket) -> None:
    run("write --dry-run", "write", parquet, url, "--dry-run")
    assert run("write", "write", parquet, url)["rows"] == 2
    filesystem = magicfs.MagicFileSystem(target_protocol="memory")
    for name in ("mine", "others"):
        filesystem.pipe_file(f"{bucket.name}/sales/__magic/{name}/a.bin", b"1")
    run("job publish", "job", "publish", f"{url}/__magic/mine")
    run("job discard", "job", "discard", f"{url}/__magic/others")


@pytest.mark.process
def test_jobs_of_processes(run: Ran, url: str, parquet: str) -> None:
    for end in ("commit", "abort"):
        job = run("job setup", "job", "setup", url, "--mode", "append")["job"]
        assert run("job task", "job", "task", job, "0", parquet)["files"] == 1
        failed = run("job task", "job", "task", job, "1", "--", "false") if end == "abort" else None
        assert failed is None or failed["status"] == 1
        run(f"job {end}", "job", end, job)
        if end == "commit":
            assert run("job commit", "job", "commit", job)["published"]


def test_looking(run: Ran, url: str, bucket: Bucket) -> None:
    job = written(url)
    run("doctor", "doctor", url)
    assert run("uploads", "uploads", url)["count"] == 3
    job.commit()
    written(url)
    run("recover", "recover", url, "--abort", "--reason", "no")
    run("log", "log", url)
    assert run("log", "log", url, "--all")["operations"]
    run("verify", "verify", url)
    assert run("show", "show", f"{url}/_SUCCESS")["kind"]


def test_status_and_policy(run: Ran, url: str, bucket: Bucket) -> None:
    written(url).commit()
    written(url)
    assert run("status", "status", url)["files"]
    assert run("status of a bucket", "status", bucket.url("").rstrip("/"))["destinations"]
    assert run("policy", "policy", "s3://bucket/sales", "--role", "worker")


def test_releases_and_seals(run: Ran, url: str, bucket: Bucket) -> None:
    written(url).commit()
    release = bucket.url("marts")
    assert run("release --show", "release", release, "--add", url)["number"] == 1
    assert run("release", "release", release)["releases"]
    run("release --show", "release", release, "--tag", "good")
    run("release --untag", "release", release, "--untag", "good")
    run("release --expire", "release", release, "--expire", "1d")
    magicfs.seal.use(url, b"k" * 32)
    try:
        assert run("seal", "seal", url, "--dry-run")["sealed"]
    finally:
        magicfs.seal.forget()


def test_repairing(run: Ran, url: str, bucket: Bucket) -> None:
    bucket.put("sales/a.bin")
    assert run("recover", "recover", url)["jobs"] == []
    died_in(JobState.COMMITTING, url)
    assert run("recover", "recover", url, "--dry-run")["undecided"]
    assert run("recover", "recover", url)["jobs"]
    job = written(url)
    run("recover --commit --dry-run", "recover", url, "--job", job.id, "--commit", "--dry-run")
    run("recover --commit", "recover", url, "--job", job.id, "--commit")
    written(bucket.url("sales/below"))
    assert run("recover", "recover", url)["below"]
    bucket.put("other/a.parquet", b"x")
    run("adopt", "adopt", bucket.url("other"))


def test_the_past_and_maintenance(run: Ran, url: str, parquet: str) -> None:
    first = run("write", "write", parquet, url)["job_id"]
    run("write", "write", parquet, url, "--mode", "append")
    run("tag", "tag", url, "good")
    run("tag", "tag", url, "good", "--delete")
    run("rollback", "rollback", url, "--to", first, "--keep", "7d", "--dry-run")
    run("rollback", "rollback", url, "--to", first, "--keep", "7d")
    run("drop", "drop", url, "--where", "file.size > 9999999", "--keep", "7d", "--dry-run")
    run("drop", "drop", url, "--where", "file.size > 0", "--keep", "7d")
    run("maintain", "maintain", url, "--dry-run")
    run("write", "write", parquet, url, "--mode", "append")
    assert {"expire", "compact", "rewrite"} <= run("maintain", "maintain", url, "--rewrite", "1M").keys()


def test_each_part_of_a_policy(run: Ran, url: str, bucket: Bucket, parquet: str, tmp_path: Path) -> None:
    first = run("write", "write", parquet, url)["job_id"]
    run("write", "write", parquet, url, "--mode", "append")
    run("drop", "drop", url, "--where", "file.size > 0", "--keep", "1s")
    run("write", "write", parquet, url, "--mode", "append")
    died_in(JobState.COMMITTING, url)
    bucket.put(f"sales/__magic_job-{first}/job-{first}/00/tasks/a/__base/late.bin.pending", b"{}")
    for kind in ("iceberg", *NOTIFICATIONS):
        owed = Registration(job_id=first, catalog=kind, table="a.b", options=None)
        bucket.put(f"sales/_magicfs/.catalogs/{owed.name}", owed.to_bytes())
    # Two run from the command line only, and no job has had an alias.
    parts = set(registered.names(POINTS)) - {"alias", "notify", "register"}
    policy = tmp_path / "policy.toml"
    said = {"recover": 'finish_after = "1s"', "sweep": 'older_than = "1s"'}
    policy.write_text("".join(f"[{one}]\n{said.get(one, '')}\n" for one in [*parts, "alias"]))
    time.sleep(1.1)
    for options in (["--dry-run"], []):
        [document] = run("maintain --policy", "maintain", url, "--policy", str(policy), *options)["datasets"]
        assert {name for name in parts if document[name] and "error" not in document[name]} == parts - {
            "alias"
        }  # there is none
    assert len(run("maintain", "maintain", url, "--only", "notify", "--dry-run")["notify"]) == 3
    assert run("maintain", "maintain", url, "--only", "register", "--register", "symlink", "--dry-run")
    assert run("maintain", "maintain", url, "--only", "register", "--register", "symlink")["register"][
        "changed"
    ]


def test_a_part_of_maintenance_that_fails(run: Ran, url: str) -> None:
    assert "error" in run("maintain", "maintain", url, "--rewrite", "1M")["rewrite"]


def test_no_command_is_forgotten() -> None:
    described = {name.partition(" ")[0] for name in schemas()}
    assert described == {*commands_of()}, "describe its JSON in website/schemas.py"


@pytest.mark.parametrize(
    ("arguments", "kind", "status"),
    [
        (["verify", "memory://nowhere/x"], "ObjectNotFound", 3),
        (["recover", "s3:/x"], "UsageError", 2),
        (["nonsense"], "UsageError", 2),
        (["recover"], "UsageError", 2),
        (["log", "memory://b/x", "--limit", "0"], "UsageError", 2),
    ],
)
def test_errors_are_one_line_of_json_on_stderr(
    arguments: list[str], kind: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([*arguments, "--json"]) == status
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    document = json.loads(line)
    check(document, error())
    assert (document["kind"], document["exit_status"]) == (kind, status)


def test_an_error_says_what_to_run_next(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        written(url)
    cli.main(["recover", url, "--commit", "--json"])
    assert json.loads(capsys.readouterr().err)["next"] == f"magicfs recover {url}"


def test_kinds_of_errors_and_their_exit_statuses_stay_as_they_are() -> None:
    """Scripts go by them: add kinds, and leave these."""
    assert {name: status for name, (status, _) in kinds().items()} == {
        "UsageError": 2,
        "ProtocolViolation": 2,
        "FormatError": 7,
        "StoreError": 3,
        "ObjectNotFound": 3,
        "ObjectExists": 3,
        "PermissionDenied": 3,
        "PreconditionFailed": 3,
        "UploadNotFound": 3,
        "Unsupported": 3,
        "Unavailable": 3,
        "CommitUnfinished": 6,
        "CommitError": 3,
        "OutputExists": 4,
        "CommitDenied": 4,
        "CommitFailed": 3,
        "AuditFailed": 8,
        "SealBroken": 7,
        "CommitOutcomeUnknown": 5,
        "KeyboardInterrupt": 130,
    }
    assert all(meaning for _, meaning in kinds().values())
    assert DRAFT.startswith("https://json-schema.org/")
