"""Other distributions add committers: docs/adding-a-committer.md runs, and what is wrong is refused."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from uuid import uuid4

import pytest

import magicfs
from magicfs import classic
from magicfs.committers import registry
from magicfs.committers.registry import FileOptions
from magicfs.errors import UsageError
from magicfs.runtime import registered

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "adding-a-committer.md").read_text()
OURS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][registry.GROUP]
SHIPPED = ["magic", "directory", "partitioned", "manifest", "file", "direct", "stocator", "task-completing"]

Install = Callable[..., None]


def forget() -> None:
    """Look at what is installed now."""
    registered.load.cache_clear()
    registered._points.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a distribution that registers committers and has some modules."""
    site, before = tmp_path / "site", set(sys.modules)
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))

    def of(name: str, entry_points: Mapping[str, str], **modules: str) -> None:
        metadata = site / f"{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = "".join(f"{key} = {value}\n" for key, value in entry_points.items())
        (metadata / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{lines}")
        for module, code in modules.items():
            (site / f"{module}.py").write_text(code)
        forget()

    forget()
    yield of
    forget()
    for module in set(sys.modules) - before:
        if str(getattr(sys.modules[module], "__file__", None)).startswith(str(site)):
            del sys.modules[module]


def info(**changes: object) -> str:
    """A module that registers a committer of ours under another name, as ``INFO``."""
    return (
        "from dataclasses import replace\nfrom magicfs.classic import DIRECT\n"
        f"INFO = replace(DIRECT, **{changes!r})\n"
    )


def refused(committer: str, words: str, **options: object) -> None:
    with pytest.raises(UsageError, match=words):
        magicfs.Job(f"memory://{uuid4().hex}/sales", committer=committer, options={**options})


# -- the page ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("store", ["memory", "file"])
def test_the_example_of_the_page_publishes_a_job(store: str, install: Install, tmp_path: Path) -> None:
    registration, committer, job = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    project = tomllib.loads(re.findall(r"```toml\n(.*?)```", PAGE, flags=re.DOTALL)[0])["project"]
    files = re.findall(r"^`(\w+)\.py` ", PAGE, flags=re.MULTILINE)
    modules = dict(zip(files, (registration, committer), strict=True))
    install(project["name"], project["entry-points"][registry.GROUP], **modules)
    assert registry.committer_info("inventory").writes == "final files"
    assert "acme_inventory_committer" not in sys.modules, "a committer is loaded when it is made"
    root = f"memory://{uuid4().hex}/sales" if store == "memory" else f"file://{tmp_path}/sales"
    names = dict[str, object]()
    exec(compile(job.replace("memory://bucket/sales", root), "example", "exec"), names)
    done = names["job"]
    assert isinstance(done, magicfs.Job)
    filesystem = done.spec.wrapped()
    listed = filesystem.cat_file(f"{done.spec.location.path}/_inventory.txt").decode().split("\n")
    assert [name.split("-")[:2] for name in listed] == [["part", "0"]] * 2
    assert all(filesystem.exists(f"{done.spec.location.path}/{name}") for name in listed)
    assert b'"inventory"' in filesystem.cat_file(f"{done.spec.location.path}/_SUCCESS")


def test_the_page_quotes_what_is_shipped() -> None:
    quoted = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    assert [one in Path(str(classic.__file__)).read_text() for one in quoted] == [True]


def test_the_page_describes_every_field_of_a_registration() -> None:
    named = re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE)
    assert named == [one.name for one in fields(registry.CommitterInfo)]


# -- ours ----------------------------------------------------------------------------------------------


def test_the_core_has_five_and_ours_are_registered_beside_them() -> None:
    assert list(registry.committers()) == SHIPPED
    assert sorted(OURS) == ["direct", "file.2", "stocator", "task-completing"]
    assert set(registry.CORE).isdisjoint(OURS)
    for name, value in OURS.items():
        assert registered.load(registry.GROUP, name) is getattr(classic, value.partition(":")[2])


# -- what is wrong -------------------------------------------------------------------------------------


