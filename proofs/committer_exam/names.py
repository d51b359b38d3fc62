"""Names that break clients and servers, and which final name each file gets."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from magicfs.errors import CommitFailed, OutputExists
from magicfs.protocol.paths import is_hidden
from proofs.committer_exam.base import DESTINATION, Examined, body, rows_of
from proofs.committer_exam.bench import Bench

__all__ = ["NamesExam", "hostile"]

_PIECES = (
    *("a", "B", "0", " ", "  ", "%", "%20", "%2F", "+", "#", "?", "&", "=", ";", ":", ",", "@", "$", "!"),
    *("~", "^", "'", '"', "(", ")", "[", "]", "{", "}", "*", "|", "<", ">", "-", "_", ".", "..", "é"),
    *("e\u0301", "ß", "ж", "日本", "😀", "\u202e", "part-0", ".parquet", ".tar.gz", "dataset1", "dataset10"),
)
_FILES = 60


def hostile(seed: int) -> list[str]:
    """Relative names of files, none of which is a directory of another; a seed makes the same again."""
    rng = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
    names: set[str] = set()
    while len(names) < _FILES:
        elements = ["".join(rng.choices(_PIECES, k=rng.randint(1, 5))) for _ in range(rng.randint(1, 3))]
        if not any(element in {".", ".."} or "::" in element for element in elements):
            # The end tells every file from every directory.
            names.add("/".join(elements) + ".f")
    return sorted(names)


class NamesExam(Examined):
    """Hostile names, unique names and plain ones."""

    @pytest.mark.parametrize("unique_names", [True, False], ids=["unique", "plain"])
    def test_file_of_any_name_is_published(self, bench: Bench, unique_names: bool, seed: int) -> None:
        """``ITestCommitOperations.testBulkCommitFiles``, HADOOP-17112; the seed makes the names again."""
        job = self.job(bench, unique_names=unique_names)
        names = hostile(seed)
        self.run_task(job, 0, *names)
        if self.place.leaves_hidden_out:  # ``HIDDEN_FILE_FILTER`` of Hadoop's staging committers
            names = [name for name in names if not is_hidden(name.rpartition("/")[2])]
        job.commit(job.commits)
        assert self.rows(bench) == rows_of(*((0, name) for name in names))
        assert unique_names or sorted(self.published(bench)) == names
        directories = Counter(name.rpartition("/")[0] for name in names)
        assert Counter(name.rpartition("/")[0] for name in self.published(bench)) == directories
        self.assert_nothing_left(bench)

    @pytest.mark.parametrize(
        "destination", ["a b/c", "50%", "a+b", "#1", "what?&x=y", "zażółć/日本語", "dataset1", "%2F", "x/__y"]
    )
    def test_destination_of_any_name_works(self, bench: Bench, destination: str) -> None:
        job = self.job(bench, destination)
        self.run_task(job, 0, "a.txt", "d=1/b.txt")
        self.vanish(job, 1, {"lost.txt": b"lost\n"})
        job.commit(job.commits)
        assert self.rows(bench, destination) == rows_of((0, "a.txt"), (0, "d=1/b.txt"))
        self.assert_nothing_left(bench, destination)

    def test_destination_may_be_the_whole_bucket(self, bench: Bench, way: dict[str, Any]) -> None:
        bench.write("old.txt", b"old\n")
        job = self.job(bench, "", **way)
        self.run_task(job, 0, "a.txt", "d=1/b.txt")
        self.vanish(job, 1, {"lost.txt": b"lost\n"})
        job.commit(job.commits)
        assert self.rows(bench, "") == rows_of((0, "a.txt"), (0, "d=1/b.txt")) + Counter(["old"])
        assert "_SUCCESS" in bench.listed()
        self.assert_nothing_left(bench, "")

    def test_unique_name_carries_task_and_job_before_the_first_dot(self, bench: Bench) -> None:
        """``Paths.addUUID`` of Hadoop, plus the task: writers call their files alike in every task. Unlike
        Hadoop's, a path that holds the job's id is made unique all the same.
        """
        job = self.job(bench)
        names = {
            "part-0.parquet": f"part-0-000005-{job.id}.parquet",
            "part-1.tar.gz": f"part-1-000005-{job.id}.tar.gz",
            "noext": f"noext-000005-{job.id}",
            "d.x/part": f"d.x/part-000005-{job.id}",
            f"mine-{job.id}.csv": f"mine-{job.id}-000005-{job.id}.csv",
            f"{job.id}/part-0.csv": f"{job.id}/part-0-000005-{job.id}.csv",
        }
        self.run_task(job, 5, *names)
        job.commit(job.commits)
        assert sorted(self.published(bench)) == sorted(names.values())

    def test_tasks_that_name_their_files_alike_do_not_meet(self, bench: Bench, way: dict[str, Any]) -> None:
        """Hadoop without unique names: the last one to be completed is all that is left."""
        job = self.job(bench, **way)
        for number in range(2):
            self.run_task(job, number, "part-0.txt", f"load={job.id}/part-0.txt")
        if way.get("unique_names") is False:
            with pytest.raises(CommitFailed, match="written by two tasks"):
                job.commit(job.commits)
            assert not self.published(bench)
            job.abort()
        else:
            job.commit(job.commits)
            names = ("part-0.txt", f"load={job.id}/part-0.txt")
            assert self.rows(bench) == rows_of(*((number, name) for number in range(2) for name in names))
        self.assert_nothing_left(bench)

    def test_plain_name_of_a_later_job_is_refused_unless_it_replaces(
        self, bench: Bench, replacing: str
    ) -> None:
        """Hadoop overwrites in every mode. Whatever is appended, nothing that is there may be lost."""
        for row, mode in ((b"old\n", "append"), (b"other\n", "append"), (b"new\n", replacing)):
            before = self.published(bench)
            job = self.job(bench, unique_names=False, mode=mode)
            with job.task(0) as task:
                self.write(task, {"day=1/part-0.txt": row})
            if row == b"other\n":
                with pytest.raises(OutputExists, match=r"1 files .* have names that are taken"):
                    job.commit(job.commits)
                job.abort()
                assert self.published(bench) == before
            else:
                job.commit(job.commits)
                assert self.manifested(job) == {"day=1/part-0.txt"}
            self.assert_nothing_left(bench)
        assert self.published(bench) == {"day=1/part-0.txt": b"new\n"}

    def test_two_files_of_a_task_with_one_final_name_fail_it(self, bench: Bench) -> None:
        job = self.job(bench)
        task = job.task(0).setup()
        self.write(task, {"a.txt": body(0, "a"), f"a-000000-{job.id}.txt": body(0, "b"), "c.txt": b"c\n"})
        with pytest.raises(
            CommitFailed, match=r"more than one pending commit|(have|with) the same final name"
        ):
            task.commit()
        self.assert_only_set_up(bench, job)

    def test_names_do_not_depend_on_the_attempt(self, bench: Bench) -> None:
        job = self.job(bench)
        keys = []
        for _ in range(2):
            with job.task(0) as task:
                self.write(task, {"a.txt": b"row\n"})
            keys.append({key for key, _ in bench.pending(DESTINATION)})
        assert keys[0] == keys[1]
        job.abort()
