from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magicfs.errors import FormatError
from magicfs.formats.fields import LONG_MAX, LONG_MIN, Fields
from magicfs.formats.statistics import UNSET, MeanStatistic, Statistics

EMPTY = {"counters": {}, "gauges": {}, "minimums": {}, "maximums": {}, "meanstatistics": {}}


def read(document: dict[str, object]) -> Statistics:
    return Statistics.from_fields(Fields("p", document, "iostatistics"))


@pytest.mark.parametrize(
    ("kind", "left", "right", "total"),
    [
        ("counters", 2, 3, 5),
        ("counters", -2, 3, 3),
        ("counters", -2, -3, 0),
        ("counters", LONG_MAX, 1, LONG_MAX),
        ("gauges", 2, -3, -1),
        ("gauges", LONG_MIN, -1, LONG_MIN),
        ("minimums", 2, 3, 2),
        ("minimums", UNSET, 3, 3),
        ("minimums", 2, UNSET, 2),
        ("minimums", UNSET, UNSET, UNSET),
        ("minimums", -5, 3, -5),
        ("maximums", 2, 3, 3),
        ("maximums", UNSET, -7, -7),
        ("maximums", -7, UNSET, -7),
        ("meanstatistics", MeanStatistic(1, 10), MeanStatistic(2, 5), MeanStatistic(3, 15)),
        ("meanstatistics", MeanStatistic(0, 99), MeanStatistic(2, 5), MeanStatistic(2, 5)),
        ("meanstatistics", MeanStatistic(2, 5), MeanStatistic(0, 99), MeanStatistic(2, 5)),
    ],
)
def test_aggregates_as_hadoop_does(kind: str, left: object, right: object, total: object) -> None:
    one, other = Statistics(**{kind: {"x": left, "l": left}}), Statistics(**{kind: {"x": right, "r": right}})
    assert one + other == Statistics(**{kind: {"x": total, "l": left, "r": right}})
    assert one == Statistics(**{kind: {"x": left, "l": left}}), "the operands stay as they were"


def test_nothing_aggregated_is_empty() -> None:
    assert Statistics.aggregate(()) == Statistics()
    assert Statistics().to_document() == EMPTY


def test_what_is_missing_is_empty() -> None:
    assert read({}) == Statistics()
    assert read(dict.fromkeys(EMPTY)) == Statistics()


def test_unknown_fields_are_kept_at_both_levels() -> None:
    document = EMPTY | {"meanstatistics": {"m": {"samples": 1, "sum": 2, "p99": 7}}, "histograms": {"h": [1]}}
    found = read(document)
    assert found.unknown == {"histograms": {"h": [1]}}
    assert found.meanstatistics["m"].unknown == {"p99": 7}
    assert found.to_document() == document
    assert (found + Statistics(unknown={"histograms": 0, "z": 1})).unknown == {
        "histograms": {"h": [1]},
        "z": 1,
    }
    assert (found + found).meanstatistics["m"] == MeanStatistic(2, 4, {"p99": 7})


def test_a_negative_sample_count_reads_as_none() -> None:
    mean = read({"meanstatistics": {"m": {"samples": -4, "sum": 8}}}).meanstatistics["m"]
    assert mean.samples == 0
    assert mean.mean == 0.0
    assert MeanStatistic(4, 10).mean == 2.5


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"counters": {"op.x": "1"}}, 'iostatistics.counters["op.x"]'),
        ({"gauges": [1]}, "iostatistics.gauges"),
        ({"minimums": {"a": 1.0}}, "iostatistics.minimums.a"),
        ({"maximums": {"a": True}}, "iostatistics.maximums.a"),
        ({"meanstatistics": {"a": 1}}, "iostatistics.meanstatistics.a"),
        ({"meanstatistics": {"a": {"sum": "1"}}}, "iostatistics.meanstatistics.a.sum"),
    ],
)
def test_wrong_types_are_named(document: dict[str, object], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(document)
    assert caught.value.field == field


_longs = st.dictionaries(st.sampled_from("abc"), st.integers(LONG_MIN, LONG_MAX))
_means = st.dictionaries(
    st.sampled_from("abc"), st.builds(MeanStatistic, st.integers(0, 2**40), st.integers(-(2**40), 2**40))
)
_statistics = st.builds(Statistics, _longs, _longs, _longs, _longs, _means)


@given(_statistics)
def test_round_trip_and_neutral_element(statistics: Statistics) -> None:
    assert read(statistics.to_document()) == statistics
    assert statistics + Statistics() == Statistics() + statistics == statistics


@given(_statistics, _statistics)
def test_a_sum_can_always_be_read_again(one: Statistics, other: Statistics) -> None:
    total = one + other
    assert read(total.to_document()) == total
    assert (other + one).counters == total.counters
    assert (other + one).minimums == total.minimums
    assert (other + one).maximums == total.maximums
