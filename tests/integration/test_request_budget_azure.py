"""How many requests go over the wire to Azure's Blob service, counted by a proxy, and what Azure bills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from adlfs import AzureBlobFileSystem

from magicfs.job.job import Job
from magicfs.stores.azure import folders as azure_folders
from magicfs.testing.fault_proxy import FaultProxy
from magicfs.testing.faults import Action, Rule
from proofs.doubles.azure_operations import CLASSES, azure_operation, classes
from proofs.doubles.azurite import Azurite
from proofs.scenes.arranged import arranged
from proofs.scenes.known import all_ended

pytestmark = pytest.mark.nightly

PAGE = (Path(__file__).parents[2] / "docs" / "azure.md").read_text()
FILE = Counter({"Put Block": 2})
RECORDS = {"store": Counter({"Put Blob": 2}), "memory": Counter[str]()}
SETUP = Counter(
    {
        "List Blobs": 3,
        "List Blobs, uncommitted too": 1,
        "Get Blob Properties": 2,
        "Put Blob": 2,
    }
)
# What kind of account it is, and what the store honours: once for each container in a process.
TRIALS = Counter(
    {
        "Get Account Information": 1,
        "List Blobs": 1,
        "Get Blob Properties": 4,
        "Put Blob": 5,
        "Put Block": 3,
        "Get Block List": 2,
        "Put Block List": 1,
        "Delete Blob": 4,
    }
)
TASK_COMMIT = {
    "store": Counter({"List Blobs": 1, "Put Blob": 1, "Delete Blob": 4}),
    "memory": Counter[str](),
}
COMMIT = Counter(
    {
        "List Blobs": 3,
        "List Blobs, uncommitted too": 1,
        "Get Blob Properties": 5,
        "Get Blob": 2,
        "Put Blob": 6,
        "Delete Blob": 2,
    }
)
PENDING_SET = {"store": Counter({"Delete Blob": 1}), "memory": Counter[str]()}
PUBLISHED = Counter({"Get Block List": 1, "Put Block List": 1})
COSTS = {
    "checking the account and its conditions, once per container and process": TRIALS,
    "`job.setup()`": SETUP,
    "writing both files": FILE + FILE + RECORDS["store"] + RECORDS["store"],
    'writing both files, `tracking="memory"`': FILE + FILE,
    "task commit": TASK_COMMIT["store"],
    "`job.commit()`": COMMIT + PENDING_SET["store"] + PUBLISHED + PUBLISHED,
}


class Wire:
    """A container behind a proxy that counts."""

    def __init__(self, server: Azurite, container: str, proxy: FaultProxy) -> None:
        self.server = server
        self.container = container
        self.proxy = proxy

    def job(self, **options: Any) -> Job:
        storage_options = {"connection_string": self.server.connection_string(self.proxy.endpoint)}
        return Job(
            f"abfs://{self.container}/sales",
            mode="append",
            storage_options=storage_options,
            **arranged(**options),
        )

    def since(self) -> Counter[str]:
        """What was counted since the last call."""
        all_ended()
        counted = self.proxy.counts
        self.proxy.clear()
        return counted


@pytest.fixture
def wire(azurite: Azurite, bucket_factory: Callable[..., str]) -> Iterator[Wire]:
    azure_folders._known.clear()
    with FaultProxy(azurite.endpoint, azure_operation) as proxy:
        yield Wire(azurite, bucket_factory(azurite, "wire"), proxy)
        AzureBlobFileSystem.clear_instance_cache()
    azure_folders._known.clear()


def test_page_has_these_numbers_by_the_classes_that_azure_bills() -> None:
    flat = [name for name in CLASSES if not name.startswith("iterative")]
    rows = [f"| two files of one part, one task | {' | '.join(flat)} |", f"| ---{' | ---:' * len(flat)} |"]
    for what, counts in COSTS.items():
        billed = classes(counts)
        assert billed.keys() <= set(flat)
        rows.append(f"| {what} | {' | '.join(str(billed[name]) for name in flat)} |")
    table = "\n".join(rows)
    assert table in PAGE, f"docs/azure.md must hold:\n{table}"


def test_page_says_which_operation_is_of_which_class() -> None:
    ours = {"List Blobs, uncommitted too"}
    rows = [f"| {name} | {', '.join(sorted(known - ours))} |" for name, known in CLASSES.items()]
    table = "\n".join(rows)
    assert table in PAGE, f"docs/azure.md must hold:\n{table}"


@pytest.mark.parametrize("tracking", ["store", "memory"])
def test_two_files_cost_what_the_tables_say(wire: Wire, tracking: Any) -> None:
    job = wire.job(tracking=tracking)
    assert wire.since() == {}

    job.setup()
    counted = wire.since()
    assert counted == SETUP + TRIALS
    assert "unknown" not in classes(counted)

    with job.task(0) as task:
        for name in ("a b.parquet", "c%20d.parquet"):
            pq.write_table(pa.table({"x": [1]}), f"{task.path}/{name}", filesystem=task.filesystem)
        counted = wire.since()
        assert counted == FILE + FILE + RECORDS[tracking] + RECORDS[tracking]
        assert classes(counted)["write"] == counted.total()
    assert wire.since() == TASK_COMMIT[tracking]

    job.commit([task.committed])
    counted = wire.since()
    assert counted == COMMIT + PENDING_SET[tracking] + PUBLISHED + PUBLISHED
    assert "unknown" not in classes(counted)
    assert len(wire.server.visible_keys(wire.container, "sales/")) == 2


def test_second_job_of_a_process_tries_nothing_again(wire: Wire) -> None:
    wire.job().setup().abort()
    wire.since()
    wire.job().setup()
    assert wire.since() == SETUP


def test_file_without_bytes_costs_one_block_less(wire: Wire) -> None:
    with wire.job(tracking="memory") as job, job.task(0) as task:
        wire.since()
        task.filesystem.pipe_file(f"{task.path}/empty", b"")
        assert wire.since() == {"Put Block": 1}


@pytest.mark.parametrize("action", [Action.LOST, Action.RESET, Action.ERROR])
@pytest.mark.parametrize(
    "operation",
    [
        *("Put Block", "Put Blob", "Get Block List", "Put Block List", "List Blobs"),
        *("List Blobs, uncommitted too", "Get Blob", "Get Blob Properties", "Delete Blob"),
    ],
)
def test_request_that_fails_once_or_whose_answer_is_lost_is_made_again(
    wire: Wire, operation: str, action: Action
) -> None:
    with wire.job() as job:
        wire.proxy.add(Rule(operation, action, times=1))
        with job.task(0) as task, task.filesystem.open(f"{task.path}/a.txt", "wb") as file:
            file.write(b"once")
    requests = wire.proxy.requests
    [broken] = [request for request in requests if request.action]
    assert broken.action is action
    after = requests[requests.index(broken) + 1 :]
    # Blocks that are a file by now cannot be committed again: what is there tells that it was done.
    again = "Get Block List" if (operation, action) == ("Put Block List", Action.LOST) else operation
    assert [one for one in after if (one.operation, one.path) == (again, broken.path)]
    keys = wire.server.visible_keys(wire.container, "sales/")
    assert [wire.server.read(wire.container, key) for key in keys] == [b"once"]
    assert wire.server.uploads(wire.container) == set()
    assert [key for key in wire.server.all_keys(wire.container) if "__magic" in key] == []
