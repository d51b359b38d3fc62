"""Jobs that somebody has forged, or made worse: whoever meets them does nothing outside of their place."""

from __future__ import annotations

import json
from typing import Any

import pytest

import magicfs
from magicfs.errors import CommitFailed, FormatError, UsageError
from magicfs.protocol.job_state import JobState
from magicfs.stores import object_settings
from proofs.hostile.ground import MemoryGround, built
from proofs.scenes.unfinished import died_in


@pytest.fixture
def ground() -> MemoryGround:
    made = MemoryGround()
    built(made, "own path")
    return made


def forged(ground: MemoryGround, state: JobState, changes: dict[str, Any], **options: Any) -> str:
    """A job of today's run that died, of whose object somebody has changed some fields."""
    changes = dict(changes)
    how = {"filesystem": ground.filesystem, "run_id": "today", **options}
    job = died_in(state, ground.url("sales"), completed=1, **how)
    key = job.spec.work_layout.job_object_key
    document = json.loads(ground.objects()[key])
    changes = {"options": document["options"] | changes.pop("options", {}), **changes}
    ground.put(key, json.dumps(document | changes).encode())
    return str(job.id)


def run_again(ground: MemoryGround, run: str) -> None:
    again = magicfs.Job(ground.url("sales"), mode="append", run_id=run, filesystem=ground.filesystem)
    with again, again.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/again.csv", b"again")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"options": {"places": {"extra": ["finance"]}}}, FormatError),
        ({"objectSettings": {"ACL": "public-read"}}, UsageError),
        ({"changed": 2**62}, FormatError),
    ],
)
def test_a_run_does_not_finish_a_predecessor_that_cannot_be_believed(
    ground: MemoryGround, changes: dict[str, Any], error: type[Exception]
) -> None:
    job = forged(ground, JobState.COMMITTING, changes)
    before, uploads = ground.objects(), dict(ground.world.uploads)
    with pytest.raises(error, match=rf"{job}|ACL"):
        run_again(ground, "today")
    assert ground.objects() == before
    assert ground.world.uploads.keys() == uploads.keys()
    run_again(ground, "tomorrow")  # other runs go on


def test_a_job_is_finished_where_it_says_so_and_where_that_is_confirmed(ground: MemoryGround) -> None:
    extra = [ground.url("late")]
    job = died_in(
        JobState.COMMITTING, ground.url("sales"), filesystem=ground.filesystem, extra_destinations=extra
    )
    location = f"late/__magic_job-{job.id}/job-{job.id}/job-location.json"
    kept = ground.objects()[location]
    ground.put(location, kept.replace(b'"sales"', b'"finance"'))
    with pytest.raises(FormatError, match="'late' does not confirm job"):
        magicfs.Dataset(ground.url("sales"), filesystem=ground.filesystem).recover(job=job.id)
    ground.put(location, kept)
    (done,) = magicfs.Dataset(ground.url("sales"), filesystem=ground.filesystem).recover(job=job.id).jobs
    assert done.action == "finished"
    assert location not in ground.objects()


@pytest.mark.parametrize("state", [JobState.OPEN, JobState.ABORTING, JobState.COMPLETED])
def test_a_job_whose_location_is_gone_comes_to_its_end(ground: MemoryGround, state: JobState) -> None:
    """Its cleanup removes the location before the object, and may be cut in between."""
    extra = [ground.url("late")]
    job = died_in(state, ground.url("sales"), filesystem=ground.filesystem, extra_destinations=extra)
    del ground.world.objects[f"late/__magic_job-{job.id}/job-{job.id}/job-location.json"]
    abort = state is JobState.OPEN
    magicfs.Dataset(ground.url("sales"), filesystem=ground.filesystem).recover(job=job.id, abort=abort)
    assert not [key for key in ground.objects() if f"job-{job.id}" in key]


def test_a_location_that_names_another_job_s_place_keeps_nobody_away(ground: MemoryGround) -> None:
    job = forged(ground, JobState.REVERTING, {})
    document = {"format": "magicfs.job-location/1", "jobId": job, "destination": "sales"}
    ground.put(f"late/__magic_job-{job}/job-{job}/job-location.json", json.dumps(document).encode())
    new = magicfs.Job(ground.url("late"), mode="overwrite", filesystem=ground.filesystem)
    with new, new.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/new.csv", b"new")
    assert new.report is not None


@pytest.mark.parametrize(
    "key", ["sales/_magicfs/current.json", "sales/a/../../finance/x", "sales//a", "sales/a/"]
)
def test_no_task_publishes_what_is_no_file_of_data(ground: MemoryGround, key: str) -> None:
    job = magicfs.Job(ground.url("sales"), mode="append", filesystem=ground.filesystem).setup()
    with job.task(0) as task:
        task.filesystem.pipe_file(f"{task.path}/a.csv", b"a")
    (name,) = [one for one in ground.objects() if one.endswith(".pendingset") and str(job.id) in one]
    document = json.loads(ground.objects()[name])
    document["commits"][0]["destinationKey"] = key
    ground.put(name, json.dumps(document).encode())
    with pytest.raises(CommitFailed, match=r"is not a valid key for data.*nothing was published"):
        job.commit()
    job.abort()


GIVES = [{"ACL": "public-read"}, {"GrantRead": "uri=x"}, {"SSEKMSKeyId": "arn:aws:kms:eu-west-1:1:key/2"}]
HARMLESS = [
    {"ACL": "bucket-owner-full-control"},
    {"SSEKMSKeyId": "1234abcd", "ServerSideEncryption": "aws:kms"},
    {"StorageClass": "STANDARD_IA", "Tagging": "team=a"},
]


@pytest.mark.parametrize("settings", GIVES)
def test_a_record_gives_no_rights_away_that_this_process_was_not_given(settings: dict[str, str]) -> None:
    with pytest.raises(
        UsageError, match=r"does not take access rights from a record.*nothing was changed.*give it"
    ):
        object_settings.check_recorded(settings, {})
    with pytest.raises(UsageError, match="access rights from a record"):
        object_settings.check_recorded(settings, dict.fromkeys(settings, "another"))
    object_settings.check_recorded(settings, settings)


@pytest.mark.parametrize("settings", HARMLESS)
def test_a_record_brings_back_what_gives_nothing_away(settings: dict[str, str]) -> None:
    object_settings.check_recorded(settings, {})
