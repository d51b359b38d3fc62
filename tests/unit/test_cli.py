from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

import magicfs
from magicfs import errors
from magicfs.cli import main as cli
from magicfs.cli import statuses
from magicfs.cli.printing import print_table, printable
from magicfs.cli.storage import parse_storage_options
from magicfs.engine import Engine
from magicfs.operate.prices import Price
from magicfs.operate.uploads import survey
from magicfs.protocol.paths import parse_url
from magicfs.protocol.period import human_age
from magicfs.report import JobReport
from magicfs.stores import backends
from magicfs.stores.memory.filesystem import MemoryFileSystem
from magicfs.stores.memory.store import default_world
from magicfs.transaction.outcome import ended
from proofs.scenes.known import all_ended

GOLDEN = Path(__file__).parents[1] / "golden"
HOSTILE = "día 1/50% +#ä.parquet"


@pytest.fixture
def bucket() -> str:
    name = f"b-{uuid4().hex[:8]}"
    default_world().create_bucket(name)
    return name


def run_program(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "magicfs.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


def write_task(job: magicfs.Job, task: int | str, *names: str) -> magicfs.Task:
    opened = job.task(task).setup()
    for name in names:
        opened.filesystem.pipe_file(f"{opened.path}/{name}", name.encode())
    all_ended()
    return opened


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def pending_document(capsys: pytest.CaptureFixture[str], url: str) -> tuple[int, dict[str, object]]:
    code = cli.main(["uploads", url, "--json"])
    (line,) = lines_of(capsys)
    return code, json.loads(line)


@pytest.mark.process
class TestProgram:
    def test_version_is_printed_by_the_program(self):
        done = run_program("--version")
        assert (done.returncode, done.stdout, done.stderr) == (0, f"magicfs {magicfs.__version__}\n", "")

    def test_version_as_json_is_one_compact_line(self):
        assert run_program("--version", "--json").stdout == f'{{"version":"{magicfs.__version__}"}}\n'

    def test_no_command_prints_the_help_to_stderr_and_exits_2(self):
        done = run_program()
        assert (done.returncode, done.stdout) == (2, "")
        assert "uploads" in done.stderr

    def test_unknown_command_exits_2(self):
        assert run_program("destroy").returncode == 2

    def test_a_file_of_another_kind_exits_7_without_a_traceback(self, tmp_path):
        (tmp_path / "notes.txt").write_text("{}")
        done = run_program("show", str(tmp_path / "notes.txt"))
        assert (done.returncode, done.stdout) == (7, "")
        assert "expected a .pending file" in done.stderr
        assert "Traceback" not in done.stderr

    def test_reader_that_goes_away_leaves_no_traceback(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        command = [sys.executable, "-m", "magicfs.cli", "show", str(GOLDEN / "s3a_SUCCESS.json")]
        done = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, timeout=60, check=False)
        os.close(write_end)
        assert (done.returncode, done.stderr) == (141, b"")

    def test_importing_the_command_line_loads_nothing_heavy(self):
        code = "import sys, magicfs.cli.main; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        heavy = {
            "fsspec",
            "s3fs",
            "boto3",
            "botocore",
            "pyarrow",
            "pandas",
            "pyspark",
            "rich",
            "tqdm",
            "asyncio",
        }
        assert not heavy & set(done.stdout.split())

    def test_describing_the_commands_loads_nothing_heavy(self):
        code = "import sys, magicfs.cli.main as cli; cli.main(['completion', '-h']); print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert not {"fsspec", "boto3", "pyarrow", "pandas", "pyspark"} & set(done.stdout.split())


