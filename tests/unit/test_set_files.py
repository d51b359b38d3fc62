"""What a job needs of a pending set: the same, whether it is read fast or slowly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import FormatError
from magicfs.formats.footer import FOOTER
from magicfs.formats.pending import EtagFormat, Pending
from magicfs.formats.pendingset import PendingSet
from magicfs.formats.plain_pending import Body, UploadedPart
from magicfs.formats.plain_set import extra_data_of, joined, pending_of, read_plain
from magicfs.formats.statistics import Statistics
from magicfs.formats.task_commit import unpack
from magicfs.protocol.readback import WRITE_ID
from magicfs.transaction import spool
from proofs.scenes.job_scene import JobScene

PATH = "bucket/sales/one.pendingset"
TEXTS = st.text(min_size=1, max_size=5) | st.sampled_from(
    ['"a"', "a b", "é%+#", "a/__magic/b", "\\", "a: 1", '{"b":["\\n",{}]}']
)
# A form that has no room for checksums drops an algorithm that stands alone.
SUMS = st.just((None, None)) | st.tuples(TEXTS, TEXTS)
PARTS = st.builds(lambda etag, sums: UploadedPart(etag, *sums), TEXTS, SUMS)
UPLOADS = st.fixed_dictionaries(
    {
        "upload_id": TEXTS,
        "parts": st.lists(PARTS, min_size=1, max_size=3).map(tuple),
    }
)
BODIES = st.builds(Body, TEXTS, st.integers(0, 2**63 - 1), st.just("0" * 64)).map(lambda one: {"body": one})
OTHERS: dict[str, Any] = {
    "bucket": st.sampled_from(["b", "other", ""]),
    "length": st.integers(0, 2**63 - 1),
    "filename": st.none() | TEXTS,
    "uri": TEXTS,
    "created_ms": st.integers(0, 3),
    "date": st.sampled_from(["", "Tue Nov 14 22:13:20 UTC 2023"]),
    "task_id": TEXTS,
    "job_id": st.sampled_from(["", "job"]),
    "text": TEXTS,
    "extra_data": st.dictionaries(TEXTS | st.sampled_from([WRITE_ID, FOOTER]), TEXTS, max_size=2),
    "statistics": st.just(Statistics()) | st.just(Statistics(counters={"a": 1})),
    "unknown": st.just({}) | st.just({"new": [1]}),
}


@st.composite
def pending_sets(draw: st.DrawFn) -> PendingSet:
    keys = draw(st.lists(TEXTS.filter(lambda key: not key.startswith("/")), unique=True, max_size=4))
    commits = [
        Pending(destination_key=key, **draw(UPLOADS | BODIES), **draw(st.fixed_dictionaries(OTHERS)))
        for key in keys
    ]
    counted = draw(st.just(Statistics()) | st.just(Statistics(counters={"files": 3})))
    extra = draw(st.just({}) | st.just({"task.id": "7"}))
    return PendingSet(job_id=draw(TEXTS), commits=tuple(commits), statistics=counted, extra_data=extra)


def slowly(raw: bytes) -> spool.SetFiles:
    return spool.of_set(PendingSet.from_bytes(PATH, raw), PATH)


def told(files: spool.SetFiles) -> tuple[Any, ...]:
    """All that is read, whatever the form in which the text of a file has its parts."""
    pendings = [pending_of(text) for text in files.texts]
    return ([*map(repr, pendings)], *[list(one) if isinstance(one, tuple) else one for one in files[1:]])


def plain(**changes: Any) -> dict[str, Any]:
    """A set as magicfs writes it, with other members of its only commit."""
    one = Pending(
        upload_id="u",
        bucket="b",
        destination_key="sales/é a%2F.bin",
        parts=(UploadedPart('"5d41"', "CRC32", "AAAA=="), UploadedPart("bare")),
        length=7,
        filename="b/x.pending",
        uri="s3a://b/sales/a",
        created_ms=1,
        date="Tue Nov 14 22:13:20 UTC 2023",
        extra_data={WRITE_ID: "w"},
    )
    document = json.loads(PendingSet(job_id="job", commits=(one,)).to_bytes("object"))
    assert isinstance(document, dict)
    document["commits"][0] |= changes
    return document


def compact(document: object) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.slow
@given(pending_sets(), st.sampled_from(["string", "object"]))
def test_a_set_says_the_same_however_it_is_read(one: PendingSet, etag_format: EtagFormat) -> None:
    raw = one.to_bytes(etag_format)
    assert told(spool.read(PATH, raw)) == told(slowly(raw))
    assert [pending_of(text) for text in spool.read(PATH, raw).texts] == list(one.commits)


@given(st.data())
def test_what_is_not_a_set_is_read_by_nobody(data: st.DataObject) -> None:
    """Bytes of a set are changed, left out, doubled: what the fast reader takes, the slow one takes."""
    raw = compact(plain())
    start = data.draw(st.integers(0, len(raw) - 1))
    stop = data.draw(st.integers(start, min(len(raw), start + 40)))
    put = data.draw(
        st.binary(max_size=2)
        | st.sampled_from(
            [b'"', b",", b" ", b"0", b"-1", b"1e9", b"NaN", b"\\u0041", b"\\ud800", b"\n", b"{}"]
        )
        | st.just(raw[start:stop] * 2)
    )
    changed = raw[:start] + put + raw[stop:]
    if read_plain(PATH, changed) is not None:
        assert told(spool.read(PATH, changed)) == told(slowly(changed))


@pytest.mark.parametrize("etag_format", ["string", "object"])
def test_what_jobs_write_is_read_fast(etag_format: EtagFormat) -> None:
    scene = JobScene()
    files = {"p=1/a b.bin": b"1", "é.bin": b"22", "c.csv": b'a,"b"\n1,2\n'}
    for tracking, small in (("store", None), ("memory", None), ("memory", 100)):
        form = {"etag_format": etag_format}
        job = scene.job("append", form=form, tracking=tracking, small_files=small, footers=True)
        for commit in scene.wrote(job, files, {}):
            assert commit.content is not None
            raws = [unpack(PATH, commit.content)]
            if commit.set_key:
                raws.append(scene.objects()[commit.set_key][0])
            for raw in raws:
                read = read_plain(PATH, raw)
                assert read is not None
                assert len(read.texts) == commit.files
                told = [extra_data_of(text) for text in read.texts]
                assert told == [one.extra_data for one in read.commits]
                assert sum(FOOTER in one for one in told) == min(1, commit.files)
        job.abort()


@pytest.mark.parametrize(
    "changes",
    [
        {"new": 1},
        {"length": -1},
        {"length": 2**63 - 1},
        {"length": True},
        {"partCount": 1.5},
        {"partCount": None},
        {"version": 1},
        {"uploadId": ""},
        {"destinationKey": "/a"},
        {"etags": []},
        {"etags": [""]},
        {"etags": [{"etag": "x"}]},
        {"etags": ["[]"]},
        {"extraData": {"a": 1}},
        {"extraData": {"a": 1, "b": "{}"}},
        {"extraData": {"a": "\x01"}},
        {"extraData": {"a": {"b": "c"}}},
        {"extraData": ["a"]},
        {"text": "a\nb"},
        {"text": '"'},
        {"iostatistics": {}},
        {"created": 10**18},
    ],
)
def test_what_is_unusual_is_left_to_the_slow_reader(changes: dict[str, Any]) -> None:
    assert read_plain(PATH, compact(plain())) is not None
    raw = compact(plain(**changes))
    try:
        expected = told(slowly(raw))
    except FormatError:
        assert read_plain(PATH, raw) is None
        with pytest.raises(FormatError):
            spool.read(PATH, raw)
    else:
        assert told(spool.read(PATH, raw)) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"length":7', '"length":7,"length":7'),
        ('"text":""', '"text":"","text" :""'),
        ('"iostatistics":{"counters"', '"iostatistics":{"counters":{},"counters"'),
        (f'"{WRITE_ID}":"w"', f'"{WRITE_ID}":"w","{WRITE_ID}":"v"'),
        (f'"{WRITE_ID}":"w"', f'"{WRITE_ID}":"\\x"'),
        (f'"{WRITE_ID}":"w"', f'"{WRITE_ID}":"w"}}"a":"b"'),
        (f'"{WRITE_ID}":"w"', f'"{WRITE_ID}":"w",'),
        (f'"{WRITE_ID}":"w"', f'"{WRITE_ID}":"w\\"'),
        ('"etag":"bare"', '"etag":"bare","etag":"bare"'),
        ('"text":""', '"text":"\\ud800"'),
        ('"partCount":2', '"partCount":NaN'),
        ('"partCount":2}]', '"partCount":2},]'),
        ('"partCount":2}]', '"partCount":2}'),
        ('"jobId":"job"', '"jobId":"job","jobId":"job"'),
        ('"version":3', '"version":2'),
    ],
)
def test_what_the_slow_reader_refuses_the_fast_one_does_not_take(old: str, new: str) -> None:
    text = compact(plain()).decode()
    assert old in text
    raw = text.replace(old, new, 1).encode()
    assert read_plain(PATH, raw) is None
    with pytest.raises(FormatError):
        spool.read(PATH, raw)


def test_two_files_of_one_key_are_refused() -> None:
    document = plain()
    document["commits"] *= 2
    with pytest.raises(FormatError, match="more than one pending commit"):
        spool.read(PATH, compact(document))


@given(st.lists(pending_sets(), max_size=3))
def test_commits_that_are_put_together_are_what_they_were(sets: list[PendingSet]) -> None:
    keys: set[str] = set()
    commits = []
    for one in [file for each in sets for file in each.commits]:
        if one.destination_key not in keys:
            commits.append(one)
            keys.add(one.destination_key)
    raws = [PendingSet(commits=(one,)).to_bytes("string") for one in commits]
    texts = [text for raw in raws for text in spool.read(PATH, raw).texts]
    counted = Statistics(counters={"files": len(commits)})
    expected = PendingSet(job_id="job", commits=tuple(commits), statistics=counted)
    assert PendingSet.from_bytes(PATH, joined("job", texts, counted)) == expected
