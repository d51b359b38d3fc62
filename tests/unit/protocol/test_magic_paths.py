"""What a magic path means. The first cases are those of Hadoop's TestMagicCommitPaths, in its own order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import UsageError
from magicfs.protocol.magic import Dialect, MagicPath, locate

M = "__magic_job-7d0c"
HOSTILE = st.text(
    st.one_of(
        st.sampled_from(" %+#?&='\"\\:;,@!$^~|<>[]{}()*._-é日🎈"),
        st.characters(codec="utf-8", exclude_characters="/"),
    ),
    min_size=1,
    max_size=12,
).filter(lambda name: name not in {".", ".."} and "::" not in name and not name.startswith("__"))
NAMES = st.lists(HOSTILE, max_size=4).filter(lambda names: "::" not in "/".join(names))
MAGIC = st.sampled_from(["__magic", M, "__magic_job-"])


def final(*names: str) -> list[str]:
    located = locate("/".join(("bucket", *names)))
    assert located is not None
    return located.final_key.split("/")


def test_path_without_a_magic_element_is_ordinary() -> None:
    assert locate("bucket/first/2") is None


def test_element_after_the_magic_one_lands_in_its_parent() -> None:
    assert final("first", M, "2") == ["first", "2"]


def test_without_base_only_the_last_element_is_kept() -> None:
    assert final("first", M, "2", "3.txt") == ["first", "3.txt"]


def test_magic_at_the_root_of_the_bucket_lands_in_the_root() -> None:
    assert final(M, "2", "3.txt") == ["3.txt"]


def test_base_right_after_the_magic_element() -> None:
    assert final(M, "__base", "3.txt") == ["3.txt"]


def test_elements_after_base_are_kept() -> None:
    assert final(M, "4", "__base", "2", "3.txt") == ["2", "3.txt"]


def test_base_before_the_magic_element_is_an_ordinary_name() -> None:
    assert final("__base", "home", M, "2", "3.txt") == ["__base", "home", "3.txt"]


def test_second_base_survives_in_the_destination() -> None:
    assert final(M, "a", "__base", "x", "__base", "y") == ["x", "__base", "y"]


def test_first_of_two_magic_elements_counts() -> None:
    assert final("dest", M, "a", "__base", "__magic", "b") == ["dest", "__magic", "b"]


@pytest.mark.parametrize(
    "path", [f"bucket/{M}", f"bucket/dest/{M}", "bucket/dest/__magic", f"bucket/dest/{M}/"]
)
def test_magic_path_without_a_child_names_no_file(path: str) -> None:
    located = locate(path)
    assert located is not None
    with pytest.raises(UsageError, match="add a task directory and a name"):
        _ = located.final_key


@pytest.mark.parametrize(
    "path", [f"bucket/{M}/__base", "bucket/dest/__magic/job/task/__base", f"bucket/{M}/__base/"]
)
def test_base_as_the_last_element_names_no_file(path: str) -> None:
    located = locate(path)
    assert located is not None
    with pytest.raises(UsageError, match="'__base'; add a name"):
        _ = located.final_key


@pytest.mark.parametrize("path", [f"{M}/a/b", "__magic/a/b", M])
def test_magic_element_as_the_bucket_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="put the bucket before it"):
        locate(path)


def test_empty_bucket_is_refused() -> None:
    with pytest.raises(UsageError, match="has no bucket"):
        locate("/__magic/a/b")


@pytest.mark.parametrize("name", ["a::b", "../b", "./b"])
def test_names_that_mean_two_things_are_refused_under_magic(name: str) -> None:
    with pytest.raises(UsageError, match="contains"):
        locate(f"bucket/dest/__magic/job/__base/{name}")


@pytest.mark.parametrize("name", ["part.parquet.pending", "task_1.pendingset", ".pending"])
def test_own_files_of_the_committer_are_ordinary_writes(name: str) -> None:
    located = locate(f"bucket/dest/{M}/job/{name}")
    assert located is not None
    assert not located.is_delayed


@pytest.mark.parametrize("name", ["part.pending.parquet", "pending", "x.pendingsets"])
def test_names_that_only_look_like_the_committers_are_delayed(name: str) -> None:
    located = locate(f"bucket/dest/{M}/job/{name}")
    assert located is not None
    assert located.is_delayed


@pytest.mark.parametrize(
    ("layout", "plain", "job"), [(None, True, True), ("__magic", True, False), ("__magic_job", False, True)]
)
def test_layouts_take_one_kind_of_element_each(layout: str | None, plain: bool, job: bool) -> None:
    dialect = Dialect.of_layout(layout)
    assert dialect.is_magic("__magic") is plain
    assert dialect.is_magic("__magic_job-x") is job


@given(parents=NAMES, magic=MAGIC, middle=NAMES, below=NAMES.filter(bool))
def test_destination_is_parents_plus_what_follows_base(
    parents: list[str], magic: str, middle: list[str], below: list[str]
) -> None:
    path = "/".join(["bucket", *parents, magic, *middle, "__base", *below])
    located = locate(path)
    assert located == MagicPath(
        "bucket", path.removeprefix("bucket/"), tuple(parents), magic, (*middle, "__base", *below)
    )
    assert located is not None
    assert located.final_key == "/".join([*parents, *below])


@given(parents=NAMES, magic=MAGIC, children=NAMES.filter(bool))
def test_destination_without_base_is_parents_plus_last(
    parents: list[str], magic: str, children: list[str]
) -> None:
    located = locate("/".join(["bucket", *parents, magic, *children]))
    assert located is not None
    assert located.final_key == "/".join([*parents, children[-1]])


@given(names=NAMES.filter(bool))
def test_hostile_names_alone_are_never_magic(names: list[str]) -> None:
    assert locate("/".join(["bucket", *names])) is None