class TestExitCodes:
    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (errors.UsageError("x"), 2),
            (errors.ProtocolViolation("x"), 2),
            (errors.FormatError("path", "field", "x"), 7),
            (errors.ObjectNotFound("get", "b/k", "x"), 3),
            (errors.PermissionDenied("get", "b/k", "x"), 3),
            (errors.Unavailable("get", "b/k", "x"), 3),
            (errors.CommitFailed("x"), 3),
            (errors.OutputExists("x"), 4),
            (errors.CommitDenied("x"), 4),
            (errors.CommitOutcomeUnknown("x"), 5),
            (errors.CommitUnfinished("x", JobReport.before("j", "s3://b/d", "magic", "append")), 6),
            (errors.AuditFailed("x"), 8),
            (KeyboardInterrupt(), 130),
        ],
    )
    def test_each_kind_of_error_has_its_exit_status(self, error, code):
        assert statuses.exit_code(error) == code

    def test_every_class_of_the_error_tree_has_an_exit_status_of_its_own_kind(self):
        kinds = [getattr(errors, name) for name in errors.__all__]
        found = {kind: statuses.exit_code(kind.__new__(kind)) for kind in kinds}
        assert set(found.values()) == {2, 3, 4, 5, 6, 7}
        assert {code for kind, code in found.items() if issubclass(kind, errors.StoreError)} == {3}

    def test_url_without_a_scheme_exits_2(self, capsys):
        assert cli.main(["uploads", "bucket/sales"]) == 2
        assert "write 's3://bucket/sales'" in capsys.readouterr().err

    def test_scheme_that_cannot_delay_uploads_exits_2(self, capsys):
        assert cli.main(["uploads", "ftp://bucket/sales"]) == 2
        assert "no store for ftp://" in capsys.readouterr().err

    def test_message_with_control_characters_is_escaped(self, capsys):
        assert cli.main(["uploads", "no\x1b[31mscheme"]) == 2
        assert "\x1b" not in capsys.readouterr().err


VARIABLES = {
    backends.S3: "AWS_SECRET_ACCESS_KEY",
    backends.GCS: "GOOGLE_APPLICATION_CREDENTIALS",
    backends.AZURE: "AZURE_STORAGE_CONNECTION_STRING",
}
"""Where secrets are found, for each kind of store that takes some."""


class TestStorageOptions:
    @pytest.mark.parametrize(
        ("kind", "name"), [(kind, name) for kind in backends.BACKENDS for name in sorted(kind.secrets)]
    )
    def test_every_secret_is_refused_with_the_variable_that_may_hold_it(self, kind, name, capsys):
        options = json.dumps({name: "hunter2"})
        assert cli.main(["uploads", "s3://bucket/sales", "--storage-options", options]) == 2
        said = capsys.readouterr().err
        assert repr(name) in said
        assert VARIABLES[kind] in said.partition("leave it out and ")[2]
        assert "hunter2" not in said

    @pytest.mark.parametrize(
        "options",
        [
            {"secret": "hunter2"},
            {"key": "hunter2"},
            {"token": "hunter2"},
            {"client_kwargs": {"aws_secret_access_key": "hunter2"}},
            {"s3": {"secret": "hunter2"}},
            {"az": {"sas_token": "sig=hunter2"}},
            {"endpoint_url": "https://user:hunter2@host:9000"},
            {"s3": {"endpoint_url": "https://hunter2@host"}},
            {"config_kwargs": {"proxies": {"https": "http://u:hunter2@proxy:3128"}}},
            {"session_kwargs": {"proxy": "u:hunter2@proxy:3128"}},
            {"anything": ["https://host/?sv=1&sig=hunter2"]},
            {"anything": [{"secret": "hunter2"}]},
        ],
    )
    def test_secret_inside_is_refused_by_name_and_never_repeated(self, options, capsys):
        assert cli.main(["uploads", "s3://bucket/sales", "--storage-options", json.dumps(options)]) == 2
        said = capsys.readouterr().err
        assert "environment" in said
        assert "hunter2" not in said

    @pytest.mark.parametrize(
        "text", ["{", "[]", '"x"', "", "null", "[" * 100_000, '{"a":' * 80 + "1" + "}" * 80, '{"a":NaN}']
    )
    def test_anything_but_a_json_object_is_refused(self, text):
        with pytest.raises(errors.UsageError, match="JSON object"):
            parse_storage_options(text)

    @pytest.mark.process
    def test_output_is_escaped_where_the_terminal_lacks_a_character(self, tmp_path):
        (tmp_path / "é").mkdir()
        (tmp_path / "é" / "a.bin").write_bytes(b"1")
        command = [sys.executable, "-m", "magicfs.cli", "doctor", f"file://{tmp_path}/é", "--read-only"]
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert f"file://{tmp_path}/\\xe9 can be listed" in done.stdout

    def test_options_without_secrets_are_taken_as_they_are(self):
        options = {"endpoint_url": "http://127.0.0.1:9", "client_kwargs": {"region_name": "eu-1"}}
        assert parse_storage_options(json.dumps(options)) == options


