"""The machinery of the benchmarks: what is compared with what, and that nothing is made up on the way."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from benchmarks import main as command
from benchmarks import page
from benchmarks.crew import Absent, Turn, take_turns
from benchmarks.figures import Figure, Sample, ratio_of
from benchmarks.groups import GROUPS, groups_of
from benchmarks.pictures import PICTURES, drawn
from benchmarks.session import Session, SideTimes
from benchmarks.stub import Stub
from benchmarks.stub_answers import Content
from benchmarks.table import as_text, cells
from benchmarks.targets import RUNS, TARGETS, Target, of_run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
JOB = "/bucket/dest/__magic_job-1/job-1/"


# -- figures and targets -----------------------------------------------------------------------------------


def test_a_ratio_is_that_of_the_medians_and_its_spread_that_of_the_rounds() -> None:
    found = ratio_of([2.0, 9.0, 4.0], [4.0, 3.0, 2.0])
    assert found == Figure(4 / 3, 0.5, 3.0, 3)
    with pytest.raises(ValueError, match="3 rounds cannot be compared with 2"):
        ratio_of([1, 2, 3], [1, 2])


def test_a_figure_is_the_median_of_its_rounds() -> None:
    assert Figure.of([5, 1, 3]) == Figure(3, 1, 5, 3)


def test_a_target_is_met_at_its_limit_and_not_beyond() -> None:
    least, most = Target("a", "bench", "a", at_least=2.5), Target("b", "bench", "b", "ms", at_most=0.25)
    assert [least.is_met(value) for value in (2.49, 2.5, 3)] == [False, True, True]
    assert [most.is_met(value) for value in (0.251, 0.25, 0.1)] == [False, True, True]
    assert Target("c", "bench", "c").is_met(1) is None
    assert (least.limits, most.limits) == ("≥ 2.5", "≤ 0.25 ms")


def test_targets_have_names_of_their_own_and_one_run_each() -> None:
    assert (
        len({target.name for target in TARGETS}) == len({(t.run, t.measure) for t in TARGETS}) == len(TARGETS)
    )
    assert [target for run in RUNS for target in of_run(run)] == sorted(
        TARGETS, key=lambda t: RUNS.index(t.run)
    )
    assert all(target.at_most or target.at_least for target in TARGETS)


def test_a_table_says_what_was_measured_and_what_was_not() -> None:
    met, missed, absent = (Target(name, "bench", name, at_most=1) for name in ("met", "missed", "absent"))
    figures = {"met": Figure(0.5, 0.25, 0.75, 3), "missed": Figure.exact(2), "other": Figure.exact(7)}
    assert cells(met, figures) == ("met", "0.500 (0.250 to 0.750)", "≤ 1", "yes")
    assert cells(missed, figures)[3] == "no"
    assert cells(absent, figures)[1:] == ("not measured", "≤ 1", "")
    assert as_text([met, missed, absent], figures).endswith("also: other 7.00")


# -- turns -------------------------------------------------------------------------------------------------


def test_sides_take_turns_in_an_order_that_rotates_and_the_first_round_is_discarded() -> None:
    asked: list[str] = []
    cleared: list[str] = []

    def turn(where: str) -> Turn:
        asked.append(where)
        return Turn({"whole": Sample(len(asked), 0)}, {"fallbacks": {"PutObject": 2}})

    session = Session(rounds=2, quiet=True)
    measured = take_turns(session, {"a": turn, "b": turn}, after=cleared.append)
    assert asked == ["warm-up-a", "warm-up-b", "round-0-a", "round-0-b", "round-1-b", "round-1-a"] == cleared
    assert measured.wall_s("a") == [3, 6]
    assert measured.wall_s("b") == [4, 5]
    assert session.fallbacks == {"PutObject": 12}
    assert [(one.side, one.phase, one.wall_s.value) for one in session.sides] == [
        ("a", "whole", 4.5),
        ("b", "whole", 4.5),
    ]


def test_a_side_that_cannot_take_part_is_left_out_only_if_it_is_optional() -> None:
    def absent(where: str) -> Turn:
        raise Absent("peer: Traceback\nImportError: no peer")

    def turn(where: str) -> Turn:
        return Turn({"whole": Sample(1, 1)}, {})

    session = Session(rounds=2, quiet=True)
    measured = take_turns(session, {"peer": absent, "a": turn}, optional=frozenset({"peer"}))
    assert measured.turns.keys() == {"a"}
    assert session.remarks == {"peer": "did not take part: ImportError: no peer"}
    with pytest.raises(Absent):
        take_turns(session, {"peer": absent, "a": turn})


def test_long_rounds_are_measured_less_often() -> None:
    assert [Session().rounds_for(seconds) for seconds in (19, 21)] == [5, 3]
    assert Session(rounds=7).rounds_for(100) == 7


# -- the page ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("run", RUNS)
def test_page_has_every_row_of_the_table_of_targets_and_no_other(run: Any) -> None:
    part = page.part_of(PAGE.read_text(), run)
    [table] = [block for block in part.split("\n\n") if block.startswith("| measure |")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert [(row[0], row[2]) for row in rows[2:]] == [
        (c[0], c[2]) for c in (cells(t, {}) for t in of_run(run))
    ]
    assert page.QUICK not in part


def test_page_tells_of_every_run_and_shows_pictures_that_are_there() -> None:
    text = PAGE.read_text()
    pictures = re.findall(r"!\[[^]]*\]\((performance/[\w.-]+)\)", text)
    assert {path.name for path in (ROOT / "docs" / "performance").glob("*.svg")} == {
        Path(name).name for name in pictures
    }
    for name in pictures:
        ET.fromstring((PAGE.parent / name).read_text())


def test_a_run_writes_its_own_part_of_the_page_and_leaves_all_else(tmp_path: Path) -> None:
    path = tmp_path / "performance.md"
    path.write_text(PAGE.read_text())
    figures = {"commit_cpu_ms": Figure(0.2, 0.1, 0.3, 5), "commit_magicfs_ms": Figure(0.2, 0.1, 0.3, 5)}
    times = SideTimes("commit", "boto3", "commit", *(Figure.exact(seconds) for seconds in (1, 2, 3)))
    page.write(path, "bench", figures, _told(), [times])
    written = path.read_text()
    page.write(path, "bench", figures, _told(), [times])
    assert path.read_text() == written
    assert "| commit | boto3 | commit | 1.00 s | 2.00 s | 3.00 s |" in page.part_of(written, "bench")
    assert "| 0.200 ms (0.100 to 0.300) | ≤ 0.25 ms | yes |" in page.part_of(written, "bench")
    assert "![Job commit of 10,000 files, a server that answers at once](performance/commit.svg)" in written
    for run in ("bench-full", "bench-hadoop"):
        assert page.part_of(written, run) == page.part_of(PAGE.read_text(), run)
    for where in (0, -1):
        assert written.split("<!-- bench")[where] == PAGE.read_text().split("<!-- bench")[where]
    assert "<svg" in (tmp_path / "performance" / "commit.svg").read_text()


def test_a_page_without_the_place_for_a_part_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "performance.md"
    path.write_text("# Performance\n")
    with pytest.raises(ValueError, match="the page needs one line '<!-- bench: written by the run -->'"):
        page.write(path, "bench", {}, _told())
    assert [one.name for one in tmp_path.iterdir()] == ["performance.md"]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.name)
def test_pictures_are_the_same_each_time_and_well_formed(picture: Any) -> None:
    figures = {
        f"{picture.before}{side}{picture.after}": Figure(3.0 + place, 2.0, 9.0, 5)
        for place, side in enumerate(picture.sides)
    }
    [(found, text)] = drawn(picture.run, figures)
    assert found is picture
    assert [(found, text)] == list(drawn(picture.run, figures))
    told = [element.text for element in ET.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
    assert told[0] == picture.title
    assert set(picture.sides.values()) <= set(told)
    assert "prefers-color-scheme: dark" in text


def _told() -> dict[str, Any]:
    machine = {"cores": 2, "cpu": "a", "memory_gb": 8, "system": "b", "python": "3", "load": 0.5}
    return {
        "date": "2026-01-01",
        "machine": machine,
        "versions": {"s3fs": "1"},
        "quick": False,
        "whole_s": 1,
        "fallbacks": {},
        "remarks": {},
    }


# -- the stub ----------------------------------------------------------------------------------------------


def ask(content: Content, method: str, target: str, body: bytes = b"", **headers: str) -> Any:
    return content.answer(
        method, target, {name.replace("_", "-"): value for name, value in headers.items()}, body
    )


def test_stub_honours_conditions_on_what_it_keeps() -> None:
    content = Content()
    etag = dict(ask(content, "PUT", f"{JOB}job.json", b"1", if_none_match="*").headers)["ETag"]
    assert ask(content, "PUT", f"{JOB}job.json", b"2", if_none_match="*").status == 412
    assert ask(content, "PUT", f"{JOB}job.json", b"2", if_match='"other"').status == 412
    assert ask(content, "PUT", f"{JOB}none.json", b"2", if_match=etag).status == 404
    assert ask(content, "GET", f"{JOB}job.json").body == b"1"
    assert ask(content, "DELETE", f"{JOB}job.json", if_match='"other"').status == 412
    assert ask(content, "PUT", f"{JOB}job.json", b"2", if_match=etag).status == 200
    assert ask(content, "DELETE", f"{JOB}job.json").status == 204
    assert ask(content, "GET", f"{JOB}job.json").status == 404


def test_stub_takes_data_and_forgets_it() -> None:
    content = Content()
    assert content.answer("PUT", "/bucket/data/a.bin", {}, None).status == 200
    created = ask(content, "POST", "/bucket/data/b.bin?uploads=").body.decode()
    upload = re.findall("<UploadId>(.*)</UploadId>", created)[0]
    assert upload in ask(content, "GET", "/bucket?uploads&prefix=data/").body.decode()
    part = f"/bucket/data/b.bin?partNumber=1&uploadId={upload}"
    assert "ETag" in dict(content.answer("PUT", part, {}, None).headers)
    assert b"<ETag>" in ask(content, "POST", f"/bucket/data/b.bin?uploadId={upload}", b"<Part/>").body
    assert ask(content, "HEAD", "/bucket/data/b.bin").status == 404
    assert b"<KeyCount>0</KeyCount>" in ask(content, "GET", "/bucket?list-type=2").body
    assert upload not in ask(content, "GET", "/bucket?uploads").body.decode()
    assert content.counts["part"] == content.counts["create"] == content.counts["complete"] == 1
    assert not content.counts["complete of a record"]


def test_stub_lists_page_by_page_and_by_directory() -> None:
    content = Content()
    for number in range(1500):
        ask(content, "PUT", f"{JOB}{number:04d}", b"x")
    first = ask(content, "GET", "/bucket?list-type=2&prefix=dest/").body.decode()
    token = re.findall("<NextContinuationToken>(.*)</NextContinuationToken>", first)[0]
    second = ask(content, "GET", f"/bucket?list-type=2&prefix=dest/&continuation-token={token}").body.decode()
    keys = [key for text in (first, second) for key in re.findall("<Key>(.*?)</Key>", text)]
    assert keys == [f"{JOB.removeprefix('/bucket/')}{number:04d}" for number in range(1500)]
    by_directory = ask(content, "GET", "/bucket?list-type=2&prefix=dest/&delimiter=/").body.decode()
    assert re.findall("<Prefix>(.*?)</Prefix>", by_directory) == ["dest/", "dest/__magic_job-1/"]
    assert "<IsTruncated>false" in by_directory


def test_stub_deletes_in_bulk_what_is_still_the_same() -> None:
    content = Content()
    for name in "ab":
        ask(content, "PUT", f"{JOB}{name}", b"x")
    key = JOB.removeprefix("/bucket/")
    told = f'<Object><Key>{key}a</Key><ETag>"0"</ETag></Object><Object><Key>{key}b</Key></Object>'
    answer = ask(content, "POST", "/bucket?delete", told.encode()).body.decode()
    assert re.findall("<Error><Key>(.*?)</Key><Code>(.*?)</Code>", answer) == [
        (f"{key}a", "PreconditionFailed")
    ]
    assert ask(content, "HEAD", f"{JOB}a").status == 200
    assert ask(content, "HEAD", f"{JOB}b").status == 404


@pytest.mark.process
def test_stub_speaks_to_a_client_of_somebody_else() -> None:
    with Stub() as server:
        client = server.s3_client()
        key = "dest/__magic_job-1/a b+é.json"
        client.put_object(Bucket="bench", Key=key, Body=b"content", Metadata={"told": "1"})
        assert server.read("bench", key) == b"content"
        assert server.metadata("bench", key) == {"told": "1"}
        client.put_object(Bucket="bench", Key="data.bin", Body=bytes(3 * 2**20))
        assert server.all_keys("bench") == [key]
        connection = _connection(server)
        # In HTTP's chunks, and within them in those of S3; then another request on the same connection.
        body = [b"3;chunk-signature=0\r\nabc\r\n", b"0\r\nx-amz-checksum:1\r\n\r\n"]
        connection.request(
            *("PUT", f"/bench/{JOB[8:]}chunks"),
            body=iter(body),
            headers={"Content-Encoding": "aws-chunked"},
            encode_chunked=True,
        )
        assert connection.getresponse().read() == b""
        connection.request("GET", f"/bench/{JOB[8:]}chunks")
        assert connection.getresponse().read() == b"abc"
        connection.close()
        assert server.counts()["put"] == 3


def _connection(server: Stub) -> Any:
    import http.client

    return http.client.HTTPConnection(server.endpoint.removeprefix("http://"), timeout=10)


# -- the command -------------------------------------------------------------------------------------------


def test_every_run_has_groups_or_its_own_command() -> None:
    assert groups_of("bench")
    assert groups_of("bench-full") == ["million", "verbs", "latency-full"]
    assert groups_of("bench-hadoop") == ["hadoop"]
    assert {run for run, _ in GROUPS.values()} <= set(RUNS)


@pytest.mark.process
@pytest.mark.nightly
def test_a_tiny_group_is_measured_from_end_to_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Session, "size", lambda *_: 10)
    assert command.main(["--group", "files", "--quick", "--rounds", "1", "--json", "--allow-fallbacks"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["files_per_core_s"] > 0
    assert told["rounds"]["files_per_core_s"] == 1
    assert told["met"].keys() == {"files_per_core_s"}
    assert told["versions"].keys() >= {"magicfs", "s3fs", "aiobotocore"}
    assert told["machine"]["cores"] >= 1
    assert told["sides"][0][:3] == ["files", "magicfs", "whole"]
    assert all(seconds > 0 for side in told["sides"] for seconds in side[3:5])


@pytest.mark.process
def test_a_profile_tells_shares_of_packages_and_functions() -> None:
    command = [sys.executable, "-m", "benchmarks.loop_profile", "store", "--files", "5", "--top", "3"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    packages, functions = shown.stdout.strip().split("\n\n")
    shares = dict(re.findall(r"^\| ([\w ]+) \| ([\d.]+)% \|$", packages, flags=re.MULTILINE))
    assert float(shares["magicfs"]) > 0
    assert sum(map(float, shares.values())) == pytest.approx(100, abs=2)
    assert len(functions.splitlines()) == 2 + 3


def test_a_request_that_fell_back_fails_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure(session: Session) -> dict[str, Figure]:
        session.fell_back({"PutObject": 1})
        return {"commit_cpu_ms": Figure.exact(9.0)}

    monkeypatch.setattr(command, "measure_of", lambda _: measure)
    assert command.main(["--group", "commit"]) == 1
    assert command.main(["--group", "commit", "--allow-fallbacks"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out.splitlines()[0])["fallbacks"] == {"PutObject": 1}
    assert "fell back to aiobotocore: {'PutObject': 1}" in told.err


def test_targets_that_are_not_met_fail_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "measure_of", lambda _: lambda _: {"commit_cpu_ms": Figure.exact(9.0)})
    assert command.main(["--group", "commit"]) == 0
    assert json.loads(capsys.readouterr().out)["met"] == {"commit_cpu_ms": False}


def test_the_page_is_written_by_whole_runs_only(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        command.main(["--group", "commit", "--write", str(tmp_path / "page.md")])
