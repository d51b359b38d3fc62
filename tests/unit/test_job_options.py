"""``Job(options={…})``: each option is declared, described and checked; a wrong name says the right one."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import magicfs
from magicfs.cli.main import main
from magicfs.errors import UsageError
from magicfs.formats.job_options import GIVEN, JobOptions
from magicfs.job.checks import OWN

PAGE = Path(__file__).parents[2] / "docs" / "job-options.md"
URL = "memory://options/sales"


def shown(default: object) -> str:
    if default is None or default == ():
        return "none"
    if type(default) is int and default >= 2**20:
        return f"{default >> 20} MiB"
    return f'`"{default}"`' if isinstance(default, str) else f"`{default}`"


def test_the_page_describes_every_option_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| ", PAGE.read_text(), flags=re.MULTILINE)
    declared = {name: one.default for name, one in GIVEN.items()} | OWN
    assert rows == sorted((name, shown(default)) for name, default in declared.items())


@pytest.mark.parametrize("name", GIVEN)
def test_an_option_that_is_given_stands_where_it_is_declared(name: str) -> None:
    one = GIVEN[name]
    value: Any = not one.default if type(one.default) is bool else "memory" if name == "tracking" else 7
    asked = JobOptions.asked({name: value}, committer="magic", mode="append")
    if one.group is not JobOptions:
        [at] = [field.name for field in fields(JobOptions) if field.default_factory is one.group]
        assert getattr(getattr(asked, at), one.field) == value
    else:
        assert getattr(asked, one.field) == value


def test_none_is_the_default() -> None:
    plain = magicfs.Job(URL).spec.options
    assert magicfs.Job(URL, options=dict.fromkeys([*GIVEN, *OWN])).spec.options == plain


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            {"options": {"footer": True}},
            "committer='magic' has no option 'footer'; nothing was changed; did you mean 'footers'",
        ),
        ({"options": {"footers": "no"}}, "options={'footers': 'no'}: expected true or false, found text"),
        ({"options": {"part_size": "64M"}}, "{'part_size': '64M'}: expected an integer, found text"),
        ({"options": {"part_size": True}}, "expected an integer, found true or false; nothing was changed"),
        ({"options": {"warn_below": -5}}, "{'warn_below': -5}: outside 1 to"),
        ({"options": {"label": 5}}, "{'label': 5}: expected text, found a number"),
        ({"options": {"extra_destinations": 5}}, "expected a list, found a number"),
        ({"options": {"audit_failure": "stop"}}, "audit_failure='stop' is unknown; choose one of"),
        (
            {"options": {"mode": "append"}},
            "has no option 'mode'; nothing was changed; options are after, alias, allow_empty",
        ),
        (
            {"unique_names": False},
            "unique_names= is not an argument of magicfs.Job; nothing was changed; write options={'unique_",
        ),
        ({"committer_options": {}}, "pass them in options={…}, too"),
        ({"conflict": "replace"}, "write mode='error', 'append', 'overwrite' or 'overwrite_partitions'"),
        ({"partitionBy": "day"}, "use partition_by=['day']"),
        ({"keep_replaced": "7d"}, "use keep='7d'"),
        ({"predicate": "day = '2026-11-25'"}, "use mode='overwrite_partitions'"),
        ({"comitter": "magic"}, "did you mean 'committer'?"),
        ({"colour": "red"}, "colour= is not an argument of magicfs.Job; nothing was changed; leave it out"),
    ],
)
def test_what_nothing_has_is_refused_with_what_to_write(how: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        magicfs.Job(URL, **how)


def test_a_label_is_kept_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = magicfs.Job(f"file://{tmp_path}/sales", options={"label": "airflow: nightly, 3 May"}).setup()
    [path] = tmp_path.rglob("job.json")
    assert main(["show", str(path)]) == 0
    assert "airflow: nightly, 3 May" in capsys.readouterr().out
    job.abort()