class TestPending:
    def test_nothing_pending_exits_0(self, bucket, capsys):
        MemoryFileSystem().pipe_file(f"{bucket}/sales/a.bin", b"1")
        assert cli.main(["uploads", f"memory://{bucket}/sales"]) == 0
        assert lines_of(capsys) == [f"nothing is pending under memory://{bucket}/sales"]

    def test_nothing_pending_as_json_is_an_empty_list(self, bucket, capsys):
        code, document = pending_document(capsys, f"memory://{bucket}")
        assert (code, document["count"], document["pending"]) == (0, 0, [])

    def test_files_of_an_open_task_show_key_size_job_and_age(self, bucket, capsys):
        job = magicfs.Job(f"memory://{bucket}/sales", mode="append").setup()
        write_task(job, 0, HOSTILE)
        code, document = pending_document(capsys, f"memory://{bucket}/sales")
        assert code == 1
        (upload,) = document["pending"]
        assert upload["key"] == f"sales/día 1/50% +#ä-000000-{job.id}.parquet"
        assert upload["bytes"] == len(HOSTILE.encode())
        assert upload["job_id"] == job.id
        assert 0 <= upload["age_seconds"] < 60

    def test_files_of_a_committed_task_show_their_sizes_too(self, bucket, capsys):
        job = magicfs.Job(f"memory://{bucket}/sales", mode="append").setup()
        write_task(job, 0, "a.parquet", "b.parquet").commit()
        _, document = pending_document(capsys, f"memory://{bucket}/sales")
        assert [upload["bytes"] for upload in document["pending"]] == [9, 9]
        assert document["bytes"] == 18

    def test_size_of_a_file_that_is_still_written_is_unknown_and_its_job_is_known(self, bucket, capsys):
        job = magicfs.Job(f"memory://{bucket}/sales", mode="append").setup()
        task = job.task(0).setup()
        file = task.filesystem.open(f"{task.path}/a.parquet", "wb")
        assert cli.main(["uploads", f"memory://{bucket}/sales"]) == 1
        row = lines_of(capsys)[1]
        assert "unknown" in row
        assert job.id in row
        file.discard()

    def test_what_late_tasks_have_left_is_ended_by_the_line_that_is_named(self, bucket, capsys):
        """Where only the names of uploads tell whose they are, as after a job that was aborted."""
        url = f"memory://{bucket}/sales 50% #1"
        job = magicfs.Job(url, mode="append").setup()
        name = f"a-000000-{job.id}.parquet"
        job.abort()
        store = MemoryFileSystem().store(bucket)
        on_loop(MemoryFileSystem(), store.create_upload, f"sales 50% #1/{name}", metadata={})
        assert cli.main(["uploads", url]) == 1
        [line] = [one for one in lines_of(capsys) if one.startswith("to end: ")]
        words = shlex.split(line.removeprefix("to end: magicfs "))
        assert words == ["recover", url, "--job", job.id, "--abort", "--driver-is-dead"]
        assert f"magicfs recover {url} --job {job.id} --abort --driver-is-dead" in str(ended(url, job.id))
        assert cli.main(words[:-1]) == 2, "without the promise it is refused"
        assert cli.main(words) == 0
        assert cli.main(["uploads", url]) == 3, "nothing is left there"

    def test_neighbour_with_a_longer_name_is_not_listed(self, bucket, capsys):
        job = magicfs.Job(f"memory://{bucket}/dataset10", mode="append").setup()
        write_task(job, 0, "a.parquet")
        assert cli.main(["uploads", f"memory://{bucket}/dataset1"]) == 3
        assert "nothing is there" in capsys.readouterr().err
        assert cli.main(["uploads", f"memory://{bucket}/dataset10"]) == 1

    def test_url_above_the_destinations_finds_the_jobs_below(self, bucket, capsys):
        jobs = []
        for name in ("one", "deep/two"):
            job = magicfs.Job(
                f"memory://{bucket}/lake/{name}", mode="append", options={"unique_names": False}
            ).setup()
            write_task(job, 0, "k=v/a.parquet")
            jobs.append(job)
        _, document = pending_document(capsys, f"memory://{bucket}")
        found = {(upload["key"], upload["job_id"], upload["bytes"]) for upload in document["pending"]}
        assert found == {
            ("lake/one/k=v/a.parquet", jobs[0].id, 13),
            ("lake/deep/two/k=v/a.parquet", jobs[1].id, 13),
        }

    def test_upload_of_nobody_is_listed_with_everything_unknown(self, bucket, capsys):
        filesystem = MemoryFileSystem()
        store = filesystem.store(bucket)
        on_loop(filesystem, store.create_upload, "sales/x.parquet", metadata={})
        _, document = pending_document(capsys, f"memory://{bucket}/sales")
        (upload,) = document["pending"]
        assert (upload["bytes"], upload["job_id"]) == (None, None)
        assert document["bytes_unknown"] == 1

    def test_unreadable_record_is_told_on_stderr_and_hides_nothing(self, bucket, capsys):
        job = magicfs.Job(f"memory://{bucket}/sales", mode="append").setup()
        task = write_task(job, 0, "a.parquet")
        task.filesystem.fs.pipe_file(f"{task.path}/a.parquet.pending", b"{")
        code = cli.main(["uploads", f"memory://{bucket}/sales", "--json"])
        said = capsys.readouterr()
        assert code == 1
        assert "a.parquet.pending" in said.err
        (upload,) = json.loads(said.out)["pending"]
        assert (upload["bytes"], upload["job_id"]) == (None, job.id)

    def test_committed_job_leaves_nothing_pending(self, bucket, capsys):
        with magicfs.Job(f"memory://{bucket}/sales", mode="append") as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/a.parquet", b"a")
        assert cli.main(["uploads", f"memory://{bucket}/sales"]) == 0

    def test_other_objects_of_a_large_dataset_are_never_listed(self, bucket):
        filesystem = MemoryFileSystem()
        for number in range(20):
            filesystem.pipe_file(f"{bucket}/sales/k={number}/old.parquet", b"x")
        job = magicfs.Job(f"memory://{bucket}/sales", mode="append").setup()
        write_task(job, 0, *(f"k={number}/new.parquet" for number in range(20)))
        store = Recording(filesystem.store(bucket))
        location = parse_url(f"memory://{bucket}/sales")
        found = on_loop(filesystem, survey, Engine(store, 8), location, Price(None, ""))
        assert found.total.uploads == 20
        assert store.listed == [f"sales/__magic_job-{job.id}/"]