def test_an_unknown_name_is_refused_with_the_known_ones_and_where_others_come_from(install: Install) -> None:
    install("acme", {"ours": "acme_info:INFO"}, acme_info=info())
    known = ", ".join([*SHIPPED[:6], "ours", *SHIPPED[6:]])
    refused("magik", rf"^committer='magik' is unknown; choose one of {known}; others come with packages")


@pytest.mark.parametrize("code", ["import nowhere", "INF = 1", "def", "raise OSError('no licence')"])
def test_a_committer_that_cannot_be_loaded_is_refused_alone(code: str, install: Install) -> None:
    install("acme", {"broken": "acme_info:INFO"}, acme_info=code)
    refused("broken", r"'broken' of magicfs.committers comes from acme and cannot be used")
    refused("magik", "choose one of " + ", ".join(SHIPPED))
    magicfs.Job(f"memory://{uuid4().hex}/sales", committer="direct")


@pytest.mark.parametrize("home", ["nowhere:Committer", "magicfs.classic.direct:Nothing", "acme_broken:It"])
def test_a_committer_without_a_home_is_refused_when_it_is_made(home: str, install: Install) -> None:
    install("acme", {"homeless": "acme_info:INFO"}, acme_info=info(home=home), acme_broken="def")
    job = magicfs.Job(f"memory://{uuid4().hex}/sales", committer="homeless")
    with pytest.raises(UsageError, match=r"'homeless' of magicfs.committers comes from acme and cannot"):
        job.setup()


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("odd", {"place": ""}, "names no place for them"),
        ("odd", {"writes": "work files", "driven": True}, "only file, manifest and their variants rename"),
        ("odd one", {"writes": "delayed uploads", "driven": True}, "under a job object is one word"),
    ],
)
def test_what_none_can_be_is_refused(
    name: str, changes: dict[str, object], words: str, install: Install
) -> None:
    install("acme", {name: "acme_info:INFO"}, acme_info=info(**changes))
    refused(name, f"comes from acme and cannot be used .*{words}")


def test_what_is_no_registration_is_refused(install: Install) -> None:
    install("acme", {"text": "acme_info:INFO"}, acme_info="INFO = 'direct'")
    refused("text", "it is a str, no CommitterInfo")


def test_two_distributions_with_one_name_are_refused_by_name(install: Install) -> None:
    install("acme", {"ours": "acme_info:INFO", "alone": "acme_info:INFO"}, acme_info=info())
    install("other", {"ours": "acme_info:INFO"})
    refused(
        "ours", r"^'ours' of magicfs.committers is registered by (acme and other|other and acme); nothing was"
    )
    magicfs.Job(f"memory://{uuid4().hex}/sales", committer="alone")


def test_nobody_takes_a_name_of_the_core_or_of_ours(install: Install) -> None:
    install("acme", {"magic": "acme_info:INFO", "direct": "acme_info:INFO"}, acme_info=info())
    assert registry.committer_info("magic") is registry.CORE["magic"]
    assert registry.committers()["magic"] is registry.CORE["magic"]
    refused("direct", "is registered by (acme and magicfs|magicfs and acme)")


# -- variants ------------------------------------------------------------------------------------------


def test_an_option_chooses_another_committer(install: Install) -> None:
    assert registry.committer_info("file", FileOptions()) is registry.CORE["file"]
    assert registry.committer_info("file", FileOptions(algorithm=2)) is classic.ALGORITHM_2
    install("acme", {"file.3": "acme_info:INFO"}, acme_info=info())
    found = registry.committer_info("file", FileOptions(algorithm=3))
    assert found == registry.committer_info("direct")
    refused("file", "^algorithm=4 is unknown; choose 1 or 2 or 3$", algorithm=4)


@pytest.mark.parametrize("algorithm", ["2", 2.0, [2]])
def test_an_option_that_chooses_nothing_is_refused(algorithm: object) -> None:
    refused("file", "^algorithm=.* is unknown; choose 1 or 2$", algorithm=algorithm)


def test_a_variant_has_no_name_for_users() -> None:
    refused("file.2", "^committer='file.2' is unknown")