class Recording:
    def __init__(self, store) -> None:
        self._store = store
        self.listed: list[str] = []

    def __getattr__(self, name: str):
        return getattr(self._store, name)

    def list(self, prefix, *, limit=None):
        self.listed.append(prefix)
        return self._store.list(prefix, limit=limit)


def on_loop(
    filesystem: MemoryFileSystem, function: Callable[..., object], *arguments: object, **options: object
):
    from fsspec.asyn import sync

    return sync(filesystem.loop, function, *arguments, **options)


class TestShow:
    @pytest.mark.parametrize("name", ["g2.pending", "g3.pending", "g2.pendingset", "g3.pendingset"])
    def test_golden_file_is_shown_with_the_key_that_it_becomes(self, name, capsys):
        assert cli.main(["show", str(GOLDEN / name)]) == 0
        assert "lake/trips/city=Zürich/50% +#1 è.parquet" in capsys.readouterr().out

    def test_every_record_that_is_written_is_shown(self, capsys):
        """A new format is found by its name, which stands in the source."""
        source = Path(magicfs.__file__).parent
        written = {
            found
            for path in source.rglob("*.py")
            for found in re.findall(r'"magicfs\.([a-z-]+)/1"', path.read_text())
        }
        travels_only = {"files"}  # in the commit of a task
        assert {"operation", "release", "job"} <= written
        for name in written - travels_only:
            assert cli.main(["show", str(GOLDEN / f"magicfs_{name}_1.json")]) == 0
            assert re.search(r"^kind  .*\(.+\)$", capsys.readouterr().out, re.MULTILINE)

    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ("operation", [r"^verb +rollback$", r"^user +zoë$", r"^reason +día 1 was wrong$"]),
            (
                "release",
                [r"^3 .* 2{32} *$", r"^1 .* 1{32} +día 0 +quarter 1/ü$", r"^día 1 .*s3://lake/día 1$"],
            ),
        ],
    )
    def test_records_of_guests_are_shown(self, name, shown, capsys):
        assert cli.main(["show", str(GOLDEN / f"magicfs_{name}_1.json")]) == 0
        said = capsys.readouterr().out
        assert all(re.search(one, said, re.MULTILINE) for one in shown), said

    @pytest.mark.parametrize("name", ["s3a_SUCCESS.json", "manifest_committer_SUCCESS.json"])
    def test_success_file_is_shown_with_its_committer_and_files(self, name, capsys):
        assert cli.main(["show", str(GOLDEN / name)]) == 0
        shown = capsys.readouterr().out
        document = json.loads((GOLDEN / name).read_text())
        assert document["committer"] in shown
        assert all(filename in shown for filename in document["filenames"])

    def test_success_of_a_job_is_read_from_its_url(self, bucket, capsys):
        with magicfs.Job(f"memory://{bucket}/sales", mode="append") as job, job.task(0) as task:
            task.filesystem.pipe_file(f"{task.path}/{HOSTILE}", b"a")
        assert cli.main(["show", f"memory://{bucket}/sales/_SUCCESS"]) == 0
        shown = capsys.readouterr().out
        assert job.id in shown
        assert "50% +#ä" in shown

    def test_metrics_of_0_are_counted_and_not_listed(self, tmp_path, capsys):
        document = json.loads((GOLDEN / "s3a_SUCCESS.json").read_text())
        document["metrics"] = {"object_put_requests": 12} | {f"action_{number}": 0 for number in range(188)}
        (tmp_path / "_SUCCESS").write_text(json.dumps(document))
        assert cli.main(["show", str(tmp_path / "_SUCCESS")]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("metric")]
        assert lines == [["metric", "object_put_requests", "12"], ["metrics", "of", "0", "188"]]

    def test_file_url_is_a_local_path(self, capsys):
        assert cli.main(["show", f"file://{GOLDEN / 'g3.pending'}"]) == 0

    def test_missing_local_file_exits_2(self, tmp_path, capsys):
        assert cli.main(["show", str(tmp_path / "nothing")]) == 2
        assert "cannot be read" in capsys.readouterr().err

    def test_missing_object_exits_3(self, bucket, capsys):
        assert cli.main(["show", f"memory://{bucket}/sales/_SUCCESS"]) == 3

    def test_bucket_in_place_of_a_file_exits_2(self, bucket, capsys):
        assert cli.main(["show", f"memory://{bucket}"]) == 2

    def test_escape_sequences_in_a_file_do_not_reach_the_terminal(self, tmp_path, capsys):
        document = json.loads((GOLDEN / "g3.pending").read_text())
        document["text"] = "\x1b]0;owned\x07"
        (tmp_path / "x.pending").write_text(json.dumps(document))
        assert cli.main(["show", str(tmp_path / "x.pending")]) == 0
        shown = capsys.readouterr().out
        assert "\x1b" not in shown
        assert "owned" in shown


class TestPrinting:
    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (-5, "0 s"),
            (0, "0 s"),
            (59.9, "59 s"),
            (60, "1 min"),
            (3599, "59 min"),
            (3600, "1 h 0 min"),
            (86399, "23 h 59 min"),
            (90000, "1 d 1 h"),
        ],
    )
    def test_age_is_told_in_its_two_largest_units(self, seconds, text):
        assert human_age(seconds) == text

    def test_ordinary_unicode_stays_and_control_characters_are_escaped(self):
        assert printable("Zürich 東京\n\u202e") == "Zürich 東京\\n\\u202e"

    def test_columns_are_as_wide_as_their_widest_cell(self, capsys):
        print_table(("A", "B"), [("long", "x"), ("s", "y")])
        assert lines_of(capsys) == ["A     B", "long  x", "s     y"]
